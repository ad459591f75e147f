"""What follower and leader say to each other, as bytes."""

from __future__ import annotations

import pytest

from kafka2011.errors import ProtocolError
from kafka2011.replica.codec import (
    WaitingFetch,
    decode_data,
    decode_fetch,
    encode_data,
    encode_fetch,
)
from kafka2011.replica.exchange import Ask, Given, Range, ReplicaData, ReplicaFetch
from kafka2011.replica.state import Replica
from kafka2011.wire.protocol import decode_request, decode_response
from zk.cluster import TopicPartition

ID = 3
VIEWS, OTHER = TopicPartition("views", ID, 0), TopicPartition("größe", ID, 7)
FETCH = WaitingFetch(
    ReplicaFetch(
        7,
        Replica("b", "51f3"),
        {VIEWS: Ask(100, 90), OTHER: Ask(2**40, None, (Range(0, 10, b"digest"), Range(10, 20, b"")))},
    ),
    500,
)
DATA = ReplicaData(
    7, {VIEWS: Given(0, 200, 90, segment=64, modified_ms=2**40, data=b"m1m2"), OTHER: Given(5, 2**40, 6, equal=1)}
)


class _Slice:
    size = 4

    def release(self) -> None:
        """Nothing is held."""


def test_a_fetch_is_read_as_it_was_written() -> None:
    frame = encode_fetch(FETCH)[4:]
    assert decode_fetch(frame, ID) == FETCH
    assert decode_fetch(memoryview(frame), ID) == FETCH
    assert encode_fetch(WaitingFetch(ReplicaFetch(0, Replica("b", "5")), 0))[:10] == (
        b"\0\0\0\x18" + b"\0\x64" + b"\0\0\0\0"
    )


def test_it_is_a_request_that_07_does_not_know() -> None:
    with pytest.raises(ProtocolError, match="type 100"):
        decode_request(encode_fetch(FETCH)[4:])


def test_data_is_read_as_it_was_written() -> None:
    (head, *parts) = encode_data(DATA)
    assert isinstance(head, bytes)
    body = b"".join(part for part in parts if isinstance(part, bytes))
    assert decode_data(decode_response((head + body)[4:], "it"), ID) == DATA


def test_pieces_of_files_stand_where_their_bytes_would() -> None:
    piece = _Slice()
    given = {VIEWS: DATA.given[VIEWS]._replace(data=piece), OTHER: DATA.given[OTHER]}
    parts = encode_data(ReplicaData(7, given))
    assert piece in parts
    assert b"".join(part if isinstance(part, bytes) else b"m1m2" for part in parts) == b"".join(
        part for part in encode_data(DATA) if isinstance(part, bytes)
    )


@pytest.mark.parametrize("cut", range(1, 40, 3))
def test_bytes_that_end_early_are_refused(cut: int) -> None:
    frame = encode_fetch(FETCH)[4:]
    body = b"".join(part for part in encode_data(DATA)[1:] if isinstance(part, bytes))
    with pytest.raises(ProtocolError):
        decode_fetch(frame[:-cut], ID)
    with pytest.raises(ProtocolError):
        decode_data(body[:-cut], ID)
    with pytest.raises(ProtocolError, match="too many"):
        decode_data(body + b"\0", ID)


def test_what_makes_no_sense_is_refused() -> None:
    nobody = encode_fetch(WaitingFetch(ReplicaFetch(7, Replica("", "51f3")), 0))[4:]
    with pytest.raises(ProtocolError, match="nobody"):
        decode_fetch(nobody, ID)
    negative = encode_fetch(WaitingFetch(ReplicaFetch(7, Replica("b", "5"), {VIEWS: Ask(-1, 0)}), 0))[4:]
    with pytest.raises(ProtocolError, match="offset -1"):
        decode_fetch(negative, ID)
    with pytest.raises(ProtocolError, match="fit"):
        encode_fetch(WaitingFetch(ReplicaFetch(2**63, Replica("b", "5")), 0))
