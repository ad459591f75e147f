"""What a produce request holds: batches that are taken, and those that are refused, each with the right number."""

from __future__ import annotations

import pytest

from kafka2011.gateway.records.batches import open_batches
from kafka2011.gateway.records.errors import InvalidRecordsError
from tests.support.record_batches import Record, batch_of, body_of, sealed, varint

MAX_OPENED_BYTES = 1 << 20
CORRUPT, TOO_LARGE, WRONG_FORMAT, UNKNOWN_CODEC, INVALID = 2, 10, 43, 76, 87
RECORDS = [Record(b"first", b"key", ((b"h", b"x"), (b"n", None)), 1000), Record(None, None, (), 990)]
BODY = body_of(RECORDS, 1000)
NO_PRODUCER = (-1, -1, -1)


def sealed_body(body: bytes, count: int = 1, attributes: int = 0) -> bytes:
    return sealed(attributes, count - 1, 0, 0, NO_PRODUCER, count, body)


def record(rest: bytes) -> bytes:
    return varint(len(rest)) + rest


def code_of(data: bytes, max_opened_bytes: int = MAX_OPENED_BYTES) -> int:
    with pytest.raises(InvalidRecordsError) as caught:
        open_batches(data, max_opened_bytes)
    assert str(caught.value)
    return caught.value.code


@pytest.mark.parametrize("codec", [0, 1, 2, "raw snappy", 3, 4])
def test_a_batch_of_each_codec_opens(codec: int | str) -> None:
    [batch] = open_batches(memoryview(batch_of(RECORDS, codec, (77, 3, 5))), MAX_OPENED_BYTES)
    assert (batch.producer_id, batch.producer_epoch, batch.first_sequence) == (77, 3, 5)
    assert (batch.records, batch.first_timestamp, batch.max_timestamp) == (2, 1000, 1000)
    assert batch.codec == (2 if codec == "raw snappy" else codec)
    assert not batch.is_append_time
    assert bytes(batch.body) == BODY


def test_several_batches_follow_one_another() -> None:
    batches = open_batches(batch_of(RECORDS) + batch_of(RECORDS[:1], 4, attributes=8), MAX_OPENED_BYTES)
    assert [(batch.records, batch.codec, batch.is_append_time) for batch in batches] == [(2, 0, False), (1, 4, True)]


@pytest.mark.parametrize("codec", [1, 2, "raw snappy", 3, 4])
def test_a_batch_that_opens_to_too_much_is_too_large(codec: int | str) -> None:
    """Also if only all batches of a request together are; what is compressed well is opened no further."""
    zeros = batch_of([Record(bytes(700_000))], codec)
    assert len(open_batches(zeros, MAX_OPENED_BYTES)) == 1
    assert code_of(zeros, 600_000) == TOO_LARGE
    assert code_of(zeros + zeros, MAX_OPENED_BYTES) == TOO_LARGE


@pytest.mark.parametrize("codec", [1, 2, "raw snappy", 3, 4])
def test_compressed_bytes_that_do_not_open_are_corrupt(codec: int | str) -> None:
    whole = batch_of([Record(bytes(range(256)) * 40)], codec)
    number = 2 if codec == "raw snappy" else int(codec)
    assert code_of(sealed_body(whole[61:-9], attributes=number)) == CORRUPT
    assert code_of(sealed_body(b"\xff" * 30, attributes=number)) == CORRUPT


def test_each_fault_of_a_batch_has_its_number() -> None:
    whole = batch_of(RECORDS)
    assert code_of(b"") == INVALID
    assert code_of(whole[:-1]) == CORRUPT
    assert code_of(whole[:40]) == CORRUPT
    assert code_of(whole[:5]) == CORRUPT
    assert code_of(whole + b"\0") == CORRUPT
    assert code_of(whole[:-1] + b"?") == CORRUPT
    assert code_of(whole[:11] + b"\0" + whole[12:]) == CORRUPT
    assert code_of(whole[:16] + b"\x01" + whole[17:]) == WRONG_FORMAT
    assert code_of(whole[:16] + b"\x00" + whole[17:30]) == WRONG_FORMAT
    assert code_of(whole[:16] + b"\x03" + whole[17:]) == CORRUPT
    assert code_of(batch_of(RECORDS, attributes=0x10)) == WRONG_FORMAT
    assert code_of(batch_of(RECORDS, attributes=0x20)) == INVALID
    assert [code_of(batch_of(RECORDS, attributes=codec)) for codec in (5, 6, 7)] == [UNKNOWN_CODEC] * 3
    assert code_of(batch_of(RECORDS, producer=(1, -1, 0))) == INVALID
    assert code_of(batch_of(RECORDS, producer=(1, 0, -1))) == INVALID


@pytest.mark.parametrize(
    "data",
    [
        sealed(0, 1, 0, 0, NO_PRODUCER, 1, BODY),
        sealed(0, -1, 0, 0, NO_PRODUCER, 0, b""),
        sealed(0, -2, 0, 0, NO_PRODUCER, -1, b""),
        sealed_body(BODY, 1),
        sealed_body(BODY, 3),
        sealed_body(BODY[:-1], 2),
        sealed_body(BODY + b"\0", 2),
    ],
)
def test_counts_have_to_agree(data: bytes) -> None:
    """Those of the header with each other, and with the records."""
    assert code_of(data) == INVALID


@pytest.mark.parametrize(
    "rest",
    [
        b"\0\0\2\1\1\0",  # the offset of a second record
        b"\0\0\0\1\1\0\0",  # a byte behind the headers
        b"\0\0\0\1\1\2",  # a header that is not there
        b"\0\0\0\1\1\2\1\1",  # a header without a name
        b"\0\0\0\1\1\1",  # -1 headers
        b"\0\0\0\1\1\xff\xff\xff\xff\x0f",  # as many as no record has
        b"\0\0\0\3\1\0",  # a key of -2 bytes
        b"\0\0\0\1\3\0",  # a value of -2 bytes
        b"\0\0\0\4a\1\0",  # a key longer than the record
        b"\0\0\0\1\6ab",  # a value longer than the record
        b"\0" + b"\xff" * 10 + b"\1\0\1\1\0",  # a number of more than 64 bits
        b"\0\0" + b"\x80" * 6 + b"\x01\1\1\0",  # an offset of more than 32 bits
        b"\0",
        b"",
    ],
)
def test_a_record_that_does_not_add_up_is_invalid(rest: bytes) -> None:
    assert code_of(sealed_body(record(rest))) == INVALID


def test_a_record_longer_than_its_batch_is_invalid() -> None:
    good = b"\0\0\0\1\1\0"
    assert open_batches(sealed_body(record(good)), 0)[0].records == 1
    assert code_of(sealed_body(varint(7) + good)) == INVALID
    assert code_of(sealed_body(varint(-7) + good)) == INVALID
    assert code_of(sealed_body(b"\xff" * 5 + good)) == INVALID
