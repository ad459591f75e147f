"""Links between processes fail as they are told to, each way by itself."""

from __future__ import annotations

import os
import socket
import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING

import psutil
import pytest

from integration.chaos.links import Links, Mode, Way
from integration.chaos.proxies import Proxies, Proxy
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

TIMEOUT_S = 20.0
NOTHING_S = 0.3


class Ends:
    """A link, and how to connect over it: to a server that says `{number of the connection}` and then echoes."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        self.link: Proxy = stack.enter_context(Proxies()).add("a to b", self._listener.getsockname())

    def connect(self) -> tuple[socket.socket, socket.socket]:
        """Return both ends of a new connection."""
        near = self._stack.enter_context(socket.create_connection((self.link.host, self.link.port), TIMEOUT_S))
        self._listener.settimeout(TIMEOUT_S)
        far = self._stack.enter_context(self._listener.accept()[0])
        far.settimeout(TIMEOUT_S)
        near.sendall(b"hello")
        assert far.recv(100) == b"hello"
        far.sendall(b"hello")
        assert near.recv(100) == b"hello"
        return near, far


@pytest.fixture
def ends() -> Iterator[Ends]:
    with ExitStack() as stack:
        yield Ends(stack)


def gets_nothing(end: socket.socket) -> bool:
    """Say whether nothing arrives for a moment."""
    end.settimeout(NOTHING_S)
    try:
        end.recv(100)
    except TimeoutError:
        end.settimeout(TIMEOUT_S)
        return True
    return False


def is_over(end: socket.socket) -> bool:
    """Say whether the connection ends."""
    try:
        return end.recv(100) == b""
    except ConnectionError:
        return True


def test_frozen(ends: Ends) -> None:
    """Nothing arrives the frozen way until the link is open again; then all of it does."""
    near, far = ends.connect()
    ends.link.turn(Mode.FROZEN, (Way.FORTH,))
    near.sendall(b"late")
    far.sendall(b"in time")
    assert near.recv(100) == b"in time"
    assert gets_nothing(far)
    ends.link.turn(Mode.OPEN)
    assert far.recv(100) == b"late"


def test_frozen_at_the_end(ends: Ends) -> None:
    """Nor does the end of a connection arrive while the link is frozen or a hole."""
    for mode in (Mode.FROZEN, Mode.HOLE):
        near, far = ends.connect()
        ends.link.turn(mode)
        near.close()
        assert gets_nothing(far)
        ends.link.turn(Mode.OPEN)
        assert is_over(far)


def test_hole(ends: Ends) -> None:
    """What is sent is lost, and so is the connection, once the link is open again; one that lost nothing stays."""
    near, far = ends.connect()
    idle_near, idle_far = ends.connect()
    ends.link.turn(Mode.HOLE)
    near.sendall(b"lost")
    assert gets_nothing(far)
    ends.link.turn(Mode.OPEN)
    assert is_over(far)
    assert is_over(near)
    idle_near.sendall(b"well")
    assert idle_far.recv(100) == b"well"


def test_slow(ends: Ends) -> None:
    """Everything arrives."""
    near, far = ends.connect()
    ends.link.turn(Mode.SLOW, (Way.BACK,))
    far.sendall(b"at last")
    assert near.recv(100) == b"at last"


def test_cut(ends: Ends) -> None:
    """Connections end, new ones are refused, and work again once the link is open."""
    near, far = ends.connect()
    ends.link.turn(Mode.CUT)
    assert is_over(near)
    assert is_over(far)
    with socket.create_connection((ends.link.host, ends.link.port), TIMEOUT_S) as refused:
        assert is_over(refused)
    ends.link.turn(Mode.OPEN)
    ends.connect()


@pytest.mark.parametrize("mode", [Mode.CUT, Mode.FROZEN])
def test_the_link_of_one_process(ends: Ends, mode: Mode) -> None:
    """Only the connections of the process named suffer."""
    near, far = ends.connect()
    ends.link.turn(mode, only_pid=1)
    near.sendall(b"through")
    assert far.recv(100) == b"through"
    ends.link.turn(Mode.OPEN)
    ends.link.turn(mode, only_pid=os.getpid())
    near.sendall(b"stopped")
    assert is_over(far) if mode is Mode.CUT else gets_nothing(far)


def test_nobody_waits_while_connections_are_told_apart(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose connections they are is looked up once for all, and takes long on a busy machine: the rest goes on."""
    near, far = ends.connect()
    ends.connect()
    asked: list[psutil.Process] = []
    may_answer = threading.Event()

    def net_connections(process: psutil.Process, _kind: str) -> list[object]:
        asked.append(process)
        may_answer.wait(TIMEOUT_S)
        return []

    monkeypatch.setattr(psutil.Process, "net_connections", net_connections)
    turning = threading.Thread(target=ends.link.turn, args=(Mode.FROZEN,), kwargs={"only_pid": os.getpid()})
    turning.start()
    eventually(lambda: asked)
    near.sendall(b"through")
    assert far.recv(100) == b"through"
    may_answer.set()
    turning.join()
    assert len(asked) == 1


def test_nobody_listens(ends: Ends) -> None:
    """A link to nobody accepts and closes; nothing is left when the links end."""
    ends._listener.close()
    with socket.create_connection((ends.link.host, ends.link.port), TIMEOUT_S) as refused:
        assert is_over(refused)
    assert [thread.name for thread in threading.enumerate()].count("links") == 1


def test_a_link_is_renewed() -> None:
    """The same link is given again for the same target, and another one for another."""
    with Links() as links:
        one = links.add("a to b", ("127.0.0.1", 1))
        assert links.add("a to b", ("127.0.0.1", 1)) is one
        other = links.add("a to b", ("127.0.0.1", 2), port=one.port)
        assert (other.target[1], other.port) == (2, one.port)


def test_links_have_a_process_of_their_own(ends: Ends) -> None:
    """It does what it is told, says why when it cannot, and ends with the links."""
    with Links() as links:
        link = links.add("a to b", ends.link.target)
        connections = psutil.Process().net_connections("tcp")
        assert link.port not in [each.laddr.port for each in connections if each.status == psutil.CONN_LISTEN]
        link.turn(Mode.CUT)
        with socket.create_connection((link.host, link.port), TIMEOUT_S) as refused:
            assert is_over(refused)
        link.turn(Mode.OPEN)
        ends.link.port = link.port
        ends.connect()
        with pytest.raises(RuntimeError, match=r"add c to d: OSError: .* in use"):
            links.add("c to d", ends.link.target, port=link.port)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((link.host, link.port), TIMEOUT_S)
