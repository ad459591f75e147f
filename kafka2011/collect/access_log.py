"""Lines of a web server's access log, in the common or the combined format, as page views."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from functools import lru_cache
from typing import Any

_QUOTED = r'"((?:[^"\\]|\\.)*)"'
_PARTS = {
    "host": r"(\S+)",
    "identity": r"\S+",
    "user": r"(\S+)",
    "time": r"\[([^]]+)\]",
    "request": _QUOTED,
    "status": r"([0-9]{3})",
    "bytes": r"([0-9]{1,18}|-)",
}
_MORE_PARTS = {"referrer": _QUOTED, "user agent": _QUOTED}
_LINE = re.compile(rf"{' '.join(_PARTS.values())}(?: {' '.join(_MORE_PARTS.values())})?")
_TIME_AT = re.compile(_PARTS["time"])
_TIME = re.compile(r"(\d{2})/(\w{3})/(\d{4}):(\d{2}):(\d{2}):(\d{2}) ([+-])(\d{2})(\d{2})", re.ASCII)
_MONTHS = {
    name: number
    for number, name in enumerate(
        ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"), start=1
    )
}


def page_view(line: bytes | str) -> dict[str, Any]:
    """Return the fields of a `PageView` for one line of an access log; `line` keeps the line unchanged.

    A line that cannot be parsed has `parse_error` and what could be parsed; bytes that are not UTF-8 become escapes.
    `time` is the line's own, in microseconds since 1970, and absent if it has none. Never raises.
    """
    text = line.decode("utf-8", "backslashreplace") if isinstance(line, bytes) else line
    text = text.rstrip("\r\n")
    event: dict[str, Any] = {"line": text}
    match = _LINE.fullmatch(text)
    if match is None:
        event["parse_error"] = _why_not(text)
        at = _TIME_AT.search(text)
        time_text = at[1] if at else ""
    else:
        host, user, time_text, request, status, size, referrer, agent = match.groups()
        event |= {
            "remote_host": host,
            "remote_user": _known(user),
            "status": int(status),
            "response_bytes": None if size == "-" else int(size),
            "referrer": _known(referrer),
            "user_agent": _known(agent),
        }
        words = request.split(" ")
        if len(words) == 3:
            event["method"], event["url"], event["protocol"] = words
        else:
            event["parse_error"] = "request: not a method, an address and a protocol"
    try:
        event["time"] = _time_us(time_text)
    except ValueError as error:
        event.setdefault("parse_error", f"time: {error}")
    return event


def _known(text: str | None) -> str | None:
    return None if text == "-" else text


def _why_not(text: str) -> str:
    """Name the first malformed part of a line."""
    pattern = ""
    for name, part in (_PARTS | _MORE_PARTS).items():
        pattern += f" {part}" if pattern else part
        if not re.match(rf"{pattern}(?: |$)", text):
            return f"{name}: not as in the combined log format"
    return "more than the combined log format has"


@lru_cache(1024)
def _time_us(text: str) -> int:
    """Read 17/May/2015:10:05:03 +0000, in any locale, as microseconds since 1970. Raises ValueError."""
    match = _TIME.fullmatch(text)
    if match is None or match[2] not in _MONTHS:
        raise ValueError(f"{text!r} is not like 17/May/2015:10:05:03 +0000")
    day, month, year, hour, minute, second, sign, zone_hours, zone_minutes = match.groups()
    zone = timedelta(hours=int(zone_hours), minutes=int(zone_minutes))
    local = timezone(-zone if sign == "-" else zone)
    time = datetime(int(year), _MONTHS[month], int(day), int(hour), int(minute), int(second), tzinfo=local)
    return (time - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
