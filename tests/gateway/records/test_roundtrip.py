"""A batch goes into 0.7's log and comes back: equal for today's clients, plain values for those of 0.7."""

from __future__ import annotations

import gzip
import shutil
import subprocess
import zlib
from itertools import count

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kafka2011.gateway.records import code
from kafka2011.gateway.records.batches import open_batches
from kafka2011.gateway.records.encoding import encode_piece
from kafka2011.gateway.records.errors import MESSAGE_TOO_LARGE, InvalidRecordsError
from kafka2011.gateway.records.found import Kind, Origin
from kafka2011.gateway.records.pieces import find_pieces
from kafka2011.gateway.records.wrappers import plain_set_of, wrappers_of
from kafka2011.message import runs
from kafka2011.message.compression import decompress
from kafka2011.message.message_set import decode
from tests.support.record_batches import APPEND_TIME, Record, batch_of, read_batch

TOPIC_ID = bytes(range(16))
START = 1_000_000
FIRST_NUMBER = 5_000_000_000
MAX_OPENED_BYTES = 8 << 20
COMPILED = code.compiled
CODECS = [0, 1, 2, "raw snappy", 3, 4]

TIMES = st.one_of(st.integers(1_700_000_000_000, 1_700_000_100_000), st.just(-1), st.integers(-(2**62), 2**62))
BYTES = st.binary(max_size=60)
RECORDS = st.lists(
    st.builds(
        Record,
        st.none() | BYTES | st.binary(min_size=100, max_size=5000),
        st.none() | BYTES | st.binary(min_size=100, max_size=9000),
        st.lists(st.tuples(BYTES, st.none() | BYTES), max_size=4).map(tuple),
        TIMES,
    ),
    min_size=1,
    max_size=20,
)
FAR_APART = [Record(b"old", timestamp=-(2**62)), Record(b"new", timestamp=2**62)]
"""Their difference needs more than 64 bits, and wraps around."""
PRODUCERS = st.just((-1, -1, -1)) | st.tuples(
    st.integers(0, 2**63 - 1), st.integers(0, 2**15 - 1), st.integers(0, 2**31 - 1)
)


def marks() -> list[bytes]:
    return [number.to_bytes(8, "big") for number in range(1000)]


def stored(data: bytes, max_wrapper_bytes: int = 4096, partition: int = 3) -> list[tuple[bytes, Origin]]:
    """Return the messages that are stored for a batch."""
    [batch] = open_batches(data, MAX_OPENED_BYTES)
    numbers = count()
    return wrappers_of(batch, TOPIC_ID, partition, lambda: next(numbers).to_bytes(8, "big"), max_wrapper_bytes)


def payload_of(message: bytes) -> bytes:
    return message[10:]


@settings(deadline=None, max_examples=80)
@given(RECORDS, st.sampled_from(CODECS), PRODUCERS, st.none() | TIMES, st.sampled_from([300, 4096, 1 << 18]))
@example([Record(b"x", b"k" * 200_000)], 0, (1, 0, 2**31 - 1), None, 4096)
@example([Record(b"")] * 20, 4, (1, 0, 2**31 - 5), None, 300)
@example(FAR_APART, 0, (-1, -1, -1), None, 4096)
def test_what_a_client_sends_comes_back(
    records: list[Record],
    codec: int | str,
    producer: tuple[int, int, int],
    append_time: int | None,
    max_wrapper_bytes: int,
) -> None:
    """Record for record, with timestamps, and each part with its own sequence; 0.7's readers find the values."""
    attributes = 0 if append_time is None else APPEND_TIME
    data = batch_of(records, codec, producer, attributes, append_time)
    messages = stored(data, max_wrapper_bytes)
    log = b"".join(message for message, _ in messages)
    pieces, end = find_pieces(log, START, [TOPIC_ID], 3)
    assert end == START + len(log)
    assert [piece.origin for piece in pieces] == [origin for _, origin in messages]
    assert {piece.kind for piece in pieces} == {Kind.WRAPPER}
    read: list[Record] = []
    for piece in pieces:
        number = FIRST_NUMBER + len(read)
        encoded = encode_piece(log, START, piece, number)
        batch = read_batch(encoded.batch)
        sequence = (producer[2] + len(read)) % 2**31 if producer[0] >= 0 else -1
        assert (batch.base_offset, batch.last_delta) == (number, piece.numbers - 1)
        assert batch.producer == (*producer[:2], sequence)
        assert batch.attributes == attributes
        assert batch.max_timestamp == max(record.timestamp for record in batch.records)
        read += batch.records
        assert encoded.next_number == FIRST_NUMBER + len(read)
        assert piece.numbers == 1 or piece.end - piece.start <= max_wrapper_bytes
    sent = records if append_time is None else [record._replace(timestamp=append_time) for record in records]
    assert read == sent
    values = [record.value or b"" for record in records]
    assert [message.payload for message in decode(log, "t", 0, 0, START)] == values
    [batch_opened] = open_batches(data, MAX_OPENED_BYTES)
    plain = plain_set_of(batch_opened)
    assert [message.payload for message in decode(plain, "t", 0, 0, 0)] == values


@settings(deadline=None, max_examples=40)
@given(RECORDS, PRODUCERS, st.none() | TIMES, st.sampled_from([300, 4096, 1 << 18]))
@example([Record(b"x" * 65_525), Record(b"y" * 140_000), Record(b"")], (1, 0, 0), None, 1 << 18)
@example([Record(b"x", b"k" * 65_465)], (1, 0, 0), None, 1 << 18)  # as many notes as one member takes
@example([Record(b"x", b"k" * 65_466)], (1, 0, 0), None, 1 << 18)
@pytest.mark.skipif(COMPILED is None, reason="no C code")
def test_what_is_stored_in_one_step_has_the_same_bytes(
    records: list[Record], producer: tuple[int, int, int], append_time: int | None, max_wrapper_bytes: int
) -> None:
    data = batch_of(records, 0, producer, 0 if append_time is None else APPEND_TIME, append_time)
    messages = stored(data, max_wrapper_bytes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(code, "wrapper", lambda *_: None)
        assert stored(data, max_wrapper_bytes) == messages


@settings(deadline=None, max_examples=80)
@given(RECORDS, st.sampled_from(CODECS), PRODUCERS, st.sampled_from([300, 4096]))
@example(FAR_APART, 0, (-1, -1, -1), 4096)
def test_c_and_python_store_and_serve_the_same_bytes(
    records: list[Record], codec: int | str, producer: tuple[int, int, int], max_wrapper_bytes: int
) -> None:
    """Whichever has stored it, and from whichever message on it is read."""
    data = batch_of(records, codec, producer)
    results = []
    with pytest.MonkeyPatch.context() as patch:
        for compiled in (COMPILED, None):
            patch.setattr(code, "compiled", compiled)
            messages = stored(data, max_wrapper_bytes)
            log = b"".join(message for message, _ in messages)
            pieces, _ = find_pieces(log, START, [TOPIC_ID], 3)
            plain = plain_set_of(open_batches(data, MAX_OPENED_BYTES)[0])
            [run], _ = find_pieces(plain, START, [TOPIC_ID], 3)
            batches = [encode_piece(log, START, piece, 7) for piece in pieces]
            batches += [encode_piece(plain, START, run, 7, skip=skip, max_bytes=400) for skip in range(len(records))]
            results.append((messages, pieces, plain, batches))
    assert results[0] == results[1]


def test_a_mirrored_wrapper_keeps_its_records_and_not_its_producer() -> None:
    """Of another partition, or of a topic that was created again: its sequences mean nothing here."""
    records = [Record(b"a", b"k", ((b"h", b"x"),), 10), Record(None, None, (), 9)]
    [(message, origin)] = stored(batch_of(records, 0, (77, 1, 5)))
    assert origin == Origin(77, 1, 5, 2, bytes(8))
    for topic_id, partition in ((TOPIC_ID, 4), (bytes(16), 3)):
        [piece], _ = find_pieces(message, 0, [topic_id], partition)
        assert (piece.kind, piece.numbers, piece.origin) == (Kind.WRAPPER, 2, None)
        batch = read_batch(encode_piece(message, 0, piece, 0).batch)
        assert (batch.records, batch.producer) == (records, (-1, -1, -1))


def test_a_repeat_takes_its_numbers_without_records() -> None:
    """As a batch whose records Kafka's log cleaner has removed."""
    [(message, _)] = stored(batch_of([Record(b"a"), Record(b"b"), Record(b"c")], 0, (77, 1, 5)))
    [piece], _ = find_pieces(message, 0, [TOPIC_ID], 3)
    encoded = encode_piece(message, 0, piece, 100, is_repeat=True)
    batch = read_batch(encoded.batch)
    assert (batch.base_offset, batch.last_delta, batch.records) == (100, 2, [])
    assert batch.producer == (77, 1, 5)
    assert encoded.next_number == 103


def test_what_was_sent_uncompressed_is_stored_so() -> None:
    """Readers of 0.7 then spend no time on inflating; anything else is compressed again."""
    value = b"tick" * 100
    [(plain, _)] = stored(batch_of([Record(value)] * 5))
    assert plain.count(value) == 5
    for codec in (1, 2, 3, 4):
        [(packed, _)] = stored(batch_of([Record(value)] * 5, codec))
        assert len(packed) < 300


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("key_bytes", [10, 30_000, 350_000])
def test_every_reader_of_gzip_finds_the_values(codec: int | str, key_bytes: int) -> None:
    """Whatever the size of keys: those that read one member, those that read all, those in C and in Python."""
    records = [Record(b"value %d" % index, bytes([index]) * key_bytes) for index in range(2)]
    messages = stored(batch_of(records, codec), 1 << 20)
    [payload] = [payload_of(message) for message, _ in messages]
    inner = runs.chosen.encode([record.value or b"" for record in records], 1)
    assert inner is not None
    assert gzip.decompress(payload) == inner[0]
    first = zlib.decompressobj(wbits=31)
    assert first.decompress(payload) == inner[0]
    assert first.eof
    assert decompress(1, payload) == inner[0]
    if shutil.which("gzip"):
        done = subprocess.run(["gzip", "-dc"], input=payload, capture_output=True, check=True, timeout=30)
        assert done.stdout == inner[0]


def test_a_record_that_no_message_can_hold_is_too_large() -> None:
    """Whether its value or its key is; all others of its batch are then refused with it."""
    for record in (
        Record(bytes(1_000_000)),
        Record(b"", bytes(1_000_000)),
        Record(b"", None, ((b"h", bytes(1_000_000)),)),
    ):
        [batch] = open_batches(batch_of([Record(b"small"), record]), MAX_OPENED_BYTES)
        with pytest.raises(InvalidRecordsError) as caught:
            wrappers_of(batch, TOPIC_ID, 0, lambda: bytes(8))
        assert caught.value.code == MESSAGE_TOO_LARGE
    [batch] = open_batches(batch_of([Record(b"small"), Record(bytes(1_000_000))]), MAX_OPENED_BYTES)
    with pytest.raises(InvalidRecordsError) as caught:
        plain_set_of(batch)
    assert caught.value.code == MESSAGE_TOO_LARGE
    [(message, _)] = stored(batch_of([Record(bytes(990_000))]))
    assert len(message) <= 1_000_000


def test_wrappers_stay_within_their_size_when_nothing_can_be_compressed() -> None:
    noise = zlib.compress(bytes(range(256))) * 3
    for codec in (0, 4):
        for size in (10, 900):
            messages = stored(batch_of([Record(noise[:size], noise[:size])] * (100_000 // size), codec), 1 << 16)
            assert len(messages) > 2
            assert all(len(message) <= 1 << 16 for message, _ in messages)
            assert len(messages[0][0]) > 62_000 or codec
