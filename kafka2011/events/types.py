"""The events that this package makes itself: what members do on a site, and the state of its servers."""

from __future__ import annotations

from typing import Any

from kafka2011.events.schemas import EventSchema, event_schema


def _optional(name: str, type_name: str, doc: str = "") -> dict[str, Any]:
    return {"name": name, "type": ["null", type_name], "default": None, **({"doc": doc} if doc else {})}


def _field(name: str, type_name: str, doc: str = "") -> dict[str, Any]:
    return {"name": name, "type": type_name, **({"doc": doc} if doc else {})}


_MEMBER = (_optional("member_id", "long", "who it was, where known"), _optional("session_id", "string"))

PAGE_VIEW = event_schema(
    "PageView",
    *_MEMBER,
    _optional("method", "string"),
    _optional("url", "string", "as requested: path and query"),
    _optional("status", "int"),
    _optional("response_bytes", "long"),
    _optional("referrer", "string"),
    _optional("user_agent", "string"),
    _optional("remote_host", "string"),
    _optional("remote_user", "string"),
    _optional("protocol", "string"),
    _optional("line", "string", "of the access log that it was read from"),
    _optional("parse_error", "string", "why the fields above are missing"),
    _optional("virtual_host", "string", "as the line names it, with or without a port"),
    _optional("forwarded_for", "string", "the addresses that proxies say they act for"),
    _optional("duration_us", "long", "how long the server took"),
    _optional("rest", "string", "what the line has besides the fields of its format"),
    _optional("other_fields", "string", "values of the format that have no field here: a JSON object"),
    doc="A page was requested.",
)

SEARCH = event_schema(
    "Search",
    *_MEMBER,
    _field("query", "string"),
    _field("results", "int", "how many were found"),
    doc="A member searched.",
)

IMPRESSION = event_schema(
    "Impression",
    *_MEMBER,
    _field("item", "string", "what was shown"),
    _field("position", "int", "its place on the page, from 1"),
    _optional("search_id", "string", "the id of the search that found it"),
    doc="Something was shown that can be clicked.",
)

CLICK = event_schema(
    "Click",
    *_MEMBER,
    _field("item", "string", "what was clicked"),
    _field("position", "int", "its place on the page, from 1"),
    _optional("search_id", "string", "the id of the search that found it"),
    doc="A member clicked what was shown.",
)

SERVER_STATS = event_schema(
    "ServerStats",
    _field("cpu_percent", "double", "of all processors together, 0 to 100"),
    _field("memory_used_bytes", "long"),
    _field("memory_total_bytes", "long"),
    _field("disk_used_bytes", "long"),
    _field("disk_total_bytes", "long"),
    _field("requests", "long", "served since the last event of this server"),
    _field("errors", "long", "of these, answered with a status from 500 on"),
    doc="How a server is, at intervals.",
)

EVENT_TYPES: dict[str, EventSchema] = {
    "page_views": PAGE_VIEW,
    "searches": SEARCH,
    "impressions": IMPRESSION,
    "clicks": CLICK,
    "server_stats": SERVER_STATS,
}
"""The schema of each topic that `kafka2011 generate` writes to."""
