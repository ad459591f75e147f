"""Threads that send answers, over real sockets."""

from __future__ import annotations

import errno
import os
import threading
from collections import Counter
from contextlib import ExitStack
from random import Random
from typing import TYPE_CHECKING, Any

import gevent
import gevent.socket
import pytest

from kafka2011.broker.connections import send_threads
from kafka2011.broker.connections.answer_threads import AnswerThreads
from kafka2011.broker.connections.answer_writer import AnswerWriter
from kafka2011.broker.connections.client_connection import arrived_bytes
from kafka2011.broker.connections.page_reads import PageReads
from kafka2011.broker.connections.send_threads import SendThreads
from kafka2011.broker.connections.sending import FILE_ENDED, NOT_IN_MEMORY, is_in_memory
from kafka2011.broker.connections.turn import Turn
from kafka2011.errors import BrokerConnectionError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kafka2011.broker.connections.sending import Part

pytestmark = [
    pytest.mark.skipif(send_threads.compiled is None, reason="no C code: scripts/setup.sh builds it"),
    pytest.mark.timeout(60),
]

DATA = Random(1).randbytes((4 << 20) + 1000)
STALL_TIMEOUT_S = 30.0


@pytest.fixture
def threads() -> Iterator[SendThreads]:
    made = SendThreads(2)
    assert [made.is_wanted(fd) for fd in (1, 2)] == [False, True]  # they have started
    before = threading.active_count()
    yield made
    made.stop()
    assert threading.active_count() <= before


@pytest.fixture
def file(tmp_path: Path) -> Iterator[int]:
    (tmp_path / "file").write_bytes(DATA)
    fd = os.open(tmp_path / "file", os.O_RDONLY)
    yield fd
    os.close(fd)


@pytest.fixture
def ends() -> Iterator[tuple[Any, Any]]:
    with ExitStack() as stack:
        yield pair(stack)


def pair(stack: ExitStack) -> tuple[Any, Any]:
    out, peer = gevent.socket.socketpair()
    return stack.enter_context(out), stack.enter_context(peer)


def read(peer: Any, size: int, rng: Random) -> bytes:
    found = b""
    while len(found) < size and (data := peer.recv(rng.choice((1, 1000, 1 << 20)))):
        found += data
        gevent.sleep(0)
    return found


def test_answers_to_many_arrive_whole_and_in_order(threads: SendThreads, file: int) -> None:
    """Several on each of 20 sockets, all at a time, however slowly each is read."""
    with ExitStack() as stack:

        def serve(out: Any, peer: Any, rng: Random) -> None:
            writer = AnswerWriter(out, Counter(), Turn(), AnswerThreads(PageReads(), threads))
            for _ in range(5):
                parts: tuple[Part, ...] = ()
                whole = b""
                for _ in range(rng.randrange(1, 6)):
                    head, position = rng.randbytes(rng.choice((0, 6, 200_000))), rng.randrange(len(DATA))
                    size = rng.randrange(len(DATA) - position)
                    parts += ((head, file, position, size),)
                    whole += head + DATA[position : position + size]
                reading = gevent.spawn(read, peer, len(whole), rng)
                writer.send_parts(parts, len(whole))
                assert reading.get() == whole

        serving = [gevent.spawn(serve, *pair(stack), Random(seed)) for seed in range(20)]
        gevent.joinall(serving, raise_error=True)


def test_what_goes_wrong_is_told_as_when_the_loop_sends(
    threads: SendThreads, file: int, ends: tuple[Any, Any], tmp_path: Path
) -> None:
    """A file that ends early, one that is not in memory, and a client that has gone."""
    out, peer = ends
    assert threads.send(out.fileno(), ((b"head", file, len(DATA) - 10, 20),), 0, 24, 9.0) == (14, FILE_ENDED)
    cold = os.open(tmp_path / "file", os.O_RDWR)
    os.fsync(cold)
    os.posix_fadvise(cold, 0, 0, os.POSIX_FADV_DONTNEED)
    if not is_in_memory(cold, 0, len(DATA)):  # it is, where a file system lives in memory
        assert threads.send(out.fileno(), ((b"next", cold, 0, 1000),), 0, 1004, 9.0) == (4, NOT_IN_MEMORY)
    os.close(cold)
    peer.close()
    _, error = threads.send(out.fileno(), ((b"head", -1, 0, 0),), 0, 4, 9.0)
    assert error in {errno.EPIPE, errno.ECONNRESET}


def test_a_client_that_reads_nothing_is_given_up(threads: SendThreads, file: int, ends: tuple[Any, Any]) -> None:
    """And its socket can be used again."""
    out, peer = ends
    parts = ((b"", file, 0, len(DATA)),)
    with pytest.raises(BrokerConnectionError, match="does not read its answer"):
        threads.send(out.fileno(), parts, 0, len(DATA), 0.05)
    while arrived_bytes(peer):
        peer.recv(1 << 20)
    assert threads.send(out.fileno(), ((b"again", -1, 0, 0),), 0, 5, STALL_TIMEOUT_S) == (5, 0)
    assert peer.recv(100) == b"again"


def test_one_that_reads_slowly_is_not(threads: SendThreads, file: int, ends: tuple[Any, Any]) -> None:
    """As long as something goes in every period."""
    out, peer = ends
    progress: list[int] = []

    def sent(size: int) -> None:
        threads.send(out.fileno(), ((b"", file, 0, size),), 0, size, 1.0)
        progress.append(size)

    sending = gevent.spawn(sent, len(DATA))
    found = 0
    while found < len(DATA):
        gevent.sleep(0.05)
        found += len(peer.recv(100_000))
    sending.get()
    assert progress == [len(DATA)]


@pytest.mark.parametrize("seed", range(5))
def test_nothing_is_sent_after_a_connection_was_cut(threads: SendThreads, file: int, seed: int) -> None:
    """Wherever its sending stood: the next one of the same number gets its own bytes only."""
    rng = Random(seed)
    for _ in range(20):
        with ExitStack() as stack:
            out, peer = pair(stack)
            fd = out.fileno()
            parts = ((b"", file, 0, len(DATA)),)
            sending = gevent.spawn(threads.send, fd, parts, 0, len(DATA), STALL_TIMEOUT_S)
            reading = gevent.spawn(read, peer, rng.randrange(len(DATA)), rng)
            gevent.sleep(rng.random() / 1000)
            sending.kill()
            out.close()
            reading.get()
            again, other = pair(stack)
            while fd not in {again.fileno(), other.fileno()}:  # a lower number was free
                again, other = pair(stack)
            if other.fileno() == fd:
                other = again
            assert threads.send(fd, ((b"own", -1, 0, 0),), 0, 3, STALL_TIMEOUT_S) == (3, 0)
            assert other.recv(100) == b"own"


def test_a_socket_sends_one_answer_at_a_time(threads: SendThreads, file: int, ends: tuple[Any, Any]) -> None:
    """Two at once would mix their bytes."""
    out, _ = ends
    first = gevent.spawn(threads.send, out.fileno(), ((b"", file, 0, len(DATA)),), 0, len(DATA), STALL_TIMEOUT_S)
    gevent.sleep(0)
    with pytest.raises(ValueError, match="on its way"):
        threads.send(out.fileno(), ((b"more", -1, 0, 0),), 0, 4, STALL_TIMEOUT_S)
    first.kill()


def test_the_only_reader_is_served_by_the_loop(threads: SendThreads, file: int, ends: tuple[Any, Any]) -> None:
    """A thread would have to wake for each of its answers; of several readers none has to wait for another."""
    assert threads.is_wanted(7)
    assert not threads.is_wanted(7)
    assert threads.is_wanted(8)
    assert threads.is_wanted(7)
    out, peer = ends
    sending = gevent.spawn(threads.send, out.fileno(), ((b"", file, 0, len(DATA)),), 0, len(DATA), STALL_TIMEOUT_S)
    gevent.sleep(0)
    assert threads.is_wanted(7)
    assert len(read(peer, len(DATA), Random(1))) == len(DATA)
    sending.get()
    assert not threads.is_wanted(7)


def test_without_descriptors_the_loop_sends_all(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """And says so once; and no thread starts once all is over."""

    def fail() -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    made = SendThreads(2)
    with monkeypatch.context() as patch:
        patch.setattr(send_threads.compiled, "Sender", fail)
        assert [made.is_wanted(fd) for fd in (1, 2, 3)] == [False, False, False]
    [record] = caplog.records
    assert record.getMessage() == "0 threads send large answers, not 2: [Errno 24] Too many open files"
    ended = SendThreads(2)
    ended.stop()
    assert [ended.is_wanted(fd) for fd in (1, 2, 3)] == [False, False, False]


def test_none_are_started_where_none_are_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor without C code."""
    assert SendThreads.of(0) is None
    monkeypatch.setattr(send_threads, "compiled", None)
    assert SendThreads.of(2) is None
