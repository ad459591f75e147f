"""Frames: `read_request` and `write_response`, and what gateways ask one another."""

from __future__ import annotations

import struct
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

from kafka2011.gateway.protocol.answer_codes import Codes
from kafka2011.gateway.protocol.compiler import compile_reader, compile_writer
from kafka2011.gateway.protocol.errors import MalformedRequestError, UnknownRequestError
from kafka2011.gateway.protocol.fields import Api
from kafka2011.gateway.protocol.primitives import skip_tags, too_short
from kafka2011.gateway.protocol.tables import admin, data, gateways, groups

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafka2011.gateway.protocol.compiler import Body, Reader, Writer
    from kafka2011.gateway.protocol.fields import ApiTables
    from kafka2011.gateway.protocol.primitives import Part
    from kafka2011.message.header import AnyBytes

TABLES: dict[Api, ApiTables] = {
    tables.api: tables for tables in (*data.TABLES, *admin.TABLES, *groups.TABLES, *gateways.TABLES)
}
"""All requests that can be read."""

OFFERED: dict[Api, range] = {tables.api: tables.versions for tables in (*data.TABLES, *admin.TABLES)}
"""The versions of each request that the gateway offers: all but those of groups."""

_HEADER = struct.Struct(">hhi")
_LENGTH = struct.Struct(">h")
_BEHIND_LENGTH = _HEADER.size + _LENGTH.size
_RESPONSE_HEADER = struct.Struct(">ii")
_SIZE = struct.Struct(">i")
_NO_VERSIONS = range(0)


class Request(NamedTuple):
    """A request as a client sent it; see the package for what is in the body."""

    api: Api
    version: int
    correlation_id: int
    client_id: str | None
    body: dict[str, Any]


def read_request(frame: AnyBytes, offered: Mapping[Api, range] = OFFERED) -> Request:
    """Read a frame without its size.

    Raises UnknownRequestError for what is not offered, MalformedRequestError for any other wrong bytes. Bytes behind
    the body are ignored, as in Kafka.
    """
    try:
        return _read(frame, offered)
    except (IndexError, struct.error) as error:
        raise MalformedRequestError(f"a request of {len(frame)} bytes ends too early: {error}") from error


def write_response(api: Api, version: int, correlation_id: int, body: Body) -> list[Part]:
    """Return the parts of a response, which begins with its size. The body may lack fields.

    Raises KeyError for a name that no version of the message has, so that a misspelt one is not a default.
    """
    write, is_flexible = writer_of(api, version)
    first = bytearray(_RESPONSE_HEADER.pack(0, correlation_id))
    if is_flexible and api != Api.API_VERSIONS:  # its header never changes: the client may not know the version
        first.append(0)
    parts: list[Part] = []
    parts.append(write(body, first, parts))
    _SIZE.pack_into(first, 0, sum(map(len, parts)) - _SIZE.size)
    return parts


def write_request(api: Api, version: int, correlation_id: int, client_id: str, body: Body) -> list[Part]:
    """Return the parts of a request of a version that is not flexible, which begins with its size."""
    name = client_id.encode()
    first = bytearray(_SIZE.pack(0) + _HEADER.pack(api, version, correlation_id) + _LENGTH.pack(len(name)) + name)
    parts: list[Part] = []
    parts.append(compile_writer(TABLES[api].request, version, is_flexible=False)(body, first, parts))
    _SIZE.pack_into(first, 0, sum(map(len, parts)) - _SIZE.size)
    return parts


def read_response(api: Api, version: int, frame: AnyBytes) -> Body:
    """Read the body of a response without its size, of a version that is not flexible. Raises MalformedRequestError."""
    try:
        return compile_reader(TABLES[api].response, version, is_flexible=False)(frame, _SIZE.size)
    except (IndexError, struct.error) as error:
        raise MalformedRequestError(f"a response of {len(frame)} bytes ends too early: {error}") from error


@cache
def reader_of(key: int, version: int) -> tuple[Api, Reader, bool]:
    """Return what reads the body of a request, and whether it is flexible. Raises ValueError for an unknown key."""
    tables = TABLES[Api(key)]
    is_flexible = tables.is_flexible(version)
    return tables.api, compile_reader(tables.request, version, is_flexible=is_flexible), is_flexible


@cache
def writer_of(api: Api, version: int) -> tuple[Writer, bool]:
    """Return what writes the body of a response, and whether it is flexible."""
    tables = TABLES[api]
    is_flexible = tables.is_flexible(version)
    codes = partial(Codes, api)
    return compile_writer(tables.response, version, is_flexible=is_flexible, codes=codes), is_flexible


def _read(frame: AnyBytes, offered: Mapping[Api, range]) -> Request:
    key, version, correlation_id = _HEADER.unpack_from(frame)
    if version not in offered.get(key, _NO_VERSIONS):
        raise UnknownRequestError(key, version, correlation_id)
    api, read, is_flexible = reader_of(key, version)
    client_id, at = _client_id(frame)
    if is_flexible:
        at = skip_tags(frame, at, len(frame)) if frame[at] else at + 1
    return Request(api, version, correlation_id, client_id, read(frame, at))


def _client_id(frame: AnyBytes) -> tuple[str | None, int]:
    """Return the client's name, and where the body, or the header's optional fields, begin."""
    (length,) = _LENGTH.unpack_from(frame, _HEADER.size)
    if length < 0:
        return None, _BEHIND_LENGTH
    end = _BEHIND_LENGTH + length
    if end > len(frame):
        raise too_short("client_id", end)
    return str(frame[_BEHIND_LENGTH:end], "utf-8", "replace"), end
