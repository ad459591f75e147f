"""Bodies made from the tables by a seed, and the frames of requests that hold them."""

from __future__ import annotations

import struct
from functools import cache
from random import Random
from typing import TYPE_CHECKING, Any

from kafka2011.gateway.protocol.compiler import compile_writer
from kafka2011.gateway.protocol.fields import Api, ApiTables, MessageField, in_version
from kafka2011.gateway.protocol.frames import TABLES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafka2011.gateway.protocol.compiler import Writer
    from kafka2011.gateway.protocol.primitives import Part

_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_ERRORS = (-1, 0, 1, 3, 35)
_LATEST_MS = 1 << 41
_TEXTS = ("", "clicks", "größe", "x" * 126, "y" * 127, "z" * 20_000)


EVERY: dict[Api, range] = {api: tables.versions for api, tables in TABLES.items() if api is not Api.PLACES}
"""All requests of clients, as if they were offered."""


def every_version() -> list[tuple[Api, int]]:
    """Return each request that can be read, in each version."""
    return [(api, version) for api, versions in EVERY.items() for version in versions]


def random_body(fields: tuple[MessageField, ...], version: int, draw: Random) -> dict[str, Any]:
    """Return a struct with a value for each field of this version."""
    return {field.name: _value(field, version, draw) for field in in_version(fields, version)}


def request_frame(tables: ApiTables, version: int, body: dict[str, Any], client_id: str = "a client") -> bytes:
    """Return a request without its size."""
    is_flexible = tables.is_flexible(version)
    out = bytearray(struct.pack(">hhih", tables.api, version, 77, len(client_id)) + client_id.encode())
    out += bytes(is_flexible)
    parts: list[Part] = []
    parts.append(_writer(tables.api, version)(body, out, parts))
    return b"".join(parts)


def sample_frames(seed: int) -> Iterator[bytes]:
    """Yield a request of each API and version."""
    draw = Random(seed)
    for api, version in every_version():
        tables = TABLES[api]
        yield request_frame(tables, version, random_body(tables.request, version, draw))


@cache
def _writer(api: Api, version: int) -> Writer:
    tables = TABLES[api]
    return compile_writer(tables.request, version, is_flexible=tables.is_flexible(version))


def _value(field: MessageField, version: int, draw: Random) -> Any:
    if field.is_nullable and draw.random() < 0.2:
        return None
    if field.is_array:
        element = field._replace(is_array=False, is_nullable=False)
        return [_value(element, version, draw) for _ in range(draw.choice((0, 1, 1, 2, 3)))]
    return random_body(field.fields, version, draw) if field.fields else _scalar(field, draw)


def _scalar(field: MessageField, draw: Random) -> object:
    size = 16 if field.kind == "uuid" else draw.choice((0, 1, 126, 127, 5000))
    values: dict[str, Callable[[], object]] = {
        "bool": lambda: draw.random() < 0.5,
        "string": lambda: draw.choice(_TEXTS),
    }
    if field.kind in _BITS:
        return _integer(field, draw)
    return values.get(field.kind, lambda: draw.randbytes(size))()


def _integer(field: MessageField, draw: Random) -> int:
    if field.name.endswith("error_code"):
        return draw.choice(_ERRORS)
    if field.name.endswith("_ms") and field.kind == "int64":
        return draw.choice((-1, draw.randrange(_LATEST_MS)))
    most = 1 << (_BITS[field.kind] - 1)
    return draw.choice((-most, -1, 0, 1, most - 1, draw.randrange(-most, most)))
