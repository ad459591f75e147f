"""Times as people write them: ISO 8601, milliseconds, or relative to now."""

from __future__ import annotations

import logging
import re
from datetime import datetime, timedelta

logger = logging.getLogger(__name__)

TIMES = "an ISO 8601 time, 20:00, today, yesterday, -30m, -1h, -7d, or @ and ms"
"""What `parse_time_ms` reads, for errors and help."""

_AGO = re.compile(r"-([0-9]{1,9})([smhdw])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_OF_DAY = re.compile(r"[0-9]{1,2}:[0-9]{2}(:[0-9]{2})?")


def parse_time_ms(text: str, now: datetime | None = None) -> int:
    """Read a time as ms since 1970. Raises ValueError.

    A time without a zone is local, and says so: what it is compared with comes from other machines. A time of day is
    the newest one that has been; days begin at midnight.
    """
    if text.startswith("@") and text[1:].isascii() and text[1:].isdigit():
        return int(text[1:])
    now = datetime.now().astimezone() if now is None else now
    ago = _AGO.fullmatch(text)
    if ago is not None:
        return _ms(now - timedelta(**{_UNITS[ago[2]]: int(ago[1])}))
    time = _local(text, now)
    if time is None:
        time = datetime.fromisoformat(text)
        if time.tzinfo is not None:
            return _ms(time)
        time = time.astimezone()
    logger.warning("%s names no zone: taken as local time, %s", text, time.isoformat(timespec="minutes"))
    return _ms(time)


def _local(text: str, now: datetime) -> datetime | None:
    """Return what a day or a time of day means in local time; None for other text."""
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None)
    if text in {"today", "yesterday"}:
        return (midnight - timedelta(days=text == "yesterday")).astimezone()
    if not _OF_DAY.fullmatch(text):
        return None
    hour, minute, *second = map(int, text.split(":"))
    time = midnight.replace(hour=hour, minute=minute, second=second[0] if second else 0)
    return (time if time.astimezone() <= now else time - timedelta(days=1)).astimezone()


def _ms(time: datetime) -> int:
    return int(time.timestamp() * 1000)
