"""Message sets: scanned and decoded in C and in Python, opened, and checked by a broker before consumers read them."""

from __future__ import annotations

import json
import socket
import zlib
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kafka2011.broker.requests import receive_buffer
from kafka2011.broker.requests.message_check import MessageChecker
from kafka2011.broker.requests.receive_buffer import ReceiveBuffer
from kafka2011.errors import InvalidMessageError, InvalidMessageSizeError, MessageSizeTooLargeError
from kafka2011.message import runs, runs_python
from kafka2011.message.compression import Codec, compress, open_chunks
from kafka2011.message.message_set import Message, MessageSet, complete_prefix_bytes, decode, decode_shallow, scan
from kafka2011.ui.annotated import annotate, as_document, first_message
from kafka2011.wire.protocol import FrameReader, ProduceRequest, decode_request
from tests.fuzz.driver import Target
from tests.fuzz.messages import with_right_checksums, wrapped

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from tests.fuzz.driver import Run

_OPENED_BYTES = 1 << 18
_MOST_PIECES_BYTES = 1 << 19
_MESSAGE_BYTES = 1500
_REFUSALS = (InvalidMessageError, InvalidMessageSizeError, MessageSizeTooLargeError)


def _numbers(data: bytes) -> tuple[int, int, int, int]:
    """Return numbers that depend on a case: a position, an end, how many messages at most, an offset."""
    mixed = zlib.crc32(data)
    size = len(data) + 1
    position = 0 if mixed & 3 else mixed % size
    stop = len(data) if mixed & 12 else (mixed >> 4) % (size + 2)
    return position, stop, (-1, -1, 0, 1, 2, 5)[mixed % 6], (0, 17, 2**40, 2**62)[mixed >> 8 & 3]


@contextmanager
def open_runs() -> Iterator[Run]:
    """Check that C and Python see the same in any bytes, from any position."""
    code = runs.compiled
    assert code is not None, "the C code is not built"

    def run(data: bytes) -> Hashable:
        data = with_right_checksums(data) if len(data) & 1 else data
        position, stop, most, base = _numbers(data)
        walked = runs_python.walk(data, position, stop, most)
        assert code.walk(data, position, stop, most) == walked
        where: Any = (Message, data, position, most, "t", 1, 2, base)
        decoded = runs_python.decode(*where)
        assert code.decode(*where) == decoded
        opened: Any = (Message, data, most, "t", 1, 2, 5, 9)
        all_of_it = code.decode_opened(*opened)
        if all_of_it is not None:  # C may leave it to others
            assert all_of_it == runs_python.decode_opened(*opened)
        assert code.complete_prefix_bytes(data) == runs_python.complete_prefix_bytes(data)
        assert code.columns is not None
        end, rows, *_ = code.columns(data, position, stop, most, base)
        assert (end, rows) == walked[:2] or rows < walked[1]
        found = scan(data)
        assert found.end + found.partial_bytes <= len(data)
        assert found.end <= complete_prefix_bytes(data)
        return found.fault is None, min(found.messages, 4), len(found.wrappers) > 0, min(len(decoded[0]), 3)

    yield run


@contextmanager
def open_opened() -> Iterator[Run]:
    """Check that compressed bytes open within their limit, piece by piece, or are refused; and not for long."""

    def run(data: bytes) -> Hashable:
        codec, payload = data[0] % 4 if data else 0, data[1:]
        size = pieces = 0
        for chunk in open_chunks(codec, payload, _OPENED_BYTES):
            size += len(chunk)
            pieces += 1
            assert size <= _OPENED_BYTES
            assert pieces <= 2 * len(payload) + 8, "pieces that bring nothing"
        return codec, min(pieces, 5), size > 0

    yield run


@contextmanager
def open_checks() -> Iterator[Run]:
    """Check that consumers can read what a broker takes, as many messages as it counted, and that little is held.

    The first byte says how a set is wrapped: not, in one codec, or in both; and whether checksums are put right.
    """
    held: list[int] = []
    checker = MessageChecker(_MESSAGE_BYTES, _OPENED_BYTES, hold=held.append)

    def run(data: bytes) -> Hashable:
        how, inner = data[0] if data else 0, data[1:]
        if how & 1:
            inner = with_right_checksums(inner)
        for bits in (how >> 1 & 3, how >> 3 & 3):
            if bits in {1, 2}:
                inner = wrapped(compress(Codec(bits), inner), bits)
        if how & 0x20:
            inner = with_right_checksums(inner + data[: how & 7] + inner)
        held.clear()
        try:
            checked = checker.check(inner)
        finally:
            assert not held or held[-1] == 0
            assert max(held, default=0) <= _MOST_PIECES_BYTES
        taken = bytes(checked.data)
        assert inner.startswith(taken)
        messages = list(decode(taken, "t", 0, 0, 0, _OPENED_BYTES)) if taken else []
        assert len(messages) == checked.messages
        assert all(each.next_offset <= len(taken) for each in messages)
        if messages:
            assert messages[-1].next_offset == len(taken)
            assert sum(1 for _ in decode_shallow(taken, "t", 0, 0, 0)) <= len(messages) + taken.count(b"\x01")
        MessageSet.from_bytes(taken)
        return how & 0x3F, min(len(messages), 3)

    yield run


@contextmanager
def open_received() -> Iterator[Run]:
    """Check that the runs of produces that C finds are what Python would find there."""
    code = receive_buffer.compiled
    assert code is not None, "the C code is not built"
    near, far = socket.socketpair()
    near.setblocking(False)
    buffer = ReceiveBuffer(code, 1000, 400, 4096)

    def run(data: bytes) -> Hashable:
        if not data:
            return None
        kept = bytearray(data[: data[0] % 12])
        rest = data[len(kept) :] or b"\0"
        far.sendall(rest)
        received = buffer.receive(near.fileno(), kept, len(rest))
        assert received is not None
        assert received.size == len(rest)
        if received.is_more:
            return "more"
        whole = bytes(kept) + rest
        assert received.rest_end == len(whole)
        assert buffer.rest(0, received.rest_end) == whole
        at = 0
        for taken in received.runs:
            topic, partition, start, end, _, size, sets, messages = taken
            assert start == at
            reader = FrameReader(1000)
            reader.receive_data(whole[start:end])
            expected, counted = [], 0
            while (frame := reader.next_frame()) is not None:
                request = decode_request(frame)
                assert isinstance(request, ProduceRequest)
                assert (request.topic, request.partition) == (topic, partition)
                expected.append(bytes(request.messages))
                counted += MessageChecker(400, 1).check(request.messages).messages
            assert reader.buffered_bytes == 0
            assert (len(expected), counted) == (sets, messages)
            joined = b"".join(expected)
            assert size == len(joined)
            assert bytes(buffer.sets(taken)) == joined
            at = end
        assert at == received.rest_start
        return len(received.runs), sum(run[6] for run in received.runs) > 1

    try:
        yield run
    finally:
        near.close()
        far.close()


@contextmanager
def open_shown() -> Iterator[Run]:
    """Check that the console shows any bytes, each field in its place, and as JSON; and finds messages in them."""

    def run(data: bytes) -> Hashable:
        data = with_right_checksums(data) if len(data) & 1 else data
        every = list(annotate(data, 0, lambda _payload: None))
        json.dumps([as_document(each) for each in every])
        assert [each.offset for each in every[1:]] == [each.offset + each.size for each in every[:-1]]
        for each in every:
            assert data[each.offset :].hex().startswith(each.data)
            ends = [0, *(field.end for field in each.fields)]
            assert [field.start for field in each.fields] == ends[:-1]
            assert ends[-1] <= each.size
        found = first_message(data)
        if found is not None:
            MessageSet.from_bytes(data[found:])
        return min(len(every), 4), found is None, bool(every and every[-1].fault)

    yield run


TARGETS = (
    Target("runs", 110_000, open_runs, _REFUSALS, max_bytes=700),
    Target("opened", 130_000, open_opened, (InvalidMessageError,), (b"\x82SNAPPY\0", b"\x1f\x8b\x08")),
    Target("checks", 60_000, open_checks, _REFUSALS, max_bytes=700),
    Target("received", 40_000, open_received, ()),
    Target("shown", 10_000, open_shown, (), max_bytes=700),
)
