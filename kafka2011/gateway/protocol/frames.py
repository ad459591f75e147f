"""Frames: `read_request` and `write_response`."""

from __future__ import annotations

import struct
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from kafka2011.gateway.protocol.compiler import compile_reader, compile_writer
from kafka2011.gateway.protocol.errors import MalformedRequestError, UnknownRequestError
from kafka2011.gateway.protocol.fields import Api
from kafka2011.gateway.protocol.primitives import skip_tags
from kafka2011.gateway.protocol.tables import data

if TYPE_CHECKING:
    from kafka2011.gateway.protocol.compiler import Body, Reader, Writer
    from kafka2011.gateway.protocol.fields import ApiTables
    from kafka2011.gateway.protocol.primitives import Part
    from kafka2011.message.header import AnyBytes

TABLES: dict[Api, ApiTables] = {tables.api: tables for tables in data.TABLES}
"""All requests that can be read, with their tables."""

OFFERED: dict[Api, range] = {tables.api: tables.versions for tables in data.TABLES}
"""The versions of each request that the gateway offers."""

_HEADER = struct.Struct(">hhi")
_LENGTH = struct.Struct(">h")
_BEHIND_LENGTH = _HEADER.size + _LENGTH.size
_RESPONSE_HEADER = struct.Struct(">ii")
_SIZE = struct.Struct(">i")


class Request(NamedTuple):
    """A request as a client sent it; see the package for what is in the body."""

    api: Api
    version: int
    correlation_id: int
    client_id: str | None
    body: dict[str, Any]


def read_request(frame: AnyBytes) -> Request:
    """Read a frame without its size.

    Raises UnknownRequestError for what the gateway does not offer, MalformedRequestError for any other wrong bytes.
    Bytes behind the body are ignored, as in Kafka.
    """
    try:
        key, version, correlation_id = _HEADER.unpack_from(frame)
        api, read, is_flexible = _reader(key, version)
        client_id, at = _client_id(frame)
        if is_flexible:
            at = skip_tags(frame, at, len(frame))
        return Request(api, version, correlation_id, client_id, read(frame, at))
    except KeyError:
        raise UnknownRequestError(key, version, correlation_id) from None
    except (IndexError, struct.error) as error:
        raise MalformedRequestError(f"a request of {len(frame)} bytes ends too early: {error}") from error


def write_response(api: Api, version: int, correlation_id: int, body: Body) -> list[Part]:
    """Return the parts of a response, which begins with its size. The body may lack fields.

    Raises KeyError for a name that no version of the message has, so that a misspelt one is not a default.
    """
    write, is_flexible = _writer(api, version)
    first = bytearray(_RESPONSE_HEADER.pack(0, correlation_id))
    if is_flexible and api != Api.API_VERSIONS:  # its header never changes: the client may not know the version
        first.append(0)
    parts: list[Part] = []
    parts.append(write(body, first, parts))
    _SIZE.pack_into(first, 0, sum(map(len, parts)) - _SIZE.size)
    return parts


def _client_id(frame: AnyBytes) -> tuple[str | None, int]:
    """Return the client's name, and where the body, or its optional fields, begin."""
    (length,) = _LENGTH.unpack_from(frame, _HEADER.size)
    if length < 0:
        return None, _BEHIND_LENGTH
    end = _BEHIND_LENGTH + length
    if end > len(frame):
        raise IndexError("client id")
    return str(frame[_BEHIND_LENGTH:end], "utf-8", "replace"), end


@cache
def _reader(key: int, version: int) -> tuple[Api, Reader, bool]:
    """Return what reads a request. Raises KeyError."""
    tables = TABLES[Api(key)] if key in OFFERED else None
    if tables is None or version not in OFFERED[tables.api]:
        raise KeyError(key)
    is_flexible = tables.is_flexible(version)
    return tables.api, compile_reader(tables.request, version, is_flexible=is_flexible), is_flexible


@cache
def _writer(api: Api, version: int) -> tuple[Writer, bool]:
    tables = TABLES[api]
    is_flexible = tables.is_flexible(version)
    return compile_writer(tables.response, version, is_flexible=is_flexible), is_flexible
