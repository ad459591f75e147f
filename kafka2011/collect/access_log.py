"""Lines of a web server's access log as page views: in the formats that servers ship, or in one that is given."""

from __future__ import annotations

import ipaddress
import json
import re
from functools import lru_cache
from typing import Any

from kafka2011.collect.json_lines import KNOWN_NAMES, put_json
from kafka2011.collect.log_format import compile_format
from kafka2011.collect.view_fields import NO_REQUEST, known, put, request_fields, time_us

_QUOTED = r'"((?:[^"\\]|\\.)*+)"'
_PARTS = {
    "host": r"(\S+)",
    "identity": r"(\S+)",
    "user": r"(\S+)",
    "time": r"\[([^]]+)\]",
    "request": _QUOTED,
    "status": r"([0-9]{3}|-)",
    "bytes": r"([0-9]{1,18}|-)",
}
_MORE_PARTS = {"referrer": _QUOTED, "user agent": _QUOTED}
_LINE = re.compile(rf"{' '.join(_PARTS.values())}(?: {' '.join(_MORE_PARTS.values())}(?: (.*))?)?", re.DOTALL)
_DATE = r" \[(\d{1,2}/\w{3}/\d{4}:[^]]{1,40})\]"
_DATE_AT = re.compile(_DATE, re.ASCII)
_CORE = re.compile(rf"{_DATE} {_QUOTED} {_PARTS['status']} {_PARTS['bytes']}(?= |$)", re.ASCII)
_FRONT_CHARACTERS = 2000
"""How far into a line its time may stand: each place is tried, and a line may be long."""
_AGENT = re.compile(rf"{_QUOTED} {_QUOTED}(?= |$)")
_TRAEFIK = re.compile(rf'(-) {_QUOTED}(?= \d+ ")')
_REST = re.compile(r'(?:[^\s"]*="[^"]*"|[^\s"]++(?=\s|$)|"(?:[^"\\]|\\.)*+"(?=\s|$)|\s+)*+(?:"[^"]*)?')
_HOST_AND_PORT = re.compile(r"[^:\s]+:\d{1,5}", re.ASCII)
_ONE_QUOTED = re.compile(rf'{_QUOTED}(?=$| [^"])')
_TIME_AT = re.compile(r"\[([^]]{1,100})\]")
_CARRIERS = (
    re.compile(r"\d{4}-\d\d-\d\dT\S{8,40} (?:stdout|stderr) F (.*)", re.DOTALL | re.ASCII),  # CRI
    re.compile(  # syslog, as files and the network have it
        r"(?:<\d{1,3}>)?(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d|\d{4}-\d\d-\d\dT\S{8,40}) \S+ [^\s:]{1,100}: (.*)",
        re.DOTALL | re.ASCII,
    ),
    re.compile(r"<\d{1,3}>1 \d{4}-\d\d-\d\dT\S{8,40} \S+ \S+ \S+ \S+ - (?:\ufeff)?(.*)", re.DOTALL),  # RFC 5424
)
"""What Kubernetes and syslog write in front of a line."""

_DOCKER = '{"log":"'


def page_view(line: bytes | str, log_format: str = "") -> dict[str, Any]:
    """Return the fields of a `PageView` for one line of an access log; `line` keeps the line unchanged.

    Without a `log_format` (see `kafka2011 collect --help`) it is in the common or combined format: fields may follow,
    and a virtual host, addresses of proxies, or what syslog and containers add may stand in front; or it is JSON with
    the names that servers give. A line that cannot be parsed has `parse_error` and what could be parsed; bytes that are
    not UTF-8 become escapes. `time` is the line's own, in microseconds since 1970, and absent if it has none. Raises
    only ConfigError, for a `log_format` that cannot be used.
    """
    text = line.decode("utf-8", "backslashreplace") if isinstance(line, bytes) else line
    text = text.rstrip("\r\n")
    event: dict[str, Any] = {"line": text}
    if log_format:
        compile_format(log_format)(event, text)
        return event
    match = _LINE.fullmatch(text)
    if match is None or match[2] != "-" or '"' in match[1] or _is_address(match[3]) or not _is_whole(match[10]):
        _put_unusual(event, text)
        return event
    host, _, user, time_text, request, status, size, referrer, agent, rest = match.groups()
    event |= {
        "remote_host": host,
        "remote_user": None if user == '""' else known(user),
        "status": None if status == "-" else int(status),
        "response_bytes": None if size == "-" else int(size),
        "referrer": known(referrer),
        "user_agent": known(agent),
    }
    if rest:
        event["rest"] = rest.rstrip()
    _put_request(event, request)
    _put_time(event, time_text)
    return event


def is_unparsed(event: dict[str, Any]) -> bool:
    """Whether a line is not as its format says; one whose client sent no HTTP request is."""
    return event.get("parse_error", NO_REQUEST) != NO_REQUEST and not event["line"].startswith("#")


def _put_request(event: dict[str, Any], request: str) -> None:
    fields = request_fields(request)
    if fields is None:
        event["parse_error"] = NO_REQUEST
    else:
        event |= fields


def _put_time(event: dict[str, Any], text: str) -> None:
    try:
        event["time"] = time_us(text)
    except (ValueError, OverflowError) as error:
        event.setdefault("parse_error", f"time: {error}")


def _put_unusual(event: dict[str, Any], text: str, depth: int = 2) -> None:
    """Put in what a line says that is not plainly in the combined format."""
    inner = _carried(text) if depth else None
    if inner is not None:
        _put_unusual(event, inner, depth - 1)
        return
    if text.startswith("{"):
        put_json(event, text, KNOWN_NAMES)
        return
    starts = (date.start() for date in _DATE_AT.finditer(text, 0, _FRONT_CHARACTERS))
    core = next(filter(None, (_CORE.match(text, start) for start in starts)), None)
    if core is None or not _put_front(event, text[: core.start()]) or not _put_end(event, text[core.end() :].strip()):
        front = event.keys() - {"line"}
        for name in front:
            del event[name]
        event["parse_error"] = _why_not(text)
        at = _TIME_AT.search(text, 0, _FRONT_CHARACTERS)
        _put_time(event, at[1] if at else "")
        return
    time_text, request, status, size = core.groups()
    put(event, "status", status)
    put(event, "response_bytes", size)
    _put_request(event, request)
    _put_time(event, time_text)


def _carried(text: str) -> str | None:
    """Return the line that a container's log or a line of syslog carries; None if it is neither."""
    if text.startswith(_DOCKER):
        try:
            inner = json.loads(text)["log"]
        except (ValueError, RecursionError):
            return None
        return str(inner).encode("utf-8", "backslashreplace").decode().rstrip("\r\n")
    for carrier in _CARRIERS:
        match = carrier.fullmatch(text)
        if match is not None:
            return match[1]
    return None


def _put_front(event: dict[str, Any], front: str) -> bool:
    """Put in what stands before the time: hosts and the user, whose name may have blanks; False if that is not it."""
    words = front.split()
    if not words:
        return False
    first = words[0]
    proxies = next((place for place, word in enumerate(words) if word[-1] != ","), 0)
    if proxies:
        event["forwarded_for"] = " ".join(words[: proxies + 1])
        words = words[proxies + 1 :]
    elif len(words) > 2 and _is_address(words[1]):
        if first != "-":
            event["rest" if _is_address(first) else "virtual_host"] = first  # an address may be a host's, or a proxy's
        words = words[1:]
    elif len(words) > 3 and words[2] == "-" and _HOST_AND_PORT.fullmatch(first):
        event["virtual_host"] = first
        words = words[1:]
    if len(words) == 2 and words[1] != "-":
        return False
    if words:
        event["remote_host"] = words[0].strip('"')
    _put_user(event, words[2:])
    return bool(words or proxies)


def _put_user(event: dict[str, Any], words: list[str]) -> None:
    """Put in the user, unless the words are other fields."""
    event["remote_user"] = None
    if (len(words) > 1 and "-" in words) or (words and _is_address(words[-1])):
        event["rest"] = " ".join(words)
    elif words:
        put(event, "remote_user", " ".join(words))


def _put_end(event: dict[str, Any], end: str) -> bool:
    """Put in what stands after the bytes: referrer, user agent and the rest; False if a quote is not closed."""
    match = _AGENT.match(end) or _TRAEFIK.match(end)
    event["referrer"], event["user_agent"] = (known(match[1]), known(match[2])) if match else (None, None)
    if match is None and end.startswith('"') and not _ONE_QUOTED.match(end):
        return False
    rest = end[match.end() :].strip() if match else end
    if not _is_whole(rest):
        return False
    if rest:
        event["rest"] = f"{event['rest']} {rest}" if "rest" in event else rest
    return True


def _is_whole(rest: str | None) -> bool:
    """Whether quotes in what follows the known fields stand around values: else one of those had quotes in it."""
    return not rest or '"' not in rest or _REST.fullmatch(rest) is not None


@lru_cache(1024)
def _is_address(word: str) -> bool:
    try:
        ipaddress.ip_address(word.partition("%")[0])
    except ValueError:
        return False
    return True


def _why_not(text: str) -> str:
    """Name the first malformed part of a line."""
    pattern = ""
    for name, part in (_PARTS | _MORE_PARTS).items():
        pattern += f" {part}" if pattern else part
        if not re.match(rf"{pattern}(?: |$)", text):
            return f"{name}: not as in the combined log format"
    return "user agent: a quote in it is not escaped"
