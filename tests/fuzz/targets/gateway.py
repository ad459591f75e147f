"""What today's clients send to a gateway."""

from __future__ import annotations

import struct
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kafka2011.errors import ProtocolError
from kafka2011.gateway.protocol.frames import TABLES, read_request
from tests.fuzz.driver import Target
from tests.gateway.protocol.bodies import EVERY, request_frame

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from tests.fuzz.driver import Run

_KEYS_AND_VERSIONS = tuple(struct.pack(">hh", api, versions[-1]) for api, versions in EVERY.items())
TOKENS = (*_KEYS_AND_VERSIONS, b"\0\x01t", b"\x02t", b"\xff\xff", b"\xff\xff\xff\xff\x0f", b"\x80\x80\x80\x80\x10")


def _shape(value: Any) -> Hashable:
    """Return what tells bodies apart: what is null, how long arrays are, and the same of first elements."""
    if isinstance(value, dict):
        return tuple(_shape(each) for each in value.values())
    if isinstance(value, list):
        return min(len(value), 2), _shape(value[0]) if value else ()
    return value is None


@contextmanager
def open_requests() -> Iterator[Run]:
    """Check that a request that is read is the same again when it is written and read."""

    def run(data: bytes) -> Hashable:
        request = read_request(data, EVERY)
        again = request_frame(TABLES[request.api], request.version, request.body)
        assert read_request(again, EVERY).body == request.body
        return request.api, request.version, _shape(request.body)

    yield run


TARGETS = (Target("gateway_requests", 100_000, open_requests, (ProtocolError,), TOKENS),)
