"""Sending bytes and pieces of files over a real socket, by C and by Python alike."""

from __future__ import annotations

import errno
import os
import socket
from random import Random
from typing import TYPE_CHECKING

import gevent.socket
import pytest

from kafka2011.broker.connections import sending
from kafka2011.broker.connections.page_reads import PageReads
from kafka2011.broker.connections.sending import (
    FILE_ENDED,
    MOST_PARTS,
    NOT_IN_MEMORY,
    batches,
    is_in_memory,
    pieces_between,
    send_parts,
)
from kafka2011.log.segment import LogSegment

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kafka2011.broker.connections.sending import Part
    from kafka2011.log.segment import LogSlice

pytestmark = pytest.mark.usefixtures("each_code")

DATA = bytes(range(256)) * 4096


class Ends:
    """A socket that sends without waiting, what reads from it, and a file."""

    def __init__(self, path: Path) -> None:
        path.write_bytes(DATA)
        self.fd = os.open(path, os.O_RDONLY)
        here, self.peer = socket.socketpair()
        self.peer.setblocking(False)
        self.out = gevent.socket.socket(fileno=here.detach())

    def read(self) -> bytes:
        found = b""
        while True:
            try:
                data = self.peer.recv(1 << 20)
            except BlockingIOError:
                return found
            found += data

    def close(self) -> None:
        os.close(self.fd)
        self.out.close()
        self.peer.close()


@pytest.fixture
def ends(tmp_path: Path) -> Iterator[Ends]:
    made = Ends(tmp_path / "file")
    yield made
    made.close()


@pytest.mark.parametrize("seed", range(10))
def test_all_parts_arrive_whole_and_in_order(ends: Ends, seed: int) -> None:
    """However little the socket takes at once, and wherever a call ends."""
    rng = Random(seed)
    parts: list[Part] = []
    expected = b""
    for _ in range(rng.randrange(1, MOST_PARTS + 1)):
        head = rng.randbytes(rng.choice((0, 6, 6, 6, 5000)))
        position = rng.randrange(len(DATA))
        size = rng.choice((0, 1, rng.randrange(len(DATA) - position)))
        parts.append((head, ends.fd, position, size))
        expected += head + DATA[position : position + size]
    found = b""
    sent_bytes = 0
    while sent_bytes < len(expected):
        until_bytes = min(len(expected), sent_bytes + rng.choice((1, 7, 100_000, 10**7)))
        now_bytes, error = send_parts(ends.out, tuple(parts), sent_bytes, until_bytes)
        assert (error, now_bytes >= until_bytes) in {(0, True), (errno.EAGAIN, False)}
        arrived = ends.read()
        assert len(arrived) == now_bytes - sent_bytes
        sent_bytes = now_bytes
        found += arrived
    assert found == expected


def test_a_file_that_ends_early_is_told_from_the_end_of_a_connection(ends: Ends) -> None:
    """The bytes before have gone."""
    parts = ((b"head", ends.fd, len(DATA) - 10, 20),)
    assert send_parts(ends.out, parts, 0, 24, may_wait=True) == (14, FILE_ENDED)
    assert ends.read() == b"head" + DATA[-10:]
    ends.peer.close()
    assert send_parts(ends.out, ((b"head", -1, 0, 0),), 0, 4) == (0, errno.EPIPE)
    assert send_parts(ends.out, ((b"", ends.fd, 0, 9),), 0, 9) == (0, errno.EPIPE)


def test_what_is_not_in_memory_is_read_first(tmp_path: Path, ends: Ends) -> None:
    """What stands before it has gone; once it was read, all goes. Without C the disk is waited for."""
    path = tmp_path / "cold"
    path.write_bytes(DATA)
    fd = os.open(path, os.O_RDWR)
    try:
        assert is_in_memory(fd, 0, len(DATA))
        os.fsync(fd)  # what is not written yet cannot go
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        if sending.compiled is not None and is_in_memory(fd, 0, len(DATA)):
            pytest.skip("a file system that lives in memory")
        parts = ((b"head", ends.fd, 0, 5000), (b"next", fd, 70_000, 100_000))
        sent = 5008 if sending.compiled is not None else 105_008
        assert send_parts(ends.out, parts, 0, 105_008) == (sent, NOT_IN_MEMORY if sent == 5008 else 0)
        PageReads().read(pieces_between(parts, 5008, 105_008))
        assert is_in_memory(fd, 70_000, 100_000)
        if sending.compiled is not None:
            assert not is_in_memory(fd, 0, len(DATA)), "more was read than is sent"
            assert send_parts(ends.out, parts, sent, 105_008) == (105_008, 0)
        assert ends.read() == b"head" + DATA[:5000] + b"next" + DATA[70_000:170_000]
    finally:
        os.close(fd)


def test_pieces_of_files_are_found_among_the_parts() -> None:
    """Wherever sending begins and ends: bytes that are no file's are left out."""
    parts = ((b"head", 3, 100, 10), (b"", 4, 0, 5), (b"end", -1, 0, 0))
    assert pieces_between(parts, 0, 22) == [(3, 100, 10), (4, 0, 5)]
    assert pieces_between(parts, 0, 4) == []
    assert pieces_between(parts, 6, 15) == [(3, 102, 8), (4, 0, 1)]
    assert pieces_between(parts, 19, 22) == []


def test_a_batch_opens_one_file_at_most(tmp_path: Path) -> None:
    """Bytes stand before the piece that follows them; those after the last piece come at the end."""
    slices: list[LogSlice] = []
    for number in range(3):
        (tmp_path / str(number)).write_bytes(DATA)
        slices.append(LogSegment(tmp_path / str(number), 0, len(DATA)).slice(number, 10))
    slices[1].park()
    slices[2].park()
    found = list(batches((b"a", b"b", slices[0], b"c", slices[1], slices[2], b"d")))
    assert found == [[(b"ab", slices[0]), (b"c", slices[1])], [(b"", slices[2]), (b"d", None)]]
    for each in slices:
        each.release()


@pytest.mark.parametrize("count", [1, MOST_PARTS, MOST_PARTS + 1, 3 * MOST_PARTS])
def test_a_batch_is_what_one_call_sends(tmp_path: Path, count: int) -> None:
    """However many parts there are."""
    (tmp_path / "0").write_bytes(DATA)
    segment = LogSegment(tmp_path / "0", 0, len(DATA))
    slices = [segment.slice(0, 10) for _ in range(count)]
    found = list(batches((*slices, b"end")))
    assert [piece for batch in found for _, piece in batch] == [*slices, None]
    assert max(map(len, found)) <= MOST_PARTS
    for each in slices:
        each.release()
    assert list(batches((b"end",))) == [[(b"end", None)]]
