"""Access logs of JSON lines: which value of a line is which field of a page view."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from kafka2011.collect.view_fields import in_order, put

_NAMES: dict[str, str] = {
    "time": "time_iso8601 time_local @timestamp timestamp ts StartUTC time datetime msec",
    "remote_host": "remote_addr remote_host request.client_ip request.remote_ip remote_ip client_ip clientip"
    " ClientHost source.ip client.ip httpRequest.remoteIp RemoteAddr",
    "remote_user": "remote_user user_id ClientUsername user.name",
    "request": "request",
    "method": "request_method request.method method RequestMethod http.request.method httpRequest.requestMethod",
    "url": "request_uri request.uri RequestPath url.original httpRequest.requestUrl url uri path",
    "protocol": "server_protocol request.proto RequestProtocol httpRequest.protocol protocol",
    "status": "status DownstreamStatus http.response.status_code httpRequest.status status_code response_code",
    "response_bytes": "body_bytes_sent size DownstreamContentSize http.response.body.bytes httpRequest.responseSize"
    " bytes_sent bytes response_bytes",
    "referrer": "http_referer http_referrer referer referrer request.headers.Referer request_Referer"
    " http.request.referrer httpRequest.referer",
    "user_agent": "http_user_agent user_agent.original request.headers.User-Agent request_User-Agent"
    " httpRequest.userAgent user_agent agent",
    "virtual_host": "http_host request.host RequestHost url.domain server_name vhost host",
    "forwarded_for": "http_x_forwarded_for x_forwarded_for request.headers.X-Forwarded-For request_X-Forwarded-For",
    "duration_s": "request_time",
    "duration_ns": "Duration",
}
"""Names that servers give to the values of a field; the first that a line has counts."""

_NO_ACCESS_LOG = "not a line of an access log: no time, no status, or nothing that was requested"
_REQUESTED = {"request", "url", "path", "method"}
_LONE = re.compile("[\ud800-\udfff]")


class JsonField(NamedTuple):
    """A value of a JSON line, by its path there, and what it is."""

    kind: str
    path: tuple[str, ...]


def _path(name: str) -> tuple[str, ...]:
    return (name,) if name.startswith("request_") else tuple(name.split("."))


KNOWN_NAMES = [JsonField(kind, _path(name)) for kind, names in _NAMES.items() for name in names.split()]
"""The names of nginx, Caddy, Traefik, Google Cloud and the Elastic Common Schema."""


def put_json(event: dict[str, Any], text: str, fields: list[JsonField]) -> None:
    """Put the values of a JSON line into an event; the first found of each kind counts."""
    try:
        document = json.loads(text, parse_float=str, parse_constant=str)
    except (ValueError, RecursionError) as error:
        event["parse_error"] = f"not a JSON line: {error}"
        return
    found: dict[str, str] = {}
    for kind, path in fields:
        if kind not in found and (value := _value(document, path)) is not None:
            found[kind] = value
    if "request" in found:
        for kind in ("method", "url", "protocol"):
            found.pop(kind, None)
    kinds = list(found)
    for place in in_order(kinds):
        put(event, kinds[place], found[kinds[place]])
    wanted = {field.kind for field in fields}
    has_request = not wanted & _REQUESTED or found.keys() & _REQUESTED
    if not has_request or not wanted & {"time", "status"} <= event.keys():
        event.setdefault("parse_error", _NO_ACCESS_LOG)


def _value(document: Any, path: tuple[str, ...]) -> str | None:
    """Return the value at a path as text; None if there is none. Of a list, as headers are, the first counts."""
    for name in path:
        if not isinstance(document, dict) or name not in document:
            return None
        document = document[name]
    if isinstance(document, list) and document:
        document = document[0]
    if isinstance(document, bool) or not isinstance(document, str | int):
        return None
    text = str(document) if isinstance(document, str) or abs(document) < 10**20 else "-"
    return _LONE.sub("\N{REPLACEMENT CHARACTER}", text)
