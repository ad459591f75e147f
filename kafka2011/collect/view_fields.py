"""Values of access logs, as they become fields of a page view: times, requests, numbers and durations.

`KINDS` names what a value of a log can be: a field of a page view, or what one is made from (`request` holds a method,
a URL and a protocol).
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

KINDS = frozenset(
    {
        *("time", "request", "method", "url", "path", "query", "protocol", "status", "response_bytes"),
        *("remote_host", "remote_user", "referrer", "user_agent", "virtual_host", "forwarded_for"),
        *("duration_s", "duration_ms", "duration_us", "duration_ns", "utc_date", "utc_time"),
    }
)
"""What a value of a log can be."""

NO_REQUEST = "request: not a method, an address and a protocol"
"""The parse error of a line that is whole, but whose client sent no HTTP request."""

_CLF_TIME = re.compile(
    r"(\d{1,2})/(\w{3})/(\d{4}):(\d{2}):(\d{2}):(\d{2})(?:[.,](\d{1,9}))? ([+-])(\d{2}):?(\d{2})", re.ASCII
)
_EPOCH = re.compile(r"(\d{1,19})(?:\.(\d{1,9})\d*)?", re.ASCII)
_ISO_FRACTION = re.compile(r"([.,]\d{6})\d+", re.ASCII)
_MONTHS = {
    name: number
    for number, name in enumerate(
        ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"), start=1
    )
}
_1970 = datetime(1970, 1, 1, tzinfo=UTC)
_METHOD = re.compile(r"[A-Za-z][A-Za-z_-]{0,31}", re.ASCII)
_PROTOCOL = re.compile(r"[A-Za-z]{1,16}/[0-9][0-9.]{0,8}", re.ASCII)
_DURATION = re.compile(r"(\d{1,15})(?:\.(\d{1,9})\d*)?(?:s|ms)?", re.ASCII)
_MICROSECONDS = {"duration_s": 10**6, "duration_ms": 10**3, "duration_us": 1, "duration_ns": 0}
_MAX_LONG = 2**63 - 1
_EPOCH_UNITS = ((10**11, 10**6, 1), (10**14, 10**3, 1), (10**17, 1, 1), (10**20, 1, 10**3))
"""Below each number, a time is in seconds, milliseconds, microseconds or nanoseconds since 1970."""


def known(text: str | None) -> str | None:
    """Return a value, None for the dash that a log has instead of one."""
    return None if text == "-" else text


@lru_cache(1024)
def time_us(text: str) -> int:
    """Return a time as microseconds since 1970, whatever the locale. Raises ValueError.

    It is written as 17/May/2015:10:05:03 +0000, in ISO 8601 with a zone, or as a number since 1970.
    """
    match = _CLF_TIME.fullmatch(text)
    if match is not None and match[2] in _MONTHS:
        day, month, year, hour, minute, second, fraction, sign, zone_hours, zone_minutes = match.groups()
        zone = timedelta(hours=int(zone_hours), minutes=int(zone_minutes))
        local = timezone(-zone if sign == "-" else zone)
        time = datetime(int(year), _MONTHS[month], int(day), int(hour), int(minute), int(second), tzinfo=local)
        return since_1970_us(time) + _fraction_us(fraction)
    number = _EPOCH.fullmatch(text)
    if number is not None:
        return _epoch_us(int(number[1]), number[2] or "")
    try:
        iso = datetime.fromisoformat(_ISO_FRACTION.sub(r"\1", text))
    except ValueError:
        raise ValueError(f"{text!r} is not like 17/May/2015:10:05:03 +0000") from None
    if iso.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone")
    return since_1970_us(iso)


def since_1970_us(time: datetime) -> int:
    """Return a time with a zone as microseconds since 1970."""
    return (time - _1970) // timedelta(microseconds=1)


def _fraction_us(digits: str | None) -> int:
    return int((digits or "0")[:6].ljust(6, "0"))


def _epoch_us(whole: int, fraction: str) -> int:
    for below, factor, divisor in _EPOCH_UNITS:
        if whole < below:
            part = int(fraction.ljust(9, "0")) * factor // 10**9 if fraction else 0
            return whole * factor // divisor + part
    raise ValueError(f"{whole} is too large for a time")


def request_fields(text: str) -> dict[str, Any] | None:
    """Return method, URL and protocol of a request line; None if it is none. HTTP/0.9 names no protocol."""
    method, _, rest = text.partition(" ")
    if not _METHOD.fullmatch(method) or not rest:
        return None
    url, _, protocol = rest.rpartition(" ")
    if url and _PROTOCOL.fullmatch(protocol):
        return {"method": method, "url": url, "protocol": protocol}
    if method.isupper() and (rest[0] == "/" or "://" in rest):
        return {"method": method, "url": rest, "protocol": None}
    return None


def _put_text(event: dict[str, Any], kind: str, text: str) -> None:
    event[kind] = known(text)


def _put_user(event: dict[str, Any], kind: str, text: str) -> None:
    if len(text) > 1 and text[0] == text[-1] == '"':
        text = text[1:-1]
    event[kind] = known(text) or None


def _put_status(event: dict[str, Any], kind: str, text: str) -> None:
    if text == "-":
        event[kind] = None
    elif len(text) == 3 and text.isascii() and text.isdigit():
        event[kind] = int(text)
    else:
        raise ValueError(f"{text[:40]!r} is not three digits")


def _put_bytes(event: dict[str, Any], kind: str, text: str) -> None:
    if text in {"-", ""}:
        event[kind] = None
    elif len(text) < 19 and text.isascii() and text.isdigit():
        event[kind] = int(text)
    else:
        raise ValueError(f"{text[:40]!r} is not a number of bytes")


def _put_time(event: dict[str, Any], kind: str, text: str) -> None:
    event[kind] = time_us(text.removeprefix("[").removesuffix("]"))


def _put_request(event: dict[str, Any], _kind: str, text: str) -> None:
    fields = request_fields(text)
    if fields is None:
        event.setdefault("parse_error", NO_REQUEST)
    else:
        event |= fields


def _put_query(event: dict[str, Any], _kind: str, text: str) -> None:
    if text not in {"", "-"} and "?" not in (event.get("url") or ""):
        event["url"] = f"{event.get('url') or ''}{text if text.startswith('?') else f'?{text}'}"


def _put_duration(event: dict[str, Any], kind: str, text: str) -> None:
    if text in {"-", ""}:
        return
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError(f"{text[:40]!r} is not a duration")
    nanoseconds = int(match[1]) * 10**9 + int((match[2] or "").ljust(9, "0"))  # of its unit, whatever that is
    factor = _MICROSECONDS[kind]
    duration = nanoseconds * factor // 10**9 if factor else int(match[1]) // 1000
    if duration > _MAX_LONG:
        raise ValueError(f"{text[:40]!r} is too long")
    event.setdefault("duration_us", duration)  # the finest unit comes first


def _put_date(event: dict[str, Any], _kind: str, text: str) -> None:
    event["time"] = time_us(f"{text}T00:00:00+00:00")


def _put_time_of_day(event: dict[str, Any], _kind: str, text: str) -> None:
    if "time" in event:
        event["time"] += time_us(f"1970-01-01T{text}+00:00")


def _put_path(event: dict[str, Any], _kind: str, text: str) -> None:
    if event.get("url") is None:
        event["url"] = known(text)


_PUT: dict[str, Callable[[dict[str, Any], str, str], None]] = {
    "time": _put_time,
    "request": _put_request,
    "path": _put_path,
    "query": _put_query,
    "status": _put_status,
    "response_bytes": _put_bytes,
    "remote_user": _put_user,
    "utc_date": _put_date,
    "utc_time": _put_time_of_day,
    **dict.fromkeys(_MICROSECONDS, _put_duration),
}
_ORDER = {
    "path": 0,
    "query": 1,
    "utc_date": 0,
    "utc_time": 1,
    "duration_ns": 0,
    "duration_us": 1,
    "duration_ms": 2,
    "duration_s": 3,
}


def in_order(kinds: list[str]) -> list[int]:
    """Return the places of kinds in the order in which their values are put: those that others add to come first."""
    return sorted(range(len(kinds)), key=lambda place: _ORDER.get(kinds[place], -1))


def put(event: dict[str, Any], kind: str, text: str) -> None:
    """Put a value into an event; one that is not of its kind becomes the `parse_error`, if that is the first."""
    try:
        _PUT.get(kind, _put_text)(event, kind, text)
    except (ValueError, OverflowError) as error:
        event.setdefault("parse_error", f"{kind}: {error}")
