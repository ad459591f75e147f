"""The frames that a producer sends: sets joined into multiproduce requests, and the barrier behind them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka2011.protocol import MultiFetchRequest, MultiProduceRequest, ProduceRequest, encode_request

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafka2011.producer.parcel import PartitionSet

BARRIER = encode_request(MultiFetchRequest(()))
"""A fetch of nothing: 8 bytes, answered by 6 in its turn; so the answer proves that all sent before was handled."""

BARRIER_ANSWER = b"\x00\x00"
"""What follows the size field of the answer: error 0, and no parts."""

MAX_REQUEST_BYTES = 4 * 1024 * 1024
"""More than one set goes into a request only up to this size, far below any broker's max.socket.request.bytes."""

MAX_REQUEST_SETS = 1000
"""And only so many sets: their number is an int16."""


def produce_frame(sets: list[PartitionSet]) -> bytes:
    """Return one request for all the sets, which the broker handles in order."""
    produces = tuple(ProduceRequest(each.topic, each.partition.partition, each.data) for each in sets)
    return encode_request(produces[0] if len(produces) == 1 else MultiProduceRequest(produces))


def divided(sets: list[PartitionSet]) -> Iterator[list[PartitionSet]]:
    """Divide sets into what fits one request each, in order."""
    request: list[PartitionSet] = []
    size_bytes = 0
    for following in sets:
        size_bytes += len(following.data)
        if request and (size_bytes > MAX_REQUEST_BYTES or len(request) == MAX_REQUEST_SETS):
            yield request
            request, size_bytes = [], len(following.data)
        request.append(following)
    if request:
        yield request
