"""What one task reads, from a log in memory: every message once, and faults as the options say."""

from __future__ import annotations

import contextlib
import logging
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka2011.errors import KafkaError
from kafka2011.message.compression import Codec
from kafka2011.message.header import LENGTH_BYTES
from kafka2011.message.message_set import MessageSet, decode, encode
from kafka2011.spark.batches import SCHEMA as SOURCE_SCHEMA
from kafka2011.spark.errors import BrokerAwayError, CorruptMessageError, DataLossError
from kafka2011.spark.offset_ranges import OffsetRange
from kafka2011.spark.reader import RangeReader, ReadSettings
from tests.support.clocks import ManualClock
from tests.support.logs_in_memory import ConsumerInMemory, LogInMemory
from tests.support.waiting import eventually
from zk.cluster import Broker, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.usefixtures("each_code")

PARTITION = TopicPartition("views", 0, 1)
SMALL_FETCH = 64

sets = st.lists(
    st.builds(
        lambda payloads, codec, magic: bytes(MessageSet(payloads, codec, magic if codec is Codec.NONE else 1)),
        st.lists(st.binary(max_size=50), min_size=1, max_size=8),
        st.sampled_from(Codec),
        st.sampled_from([0, 1]),
    ),
    min_size=1,
    max_size=8,
)


def settings(fetch_bytes: int = 1024, corrupt: str = "fail", *, fail_on_data_loss: bool = True) -> ReadSettings:
    return ReadSettings(fetch_bytes, 1000, 1000, fail_on_data_loss, corrupt)


def reader(log: LogInMemory, how: ReadSettings, start: int | None = None, end: int | None = None) -> RangeReader:
    clock = ManualClock()
    return RangeReader(
        OffsetRange(PARTITION, log.first_offset if start is None else start, log.end if end is None else end),
        Broker(0, "127.0.0.1", 1),
        how,
        ConsumerInMemory({PARTITION: log}),
        clock,
        clock.sleep,
    )


def rows_of(one: RangeReader) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    for batch in one.batches():
        assert batch.schema.equals(SOURCE_SCHEMA)
        assert batch.num_rows
        rows += zip(*(column.to_pylist() for column in batch.columns), strict=True)
    return rows


def expected(data: bytes, offset: int = 0) -> list[tuple[object, ...]]:
    """Tell the rows by the client's own decoder."""
    return [
        (m.payload, m.topic, m.broker_id, m.partition, m.offset, m.next_offset, m.index_in_set)
        for m in decode(data, *PARTITION, offset)
    ]


@given(
    segments=st.lists(sets, min_size=1, max_size=4),
    first=st.integers(0, 10**12),
    fetch_bytes=st.sampled_from([4, SMALL_FETCH, 4096]),
)
def test_every_message_is_read_once(segments: list[list[bytes]], first: int, fetch_bytes: int) -> None:
    """All codecs and magics, over segments, by fetches of any size: just the client's rows."""
    data = [b"".join(segment) for segment in segments]
    log = LogInMemory(data, first)
    assert rows_of(reader(log, settings(fetch_bytes))) == expected(b"".join(data), first)


@given(encoded=sets, data=st.data())
def test_ranges_of_a_log_are_its_rows_in_order(encoded: list[bytes], data: st.DataObject) -> None:
    """Cut at any outer message, the parts' rows are those of the whole."""
    whole = b"".join(encoded)
    log = LogInMemory([whole])
    edges = sorted({0, len(whole), *data.draw(st.lists(st.sampled_from(list(_edges(whole)))))})
    rows: list[tuple[object, ...]] = []
    for start, end in pairwise(edges):
        rows += rows_of(reader(log, settings(SMALL_FETCH), start, end))
    assert rows == expected(whole)


def _edges(data: bytes) -> set[int]:
    position, found = 0, {0}
    while position < len(data):
        position += LENGTH_BYTES + int.from_bytes(data[position : position + LENGTH_BYTES])
        found.add(position)
    return found


def test_the_next_bytes_come_while_these_are_decoded() -> None:
    """One fetch is ahead of what is decoded, as long as much comes; it ends with the range."""
    log = LogInMemory([bytes(MessageSet([b"x" * 5] * 40_000))])
    half = len(log.data) // 2
    batches = reader(log, settings(half)).batches()
    first = next(batches)
    eventually(lambda: log.fetched_bytes == 2 * half)
    assert first.num_rows + sum(batch.num_rows for batch in batches) == 40_000
    assert log.fetched_bytes == 2 * half


def test_what_was_fetched_ahead_of_a_corrupt_message_is_not_used() -> None:
    """Lengths lead elsewhere than the reader goes then."""
    good = bytes(MessageSet([b"x" * 20] * 8))
    data = bytearray(good * 4)
    data[len(good) + 3] += 1  # the length of a message
    log = LogInMemory([bytes(data[: 2 * len(good)]), bytes(data[2 * len(good) :])])
    rows = rows_of(reader(log, settings(SMALL_FETCH, "drop")))
    assert rows[:8] == expected(good)
    assert rows[-16:] == expected(good * 2, 2 * len(good))


def test_batches_are_of_limited_size() -> None:
    """10,000 rows a batch at most, 2 MB and a message at most, from messages in the log and inside compressed ones."""
    plain = bytes(MessageSet([b"x" * 5] * 25_000))
    large = bytes(MessageSet([b"y" * 500_000] * 10))
    wrapped = bytes(MessageSet([b"z"] * 25_000, Codec.GZIP))
    log = LogInMemory([plain + large + wrapped])
    batches = list(reader(log, settings(8 * 1024 * 1024)).batches())
    assert sum(batch.num_rows for batch in batches) == 50_010
    assert max(batch.num_rows for batch in batches) == 10_000
    assert max(batch.nbytes for batch in batches) < 2 * 1024 * 1024 + 500_000 + 10_000 * 60


def test_small_sets_are_gathered() -> None:
    """Many small compressed sets and many fetches still make one batch."""
    data = b"".join(bytes(MessageSet([b"a", b"b", b"c"], Codec.SNAPPY)) for _ in range(100))
    [batch] = reader(LogInMemory([data]), settings(100)).batches()
    assert batch.num_rows == 300
    assert batch.column(6).to_pylist() == [0, 1, 2] * 100


def corrupted(encoded: list[bytes], index: int, position: int = -1) -> bytes:
    """Turn one byte of one message over."""
    broken = bytearray(encoded[index])
    broken[position] ^= 0xFF
    return b"".join([*encoded[:index], bytes(broken), *encoded[index + 1 :]])


PLAIN = [encode(b"message %d" % number) for number in range(10)]
LENGTH = len(PLAIN[0])


def test_a_corrupt_message_stops_the_read() -> None:
    """The error names topic, partition and offset; rows before it were given."""
    log = LogInMemory([corrupted(PLAIN, 4)])
    with pytest.raises(CorruptMessageError, match=f"views/0-1 at offset {4 * LENGTH}: CRC"):
        rows_of(reader(log, settings()))


def test_a_corrupt_message_is_skipped_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    """The others come, and the log says how many did not."""
    log = LogInMemory([corrupted(PLAIN, 4)])
    one = reader(log, settings(corrupt="skip"))
    with caplog.at_level(logging.WARNING):
        rows = rows_of(one)
    assert [row[0] for row in rows] == [b"message %d" % number for number in range(10) if number != 4]
    assert (one.corrupt_messages, one.corrupt_bytes) == (1, LENGTH)
    assert f"1 corrupt messages, {LENGTH} bytes in all" in caplog.text


def test_a_corrupt_message_can_be_a_row() -> None:
    """With a null for its value, and offsets around it."""
    log = LogInMemory([corrupted(PLAIN, 4)])
    rows = rows_of(reader(log, settings(corrupt="null")))
    assert len(rows) == 10
    assert rows[4] == (None, "views", 0, 1, 4 * LENGTH, 5 * LENGTH, 0)


@pytest.mark.parametrize("length", [0, 3, -1, 11, 200, 10**6])  # 200 ends in the next segment
def test_behind_a_corrupt_length_the_next_segment_is_read(length: int) -> None:
    """When lengths no longer lead to a known start, nothing before it is taken for a message."""
    broken = bytearray(b"".join(PLAIN))
    broken[4 * LENGTH : 4 * LENGTH + 4] = length.to_bytes(4, signed=True)
    log = LogInMemory([bytes(broken), b"".join(PLAIN)])
    one = reader(log, settings(SMALL_FETCH, "null"))
    rows = rows_of(one)
    assert [row[0] for row in rows[:5]] == [*(b"message %d" % number for number in range(4)), None]
    assert rows[4][4:6] == (4 * LENGTH, 10 * LENGTH)
    assert [row[0] for row in rows[5:]] == [b"message %d" % number for number in range(10)]
    assert one.corrupt_messages == 1


def test_a_length_that_no_message_may_have_is_not_fetched(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Nobody takes memory for it; what it hides up to the next segment counts as one message, and all its bytes do."""
    large = [encode(b"x" * 1000) for _ in range(100)]
    broken = bytearray(b"".join(large))
    broken[1010:1014] = (90_000).to_bytes(4)
    log = LogInMemory([bytes(broken), PLAIN[0]])
    fetched: list[int] = []
    read = log.read
    log.read = lambda offset, max_bytes: fetched.append(max_bytes) or read(offset, max_bytes)  # type: ignore[method-assign,func-returns-value]
    one = reader(log, ReadSettings(4096, 1000, 1000, True, "skip", 50_000))
    assert len(rows_of(one)) == 2
    assert max(fetched) == 4096
    assert (one.corrupt_messages, one.corrupt_bytes) == (1, 99 * 1010)
    assert "length 90000 makes more than 50000 bytes (maxMessageBytes)" in caplog.text
    assert "1 corrupt messages, 99990 bytes in all" in caplog.text


def test_bytes_inside_a_corrupt_message_are_never_taken_for_messages() -> None:
    """A length that leads into a payload, just to where a whole good message stands, is found out."""
    bait = encode(b"never published")
    holder = encode(b"." * 7 + bait + b"." * 5)
    broken = bytearray(holder)
    broken[:4] = (10 - 4 + 7).to_bytes(4)
    log = LogInMemory([b"".join([PLAIN[0], bytes(broken), PLAIN[1]]), PLAIN[2]])
    rows = rows_of(reader(log, settings(corrupt="skip")))
    assert [row[0] for row in rows] == [b"message 0", b"message 2"]


@given(segments=st.lists(sets, min_size=1, max_size=3), data=st.data())
def test_a_flipped_byte_never_brings_a_row_that_was_not_there(segments: list[list[bytes]], data: st.DataObject) -> None:
    """Whatever byte is turned over, the read ends, and its rows are some of the true ones, at their offsets.

    A length alone may lead to bytes of a compressed set that are a message, up to where the log ends: nothing tells.
    """
    encoded = [b"".join(segment) for segment in segments]
    log = LogInMemory(encoded)
    position = data.draw(st.integers(0, len(log.data) - 1))
    log.data[position] ^= 1 << data.draw(st.integers(0, 7))
    attributes = {start + 5 for start in _edges(b"".join(encoded))}  # not covered by the CRC
    rows = rows_of(reader(log, settings(SMALL_FETCH, "skip")))
    true = expected(b"".join(encoded))
    if position not in attributes:
        false = {row[:5] for row in rows} - {row[:5] for row in true}
        lengths = {start + byte for start in _edges(b"".join(encoded)) for byte in range(4)}
        assert not false or (position in lengths and false <= {row[:5] for row in _ending_the_log(log.data)})


def _ending_the_log(data: bytearray) -> Iterator[tuple[object, ...]]:
    """Tell the rows of every place from where on there are good messages up to the end."""
    for start in range(len(data)):
        with contextlib.suppress(KafkaError):
            yield from expected(bytes(data[start:]), start)


def test_a_set_that_does_not_open_counts_once() -> None:
    """Its CRC is right and its payload nonsense: what came before and behind it comes."""
    data = PLAIN[0] + encode(b"no gzip", Codec.GZIP) + PLAIN[1]
    one = reader(LogInMemory([data]), settings(corrupt="skip"))
    assert [row[0] for row in rows_of(one)] == [b"message 0", b"message 1"]
    assert one.corrupt_messages == 1
    with pytest.raises(CorruptMessageError, match=f"views/0-1 at offset {LENGTH}"):
        rows_of(reader(LogInMemory([data]), settings()))


def test_an_end_inside_a_message_is_an_error() -> None:
    """A range ends at a boundary, and one that does not is found out."""
    log = LogInMemory([b"".join(PLAIN)])
    with pytest.raises(CorruptMessageError, match="where the range ends"):
        rows_of(reader(log, settings(), end=LENGTH * 3 + 8))


def test_a_start_inside_a_message_is_an_error() -> None:
    """And the error says what may be wrong."""
    log = LogInMemory([b"".join(PLAIN)])
    with pytest.raises(CorruptMessageError, match="it is not one at which a message starts"):
        rows_of(reader(log, settings(), start=7))


def test_a_message_larger_than_a_fetch_is_read() -> None:
    """By one fetch of its size, and then by small ones again."""
    data = PLAIN[0] + encode(b"x" * 5000) + PLAIN[1]
    log = LogInMemory([data])
    assert rows_of(reader(log, settings(SMALL_FETCH))) == expected(data)
    assert log.fetched_bytes < 2 * len(data)


def test_a_broker_that_comes_back_is_waited_for() -> None:
    """Nothing is missing or twice."""
    log = LogInMemory([b"".join(PLAIN)])
    one = reader(log, settings(SMALL_FETCH))
    log.away = 3
    assert rows_of(one) == expected(b"".join(PLAIN))


def test_a_broker_that_stays_away_is_an_error() -> None:
    """After the time that the options allow, with the place it was at."""
    log = LogInMemory([b"".join(PLAIN)])
    log.away = 10**9
    with pytest.raises(
        BrokerAwayError, match=r"broker 0 was unavailable for 1000 ms .* views/0-1 was read at offset 0"
    ):
        rows_of(reader(log, settings()))


def test_lost_messages_stop_the_read() -> None:
    """Retention took the first segment before it was read."""
    log = LogInMemory([b"".join(PLAIN), b"".join(PLAIN)])
    one = reader(log, settings())
    log.delete_until(10 * LENGTH)
    with pytest.raises(DataLossError, match=f"views/0-1 holds offsets {10 * LENGTH} to {20 * LENGTH}, and 0"):
        rows_of(one)


def test_lost_messages_are_passed_over_if_allowed() -> None:
    """What is left is read; what was cut off at the end is not waited for."""
    log = LogInMemory([b"".join(PLAIN), b"".join(PLAIN)])
    how = settings(fail_on_data_loss=False)
    one, behind = reader(log, how), reader(log, how, end=log.end + 500)
    log.delete_until(10 * LENGTH)
    assert rows_of(one) == expected(b"".join(PLAIN), 10 * LENGTH)
    assert len(rows_of(behind)) == 10
