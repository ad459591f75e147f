"""Messages as columns: the same that `decode` gives one by one, in batches that have limits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka2011.errors import InvalidMessageError, InvalidMessageSizeError, KafkaError
from kafka2011.message.columns import SCHEMA, MessageColumns, decode_columns
from kafka2011.message.compression import Codec, compress
from kafka2011.message.message_set import Message, MessageSet, decode, decode_shallow, encode

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa

pytestmark = pytest.mark.usefixtures("each_code")

WHERE = ("views", 3, 7)
START = 4000
ONE = encode(b"one")
NESTED = encode(compress(Codec.GZIP, ONE + bytes(MessageSet([b"deep"] * 2, Codec.SNAPPY))), Codec.GZIP)
EMPTY_SET = encode(compress(Codec.GZIP, b""), Codec.GZIP)
GOOD = st.one_of(
    st.binary(max_size=50).map(encode),
    st.binary(max_size=50).map(lambda payload: encode(payload, magic=0)),
    st.lists(st.binary(max_size=20), max_size=8).map(lambda payloads: bytes(MessageSet(payloads, Codec.SNAPPY))),
    st.lists(st.binary(max_size=20), max_size=8).map(lambda payloads: bytes(MessageSet(payloads, Codec.GZIP))),
    st.sampled_from([NESTED, EMPTY_SET]),
)
BAD = st.sampled_from([ONE[:-1] + b"?", ONE[:7], b"\0\0\0\1\1\0\0\0\0\0", encode(b"no gzip", Codec.GZIP)])


def messages_of(batches: Iterable[pa.RecordBatch]) -> list[Message]:
    found: list[Message] = []
    for batch in batches:
        batch.validate(full=True)
        assert batch.schema.equals(SCHEMA)
        assert batch.num_rows
        found += [Message(**row) for row in batch.to_pylist()]
    return found


def outcome(messages: Iterable[Message]) -> tuple[list[Message], str]:
    """Return the messages before an error, and what it says."""
    found: list[Message] = []
    try:
        for message in messages:
            found.append(message)  # noqa: PERF402 (keeps what came before the error)
    except KafkaError as error:
        return found, f"{type(error).__name__}: {error}"
    return found, ""


def as_messages(batches: Iterable[pa.RecordBatch]) -> Iterable[Message]:
    for batch in batches:
        yield from messages_of([batch])


@given(
    parts=st.lists(GOOD, max_size=8),
    bad=st.one_of(st.just(b""), BAD),
    rest=GOOD,
    shallow=st.booleans(),
    rows=st.integers(1, 9),
)
def test_columns_are_what_is_decoded(parts: list[bytes], bad: bytes, rest: bytes, shallow: bool, rows: int) -> None:
    """All codecs and magics, up to a fault or a part of a message, which is the same error; batches end with sets."""
    data = b"".join([*parts, bad, rest if bad else b""])
    batches = decode_columns(data, *WHERE, START, shallow=shallow, max_rows=rows)
    assert outcome(as_messages(batches)) == outcome((decode_shallow if shallow else decode)(data, *WHERE, START))


@given(parts=st.lists(GOOD, min_size=1, max_size=8), cut=st.integers(1, 8), rows=st.integers(1, 5))
def test_decoding_goes_on_where_a_batch_ended(parts: list[bytes], cut: int, rows: int) -> None:
    """A batch's last next offset is where the next one begins; a part of a message at the end is left out."""
    parts = [ONE, *parts]
    data = b"".join(parts) + ONE[:cut]
    found: list[Message] = []
    position = 0
    while batch := next(decode_columns(data, *WHERE, START, position=position, max_rows=rows), None):
        more = messages_of([batch])
        found += more
        position = more[-1].next_offset - START
        assert sum(1 for each in more if not each.index_in_set and not _is_inside(data, each)) <= rows
    assert found == list(decode(b"".join(parts), *WHERE, START))


def _is_inside(data: bytes, message: Message) -> bool:
    return bool(data[message.offset - START + 4]) and bool(data[message.offset - START + 5] & 3)


def test_of_a_set_that_does_not_open_to_its_end_nothing_is_given() -> None:
    """Whoever comes back for more would get the good ones again and again: they have no offset of their own."""
    half = encode(compress(Codec.GZIP, ONE + ONE[:-1] + b"?"), Codec.GZIP)
    batches = decode_columns(ONE + half + ONE, *WHERE, START)
    assert [message.payload for message in messages_of([next(batches)])] == [b"one"]
    with pytest.raises(InvalidMessageError, match=f"views/3-7 at offset {START + len(ONE)} does not open"):
        next(batches)


def test_batches_have_limits() -> None:
    """In rows and bytes; what makes a batch full comes in whole."""
    plain = ONE * 25
    assert [b.num_rows for b in decode_columns(plain, *WHERE, 0, max_rows=10)] == [10, 10, 5]
    assert [b.num_rows for b in decode_columns(plain, *WHERE, 0, max_bytes=4 * len(ONE))] == [5] * 5
    sets = bytes(MessageSet([b"x"] * 7, Codec.GZIP)) * 3
    assert [b.num_rows for b in decode_columns(sets, *WHERE, 0, max_rows=10)] == [14, 7]
    assert [b.num_rows for b in decode_columns(sets, *WHERE, 0, max_rows=1)] == [7, 7, 7]


def test_a_broker_that_is_not_known_is_null() -> None:
    """As in Message."""
    [batch] = decode_columns(ONE, "views", None, 7, 0)
    assert messages_of([batch]) == list(decode(ONE, "views", None, 7, 0))
    assert batch.column("broker_id").null_count == 1


def test_less_than_one_message_is_an_error() -> None:
    """Which names the size needed; nothing at all is no error."""
    with pytest.raises(InvalidMessageSizeError, match=f"which needs {len(ONE)}"):
        list(decode_columns(ONE[:-1], *WHERE, 0))
    assert list(decode_columns(b"", *WHERE, 0)) == []


def test_columns_begin_anew_after_each_batch() -> None:
    """Nothing of one batch is in the next, and an empty one has no rows."""
    columns = MessageColumns(*WHERE, max_rows=3)
    data = ONE * 10
    position, rows = 0, 0
    while position < len(data):
        position = columns.add_run(data, position, 100)
        rows += len(columns)
        assert len(columns) <= 3
        batch = columns.take()
        assert batch.column("offset").to_pylist()[0] + len(ONE) == batch.column("next_offset").to_pylist()[0]
        assert not len(columns)
    assert rows == 10
    assert columns.take().num_rows == 0


@pytest.mark.parametrize("rows", [1, 511, 512, 513, 1024, 5000, 2**14, 2**14 + 1])
def test_batches_of_any_length_say_where_they_are_from(rows: int) -> None:
    """Also where what says it is kept from batch to batch, of several partitions in turn."""
    for where in [("views", 3, 7), ("views", 3, 8), ("clicks", None, 7), ("views", 3, 7)]:
        columns = MessageColumns(*where, max_rows=rows)
        columns.add_run(encode(b"") * rows, 0, 0)
        batch = columns.take()
        batch.validate(full=True)
        assert batch.num_rows == rows
        for name, value in zip(("topic", "broker_id", "partition"), where, strict=True):
            assert batch.column(name).to_pylist() == [value] * rows
