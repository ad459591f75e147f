"""Formats of access logs as servers' settings name them: nginx's log_format, Apache's LogFormat, and others.

A text is compiled once into a pattern. What a line has after the last field of its format is kept as `rest`.
"""

from __future__ import annotations

import json
import re
from datetime import datetime
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

from kafka2011.collect.json_lines import KNOWN_NAMES, JsonField, put_json
from kafka2011.collect.view_fields import KINDS, in_order, put, since_1970_us
from kafka2011.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Put = Callable[[dict[str, Any], str], None]

NAMES = {
    "common": '%h %l %u %t "%r" %>s %b',
    "combined": '%h %l %u %t "%r" %>s %b "%{Referer}i" "%{User-agent}i"',
    "vhost_combined": '%v:%p %h %l %u %t "%r" %>s %O "%{Referer}i" "%{User-Agent}i"',
    "main": '$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer"'
    ' "$http_user_agent" "$http_x_forwarded_for"',
}
"""Formats by the names that Apache and nginx ship them under."""

_VARIABLES = {
    **{kind: kind for kind in KINDS},
    "remote_addr": "remote_host",
    "time_local": "time",
    "time_iso8601": "time",
    "msec": "time",
    "request_method": "method",
    "request_uri": "url",
    "uri": "path",
    "document_uri": "path",
    "args": "query",
    "query_string": "query",
    "server_protocol": "protocol",
    "body_bytes_sent": "response_bytes",
    "http_referer": "referrer",
    "http_user_agent": "user_agent",
    "host": "virtual_host",
    "http_host": "virtual_host",
    "server_name": "virtual_host",
    "http_x_forwarded_for": "forwarded_for",
    "proxy_add_x_forwarded_for": "forwarded_for",
    "request_time": "duration_s",
}
"""nginx's variables, and the names of fields themselves, which any other format may be written with."""

_DIRECTIVES = {
    "h": "remote_host",
    "a": "remote_host",
    "u": "remote_user",
    "t": "time",
    "r": "request",
    "m": "method",
    "U": "path",
    "q": "query",
    "H": "protocol",
    "s": "status",
    "b": "response_bytes",
    "B": "response_bytes",
    "O": "bytes_sent",
    "v": "virtual_host",
    "V": "virtual_host",
    "D": "duration_us",
    "T": "duration_s",
    "l": "identity",
    "p": "server_port",
    "P": "process_id",
    "I": "bytes_received",
    "S": "bytes_transferred",
    "X": "connection",
    "k": "keepalive_requests",
    "f": "filename",
    "L": "log_id",
    "R": "handler",
    "A": "server_address",
}
_HEADERS = {
    "referer": "referrer",
    "referrer": "referrer",
    "user-agent": "user_agent",
    "host": "virtual_host",
    "x-forwarded-for": "forwarded_for",
}
_DURATIONS = {"us": "duration_us", "ms": "duration_ms", "s": "duration_s"}
_EPOCHS = {"sec", "msec", "usec"}
_W3C = {
    "date": "utc_date",
    "time": "utc_time",
    "c-ip": "remote_host",
    "cs-username": "remote_user",
    "cs-method": "method",
    "cs-uri-stem": "path",
    "cs-uri-query": "query",
    "cs-uri": "url",
    "sc-status": "status",
    "sc-bytes": "response_bytes",
    "cs(user-agent)": "user_agent",
    "cs(referer)": "referrer",
    "cs(referrer)": "referrer",
    "cs(host)": "virtual_host",
    "cs-host": "virtual_host",
    "x-host-header": "virtual_host",
    "cs-version": "protocol",
    "cs-protocol-version": "protocol",
    "x-forwarded-for": "forwarded_for",
    "cs(x-forwarded-for)": "forwarded_for",
    "time-taken": "time-taken",
}
_W3C_HEADER = "#Fields:"

_NGINX = re.compile(r"\$(?:\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*))", re.ASCII)
_APACHE = re.compile(r"%(?:%|[!0-9,<>]*(?:\{([^}]*)\})?[!0-9,<>]*(\^[A-Za-z]{2}|[A-Za-z]))", re.ASCII)
_SETTING = re.compile(r"\s*(?:LogFormat|CustomLog|access\.format|log_format)\s", re.IGNORECASE)
_QUOTED_PIECE = re.compile(r"""'((?:[^'\\]|\\.)*+)'|"((?:[^"\\]|\\.)*+)\"""")
_MAX_VALUES = 100

# No value may be cut in many ways, or a long line that does not match would take for ever.
_ENCLOSED = {'""': r'((?:[^"\\]|\\.)*+)', "[]": r"([^\]]*+)"}
_BRACKETED = r"(\[[^\]]*+\])"
_WORD = r"(\S+)"
_LIST = r"([^\s,]+(?:(?:,| :) ?[^\s,]+)*+)"
_TIME = r"\d{1,2}/\w{3}/\d{4}:\d{2}:\d{2}:\d{2}[^ ]{0,10} [+-]\d{2}:?\d{2}"
_ALL = r"(.+?(?=\s*$))"
_BY_NAME = {
    "remote_user": r'("[^"]*"|.{0,250}?)',
    "request": r"(.{0,250}? \S+ \S+/[0-9.]+|-|\S+)",
    "query": r"(\S*)",
    "path": r"([^\s?]+)",
}
_SIGNS = frozenset("$%")
_SEPARATORS = frozenset("|;\t")
"""What values with blanks may stand between, and not contain."""
_LISTS = ("upstream_", "forwarded_for")


class FormatError(ConfigError):
    """A format of access logs that cannot be used; the text says why."""


class _Value(NamedTuple):
    """What stands at one place of a line: a field of the page view, or a value under a name of its own."""

    name: str
    read_time: Callable[[str], int] | None = None

    blanks: int = 0

    @property
    def is_field(self) -> bool:
        """Whether it becomes a field, and is not kept under its name."""
        return self.name in KINDS


@lru_cache(100)
def compile_format(text: str) -> Put:
    """Return what puts a line of a format into an event. Raises FormatError.

    The text is nginx's log_format or Apache's LogFormat, with or without the setting's name; the name of one of
    `NAMES`; a `#Fields:` line of W3C; or, for JSON lines, `json` or an object that looks like a line.
    """
    stripped = text.strip()
    if stripped == "json":
        return partial(put_json, fields=KNOWN_NAMES)
    stripped = NAMES.get(stripped, stripped)
    if stripped.startswith(_W3C_HEADER):
        return partial(_put_w3c, names=_w3c_names(stripped))
    stripped = _without_setting(stripped)
    if stripped.startswith("{"):
        return partial(put_json, fields=list(_json_fields(stripped)))
    if _NGINX.search(stripped):
        return _compiled(stripped, _NGINX, _variable)
    if _APACHE.search(stripped):
        return _compiled(stripped.replace('\\"', '"'), _APACHE, _directive)
    raise FormatError(
        f"{text[:100]!r} is no format of access logs: give nginx's log_format, Apache's LogFormat, one of"
        f" {', '.join(NAMES)}, a line that begins with {_W3C_HEADER}, json, or an object with the fields' names"
    )


def _without_setting(text: str) -> str:
    """Return the format of a whole setting, which may have been copied with its name and quotes."""
    match = _SETTING.match(text)
    if match is None:
        return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" and _is_one(text) else text
    pieces = [single or double for single, double in _QUOTED_PIECE.findall(text[match.end() :])]
    return "".join(pieces).replace('\\"', '"').replace("\\'", "'")


def _is_one(text: str) -> bool:
    match = _QUOTED_PIECE.match(text)
    return match is not None and match.end() == len(text)


def _variable(match: re.Match[str]) -> _Value:
    name = match[1] or match[2]
    return _Value(_VARIABLES.get(name, name))


def _directive(match: re.Match[str]) -> _Value | None:
    """Return what a directive of Apache stands for; None for a percent sign."""
    argument, letter = match[1], match[2]
    if letter is None:
        return None
    if argument is None or letter in "ahpP":
        return _Value(_DIRECTIVES.get(letter, letter))
    if letter == "t":
        return _time_value(argument)
    if letter == "T":
        return _Value(_DURATIONS.get(argument, "duration_s"))
    return _Value(_HEADERS.get(argument.lower(), argument) if letter == "i" else argument)


def _time_value(argument: str) -> _Value:
    form = argument.removeprefix("begin:").removeprefix("end:")
    if form in _EPOCHS:
        return _Value("time")
    if form in {"msec_frac", "usec_frac"}:
        return _Value(form)
    return _Value("time", partial(_read_time, form=form), form.count(" "))


def _read_time(text: str, *, form: str) -> int:
    """Return a time that was written in a form of strftime. Raises ValueError."""
    time = datetime.strptime(text, form)
    if time.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone: add %z to its format")
    return since_1970_us(time)


def _compiled(text: str, directives: re.Pattern[str], read: Callable[[re.Match[str]], _Value | None]) -> Put:
    """Return what reads lines of a format with variables or directives. Raises FormatError."""
    values: list[_Value] = []
    pattern: list[str] = []
    at = 0
    for match in directives.finditer(text):
        value = read(match)
        pattern.append(_literal(text[at : match.start()]))
        at = match.end()
        if value is None:
            pattern.append("%")
        else:
            pattern.append(_pattern_of(value, text, match.start(), at))
            values.append(value)
    pattern.append(_literal(text[at:].rstrip()))
    if not any(value.is_field for value in values):
        raise FormatError(f"the format {text[:100]!r} has no field of a page view")
    if len(values) > _MAX_VALUES:
        raise FormatError(f"the format {text[:100]!r} has {len(values)} values: at most {_MAX_VALUES} are taken")
    compiled = re.compile(f"{''.join(pattern)}(?=\\s|$)\\s*(.*)", re.DOTALL)
    order = in_order([value.name for value in values])
    return partial(_put_line, pattern=compiled, values=values, order=order)


def _literal(text: str) -> str:
    """Match text as it is, and any number of blanks where it has one: some servers align columns."""
    return r"[ \t]+".join(map(re.escape, re.split(r"[ \t]+", text)))


def _pattern_of(value: _Value, text: str, start: int, end: int) -> str:
    """Return the pattern of a value, which depends on what stands around it."""
    around = text[max(start - 1, 0) : start] + text[end : end + 1]
    if around in _ENCLOSED:
        return _ENCLOSED[around]
    if value.read_time is not None:
        return f"(\\S+(?: \\S+){{{value.blanks}}})"
    return _pattern_by_name(value.name, text[start], text[end:]) or _pattern_by_end(text[end:])


def _pattern_by_name(name: str, sign: str, after: str) -> str:
    """Return the pattern of a value that may have blanks, or has a shape of its own; empty for any other."""
    if name == "time":
        return _BRACKETED if sign == "%" else f'({_TIME}|[^\\s"\\]{re.escape(after[:1])}]+)'
    if name == "user_agent" and not after.strip():
        return _ALL
    return _LIST if name.startswith(_LISTS) else _BY_NAME.get(name, "")


def _pattern_by_end(after: str) -> str:
    """Return the pattern of a value by what follows it."""
    separator = after.lstrip(" ")[:1]
    if separator in _SEPARATORS:
        return f"([^{separator}]*?)"
    if after[:1] in _SIGNS:  # another value follows at once, as a URL after a host
        return r"([^\s/?]+)"
    return f"([^\\s{re.escape(after[0])}]+)" if after and not after[0].isspace() and after[0] != ":" else _WORD


def _put_line(
    event: dict[str, Any], text: str, *, pattern: re.Pattern[str], values: list[_Value], order: list[int]
) -> None:
    match = pattern.match(text)
    if match is None:
        event["parse_error"] = "not as the log format says"
        return
    others: dict[str, str] = {}
    for place in order:
        value, found = values[place], match[place + 1]
        if not value.is_field:
            if found != "-":
                others[value.name] = found
        elif value.read_time is not None:
            try:
                event["time"] = value.read_time(found)
            except ValueError as error:
                event.setdefault("parse_error", f"time: {error}")
        elif value.name not in event:
            put(event, value.name, found)
    _finish(event, others, match[len(values) + 1].rstrip(" \t"))


def _finish(event: dict[str, Any], others: dict[str, str], rest: str) -> None:
    if "response_bytes" not in event and "bytes_sent" in others:
        put(event, "response_bytes", others.pop("bytes_sent"))
    if others:
        event["other_fields"] = json.dumps(others, ensure_ascii=False)
    if rest:
        event["rest"] = rest


def _w3c_names(text: str) -> list[str]:
    names = text.removeprefix(_W3C_HEADER).split()
    kinds = [_W3C.get(name.lower(), name) for name in names]
    if not KINDS & set(kinds):
        raise FormatError(f"{text[:100]!r} has no field of a page view")
    return kinds


def _put_w3c(event: dict[str, Any], text: str, *, names: list[str]) -> None:
    """Put a line of the extended log format of W3C, whose times are UTC."""
    if text.startswith("#"):
        event["parse_error"] = "a header of the log, no request"
        return
    words = text.split("\t") if "\t" in text else text.split()
    if len(words) < len(names):
        event["parse_error"] = f"{len(words)} values, and the log format has {len(names)}"
        return
    others: dict[str, str] = {}
    for place in in_order(names):
        name, word = names[place], words[place]
        if name == "time-taken":  # CloudFront writes seconds with three decimals, IIS whole milliseconds
            put(event, "duration_s" if "." in word else "duration_ms", word)
        elif name not in KINDS:
            if word != "-":
                others[name] = word
        elif name not in event or name in {"utc_date", "utc_time", "path", "query"}:
            put(event, name, word)
    _finish(event, others, " ".join(words[len(names) :]))


def _json_fields(text: str) -> Iterator[JsonField]:
    """Yield what the values of a JSON object stand for: names of fields, nginx's variables, or Apache's directives."""
    quoted = re.sub(r"(?<=[:\[,\s])(\$\{?\w+\}?|%[<>]?(?:\{[^}]*\})?\w)(?=\s*[,}\]])", r'"\1"', text)
    try:
        document = json.loads(quoted.replace('\\\\"', '"'))
    except (ValueError, RecursionError) as error:
        raise FormatError(f"the log format begins with {{ and is no JSON object: {error}") from error
    fields = list(_json_values(document, ()))
    if not fields:
        raise FormatError(f"no value of the JSON object names a field of a page view: {', '.join(sorted(KINDS))}")
    yield from fields


def _json_values(document: Any, path: tuple[str, ...]) -> Iterator[JsonField]:
    if isinstance(document, dict):
        for name, value in document.items():
            yield from _json_values(value, (*path, name))
    elif isinstance(document, str):
        nginx, apache = _NGINX.fullmatch(document), _APACHE.fullmatch(document)
        value = _variable(nginx) if nginx else _directive(apache) if apache else _Value(document)
        if value is not None and value.is_field:
            yield JsonField(value.name, path)
        elif value is not None and value.name == "bytes_sent":
            yield JsonField("response_bytes", path)


def check_format(text: str) -> str:
    """Return a format's text if it can be used. Raises FormatError."""
    if text:
        compile_format(text)
    return text
