"""Standard input and sockets, into a real spool."""

from __future__ import annotations

import os
import socket
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from kafka2011.collect.counts import CollectCounts
from kafka2011.collect.line_inputs import LineInputs, ListenError, SocketAddress, close_listener, open_listener
from kafka2011.collect.lines import LineCutter
from kafka2011.collect.spool import MIN_SPOOL_BYTES, Spool, SpoolSettings
from tests.support.clocks import ManualClock
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Taking:
    """Inputs that run, and what arrived in their spool."""

    def __init__(self, directory: Path, stack: ExitStack) -> None:
        self.address = SocketAddress(str(directory / "socket"))
        self.counts = CollectCounts()
        self.spool = Spool(SpoolSettings(directory / "spool", "views", MIN_SPOOL_BYTES), 0, self.counts, ManualClock())
        stack.callback(self.spool.close)
        self.lines: list[bytes] = []
        self._stack = stack

    def start(self, *, stdin: int | None = None, listens: bool = False, max_clients: int = 10) -> LineInputs:
        listener = None
        if listens:
            listener = open_listener(self.address)
            self._stack.callback(close_listener, listener)
        inputs = LineInputs(
            self.spool, self.counts, lambda: LineCutter(1000), stdin=stdin, listener=listener, max_clients=max_clients
        )
        self._stack.callback(inputs.stop)
        self._stack.callback(self.spool.interrupt)
        inputs.start()
        return inputs

    def connect(self) -> socket.socket:
        client = socket.socket(socket.AF_UNIX)
        self._stack.callback(client.close)
        client.connect(self.address.path)
        return client

    def has(self, *lines: bytes) -> bool:
        while found := self.spool.read():
            self.lines += found[0]
            self.spool.confirm(found[1])
        self.spool.trim()
        return sorted(self.lines) == sorted(lines)


@pytest.fixture
def taking(tmp_path: Path) -> Iterator[Taking]:
    with ExitStack() as stack:
        yield Taking(tmp_path, stack)


def test_standard_input_until_its_end(taking: Taking, caplog: pytest.LogCaptureFixture) -> None:
    """Lines come as they are written; what has no newline at the end counts as a line."""
    read, write = os.pipe()
    inputs = taking.start(stdin=read)
    os.write(write, b"one\ntw")
    eventually(lambda: taking.has(b"one"))
    os.write(write, b"o\nthr")
    os.close(write)
    eventually(lambda: inputs.have_ended)
    assert taking.has(b"one", b"two", b"thr")
    assert "standard input ends without a newline: its last 3 bytes are a line" in caplog.text
    os.close(read)


def test_standard_input_may_be_a_file(taking: Taking, tmp_path: Path) -> None:
    """Redirected from one, which not every way of waiting takes."""
    (tmp_path / "file").write_bytes(b"one\n" * 50_000)
    with (tmp_path / "file").open("rb") as file:
        inputs = taking.start(stdin=file.fileno())
        eventually(lambda: inputs.have_ended)
    assert taking.has(*[b"one"] * 50_000)


def test_many_clients(taking: Taking) -> None:
    """Each has its own lines, however their bytes arrive; one with half a line holds up nobody."""
    taking.start(listens=True)
    one, two = taking.connect(), taking.connect()
    one.sendall(b"on")
    two.sendall(b"two\nthr")
    eventually(lambda: taking.has(b"two"))
    one.sendall(b"e\n")
    two.close()
    eventually(lambda: taking.has(b"one", b"two", b"thr"))


def test_clients_are_bounded(taking: Taking, caplog: pytest.LogCaptureFixture) -> None:
    """Who comes when all places are taken waits until one is free, and loses nothing."""
    taking.start(listens=True, max_clients=2)
    clients = [taking.connect() for _ in range(3)]
    for number, client in enumerate(clients):
        client.sendall(b"%d\n" % number)
    eventually(lambda: taking.has(b"0", b"1"))
    eventually(lambda: "2 clients are connected: others wait" in caplog.text)
    clients[0].close()
    eventually(lambda: taking.has(b"0", b"1", b"2"))


def test_a_full_spool_holds_up_its_clients(taking: Taking) -> None:
    """Nothing more is read from them, so that they notice, and nothing is lost."""
    taking.start(listens=True)
    client = taking.connect()
    client.settimeout(0.2)
    sent = 0
    with pytest.raises(TimeoutError):  # noqa: PT012
        for _ in range(100):
            sent += client.send((b"x" * 999 + b"\n") * 100)
    assert sent < 4 * MIN_SPOOL_BYTES
    client.close()
    size = 0

    def all_came() -> bool:
        nonlocal size
        taking.has()
        size += sum(len(line) + 1 for line in taking.lines)
        taking.lines.clear()
        return size >= sent

    eventually(all_came)
    assert taking.counts.lines_dropped == 0


def test_lines_that_are_too_long_are_cut(taking: Taking, caplog: pytest.LogCaptureFixture) -> None:
    """Also for a client that never sends an end."""
    taking.start(listens=True)
    client = taking.connect()
    client.sendall(b"x" * 5000 + b"\n" + b"y" * 5000)
    client.close()
    eventually(lambda: taking.counts.lines_too_long == 2)
    taking.has()
    assert {len(line) for line in taking.lines} == {1000}
    assert "lines from client" in caplog.text


def test_the_socket_of_a_dead_collector_is_replaced(tmp_path: Path) -> None:
    """A socket file that nobody listens at is in nobody's way; one that is in use is."""
    address = SocketAddress(str(tmp_path / "socket"))
    listener = open_listener(address)
    with pytest.raises(ListenError, match=f"cannot listen at unix:{tmp_path}/socket: Address already in use"):
        open_listener(address)
    listener.close()  # without removing it, as kill -9 does
    again = open_listener(address)
    close_listener(again)
    assert not (tmp_path / "socket").exists()


def test_no_other_file_is_replaced(tmp_path: Path) -> None:
    """A path that is no socket is an error."""
    (tmp_path / "file").write_text("precious")
    with pytest.raises(ListenError, match="Address already in use"):
        open_listener(SocketAddress(str(tmp_path / "file")))
    assert (tmp_path / "file").read_text() == "precious"


def test_a_port_of_this_machine() -> None:
    """TCP works as well."""
    listener = open_listener(SocketAddress("", "127.0.0.1", 0))
    with socket.create_connection(listener.getsockname()):
        pass
    close_listener(listener)
