"""The ZooKeeper client: connecting, and what is never sent."""

from __future__ import annotations

import logging
import shutil
import socket
import subprocess
import sys
import threading
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest
from kazoo.client import KazooClient
from kazoo.handlers.threading import SequentialThreadingHandler

from tests.support.sessions import expire_session
from tests.support.waiting import eventually
from zk.client import ZkClient
from zk.connecting import connect
from zk.errors import ConnectionLost, NodeExists, NoNode, NotConnected, SessionExpired, VersionConflict, ZkError
from zk.local_zookeeper import LocalZooKeeper
from zk.nodes import Nodes, Write
from zk.ports import free_port
from zk.sessions import SessionEvents

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def test_the_chroot_is_made_with_null_data(zk_connect: str, zookeeper: LocalZooKeeper) -> None:
    """Several levels of it, by several clients, and nothing lands outside of it."""
    for _ in range(2):
        with connect(f"{zk_connect}/deep/er", 2000) as client:
            Nodes(client).ensure_persistent("/a")
    raw = KazooClient(f"{zookeeper.connect_string}/{zk_connect.rpartition('/')[2]}")
    raw.start()
    try:
        for path in ("/", "/deep", "/deep/er", "/deep/er/a"):
            assert raw.get(path)[0] is None, path
        assert raw.get_children("/deep/er") == ["a"]
    finally:
        raw.stop()
        raw.close()


def test_the_granted_session_timeout_is_known(zk_connect: str) -> None:
    """It is the server's word that counts, not what was asked for."""
    with connect(zk_connect, 100, connection_timeout_ms=20_000) as client:
        assert client.session_timeout_ms == 1000
    with connect(zk_connect, 2000) as client:
        assert client.session_timeout_ms == 2000


def test_nobody_there_is_an_error_that_names_the_address() -> None:
    """Within the connection timeout, and as an Exception."""
    address = f"127.0.0.1:{free_port()}"
    with pytest.raises(NotConnected, match=rf"{address}/x within 300 ms"):
        connect(f"{address}/x", 2000, connection_timeout_ms=300)


@pytest.mark.parametrize(("handler", "errno"), [(None, socket.EAI_NONAME), (None, socket.EAI_AGAIN), ("", 0)])
def test_a_host_that_does_not_exist_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, handler: str | None, errno: int
) -> None:
    """A client fails at once. Where the name may come later, as for a server, it fails in time, and says meanwhile why.

    The error names it.
    """

    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(errno or socket.EAI_NONAME, "no such name")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    is_final = errno == socket.EAI_NONAME
    timeout_ms = 600_000 if is_final else 300
    words = r"no ZooKeeper at nosuch\.example:2181: nosuch\.example cannot be resolved: no such name"
    with pytest.raises(NotConnected, match=words):
        connect("nosuch.example:2181", 2000, timeout_ms, None if handler is None else SequentialThreadingHandler())
    said = [record.message for record in caplog.records if record.levelno >= logging.WARNING]
    waits = ["nosuch.example cannot be resolved: no such name: trying again, for 300 ms in all"]
    assert said == ([] if is_final else waits)


def test_name_servers_that_do_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error comes in time, and says that they were waited for."""
    over = threading.Event()

    def unanswered(*_: object, **__: object) -> NoReturn:
        over.wait(60)
        raise socket.gaierror(socket.EAI_AGAIN, "no answer")

    monkeypatch.setattr(socket, "getaddrinfo", unanswered)
    try:
        with pytest.raises(NotConnected, match=r"within 300 ms: no name server has said where slow\.example is"):
            connect("slow.example:2181", 2000, 300)
    finally:
        over.set()


def test_what_is_no_zookeeper_is_called_that() -> None:
    """Such as a broker, whose port was given: it takes the connection, and ends it, or says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"

        def hang_up() -> None:
            while True:
                try:
                    server.accept()[0].close()
                except OSError:
                    return

        thread = threading.Thread(target=hang_up)
        thread.start()
        try:
            with pytest.raises(NotConnected, match=rf"within 300 ms: what listens at {address} is no ZooKeeper"):
                connect(address, 2000, 300)
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


def test_tries_to_connect_are_no_warnings(caplog: pytest.LogCaptureFixture) -> None:
    """Of an application that sets up nothing, which would have nine of kazoo's beside our error."""
    caplog.set_level(logging.INFO)
    caplog.set_level(logging.INFO, "zk.kazoo")  # a command that an earlier test called in this process turns it off
    with pytest.raises(NotConnected):
        connect(f"127.0.0.1:{free_port()}", 2000, 300)
    assert [record.levelno for record in caplog.records if record.name == "zk.kazoo"] != []
    assert [record.message for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_an_address_that_is_silent_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error comes when it says, though the client's own thread still waits."""
    may_end, ended = threading.Event(), threading.Event()
    shutdown = ZkClient.shutdown

    def slow_shutdown(client: ZkClient) -> None:
        may_end.wait(30)
        shutdown(client)
        ended.set()

    monkeypatch.setattr(ZkClient, "shutdown", slow_shutdown)
    with pytest.raises(NotConnected, match="within 100 ms"):
        connect(f"127.0.0.1:{free_port()}", 2000, connection_timeout_ms=100)
    assert not ended.is_set()
    may_end.set()
    assert ended.wait(30)


def test_an_address_that_swallows_packets_costs_no_session(zookeeper: LocalZooKeeper) -> None:
    """Each address gets its share of the session timeout; by itself kazoo would wait all of it for the first one."""
    with black_hole() as hole, connect(f"{hole},{zookeeper.connect_string}", 3000, 60_000) as client:
        client.randomize_hosts = False
        events, before = SessionEvents(client), client.session_id
        client._connection._socket.shutdown(socket.SHUT_RDWR)
        eventually(lambda: events.session_id is None)
        eventually(lambda: events.session_id is not None)
        assert events.session_id == before


@contextmanager
def black_hole() -> Iterator[str]:
    """Listen on an address that answers no packets: nobody accepts, and the queue is full."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(3):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        yield "{}:{}".format(*listener.getsockname())


@pytest.mark.parametrize("address", ["", "/chroot", "h:port", ":2181"])
def test_an_address_without_sense_is_an_error(address: str) -> None:
    """At once."""
    with pytest.raises(ZkError, match=r"zk\.connect"):
        connect(address, 2000, connection_timeout_ms=100)


def test_errors_are_ours_and_name_the_path(client: ZkClient) -> None:
    """Whatever kazoo raises."""
    nodes = Nodes(client)
    with pytest.raises(NoNode, match="/a/b"):
        nodes.create("/a/b", b"x")
    nodes.create_with_parents("/a/b", b"x")
    with pytest.raises(NodeExists, match="/a/b"):
        nodes.create("/a/b", b"x")
    with pytest.raises(VersionConflict, match=r"/a/b: no longer at version 7"):
        nodes.set("/a/b", b"y", 7)
    assert nodes.set("/a/b", b"y", 0) == 1
    assert nodes.get("/nothing") is None
    assert nodes.delete("/nothing") is False
    assert nodes.children("/nothing") == []


def test_many_nodes_are_read_at_once(client: ZkClient) -> None:
    """More than go out together, and those that are absent are left out."""
    nodes = Nodes(client)
    for number in range(200):
        nodes.create_with_parents(f"/many/{number:03}", b"%d" % number)
    read = nodes.read_children("/many")
    assert list(read) == [f"{number:03}" for number in range(200)]
    assert [node.data for node in read.values()] == [b"%d" % number for number in range(200)]
    assert list(nodes.get_many(["/many/000", "/many/none"])) == ["/many/000"]


@pytest.mark.parametrize("many", [5, 1000])
def test_many_nodes_are_written_at_once(client: ZkClient, monkeypatch: pytest.MonkeyPatch, many: int) -> None:
    """More than go out together, and each says what became of it; in transactions, or one by one."""
    monkeypatch.setattr("zk.nodes._PIPELINED", 7)
    monkeypatch.setattr("zk.nodes._MANY", many)
    monkeypatch.setattr("zk.nodes._IN_TRANSACTION", 4)
    nodes = Nodes(client)
    every = {f"/{number % 3}/{number:02}": b"%d" % number for number in range(50)}
    nodes.create_with_parents("/0/03", b"was there")
    outcomes = nodes.create_many(every)
    assert list(outcomes) == list(every)
    assert isinstance(outcomes.pop("/0/03"), NodeExists)
    assert set(outcomes.values()) == {None}
    assert nodes.exist(["/0/00", "/0/01"]) == {"/0/00": True, "/0/01": False}
    written = nodes.set_many([Write("/0/00", b"x", 0), Write("/1/01", b"x", 5), Write("/9", b"x", 0)])
    assert written["/0/00"] == 1
    assert isinstance(written["/1/01"], VersionConflict)
    assert isinstance(written["/9"], NoNode)
    assert nodes.get("/0/00").data == b"x"  # type: ignore[union-attr]
    assert nodes.delete_many([*every, "/9"]) == set(every)
    assert nodes.get_many(every) == {}


def test_a_watch_is_set_on_a_path_that_does_not_exist_yet(client: ZkClient, new_client: Callable[[], ZkClient]) -> None:
    """And fires when it is created, and when its children change."""
    nodes, fired = Nodes(client), threading.Event()
    assert nodes.children("/later", lambda _: fired.set()) == []
    Nodes(new_client()).ensure_persistent("/later")
    assert fired.wait(20)
    fired.clear()
    assert nodes.children("/later", lambda _: fired.set()) == []
    Nodes(new_client()).ensure_persistent("/later/child")
    assert fired.wait(20)


def test_a_call_in_another_session_is_refused(client: ZkClient) -> None:
    """It never reaches ZooKeeper, whatever kind it is."""
    nodes = Nodes(client)
    nodes.upsert("/x", b"before")
    stranger = Nodes(client, nodes.session_id + 1)
    calls: list[Callable[[], object]] = [
        lambda: stranger.get("/x"),
        lambda: stranger.get_many(["/x"]),
        lambda: stranger.exists("/x"),
        lambda: stranger.children("/"),
        lambda: stranger.create("/y", b""),
        lambda: stranger.set("/x", b"after"),
        lambda: stranger.delete("/x"),
        stranger.sync,
    ]
    for call in calls:
        with pytest.raises(NotConnected):
            call()
    assert nodes.children("/") == ["x"]
    assert nodes.get("/x").data == b"before"  # type: ignore[union-attr]


def test_a_call_made_while_disconnected_is_refused_and_never_sent(own_zookeeper: LocalZooKeeper) -> None:
    """By itself, kazoo would keep it and send it after the reconnect."""
    with connect(own_zookeeper.connect_string, 4000) as client:
        events = SessionEvents(client)
        own_zookeeper.stop()
        while events.session_id is not None:
            events.wait(10)
        with pytest.raises(NotConnected):
            Nodes(client).create("/late", b"")
        own_zookeeper.start()
        while events.session_id is None:
            assert events.wait(30)
        assert Nodes(client).children("/") == ["zookeeper"]


@dataclass
class Writer:
    """Creates znode after znode until it is told to stop, and notes what became of each."""

    prefix: str
    nodes: Nodes
    stop: threading.Event
    refused: list[str] = field(default_factory=list)
    confirmed: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)

    def __call__(self) -> None:
        for number in count():
            if self.stop.is_set():
                return
            path = f"/{self.prefix}-{number}"
            try:
                self.nodes.create(path, b"")
            except NotConnected:
                self.refused.append(path)
                self.stop.wait(0.005)
            except (ConnectionLost, SessionExpired):
                self.unknown.append(path)
            else:
                self.confirmed.append(path)


def test_a_zookeeper_that_was_put_back_is_met_in_a_new_session(tmp_path: Path) -> None:
    """It refuses whoever has seen more than it has; what it lost is not there, and watches tell of that."""
    data, copy = tmp_path / "zookeeper", tmp_path / "copy"
    with LocalZooKeeper(data_dir=data) as zookeeper, connect(zookeeper.connect_string, 1000) as client:
        nodes = Nodes(client)
        nodes.create("/kept", b"")
        zookeeper.pause()
        shutil.copytree(data, copy)
        zookeeper.resume()
        for number in range(50):  # more than what connecting again costs
            nodes.create(f"/lost-{number}", b"")
        session = client.session_id
        zookeeper.kill()
        shutil.rmtree(data)
        shutil.copytree(copy, data)
        zookeeper.start()
        eventually(lambda: client.session_id not in {None, session}, what="a new session")
        assert nodes.exists("/kept")
        assert not nodes.exists("/lost-49")


def test_every_call_ends_while_zookeeper_comes_and_goes(own_zookeeper: LocalZooKeeper) -> None:
    """None hangs; what was refused did not happen, what was confirmed did; what is unknown says so."""
    stop = threading.Event()
    with connect(own_zookeeper.connect_string, 2000) as client:
        writers = [Writer(f"w{number}", Nodes(client), stop) for number in range(4)]
        threads = [threading.Thread(target=writer, daemon=True) for writer in writers]
        for thread in threads:
            thread.start()
        for _ in range(3):
            seen = [len(writer.confirmed) for writer in writers]
            eventually(lambda: all(len(w.confirmed) > before for w, before in zip(writers, seen, strict=True)))  # noqa: B023
            own_zookeeper.stop()
            own_zookeeper.start()
            eventually(lambda: client.session_id is not None)
            expired = expire_session(client)
        eventually(lambda: client.session_id not in {None, expired})
        stop.set()
        for thread in threads:
            thread.join(20)
        assert not any(thread.is_alive() for thread in threads)
        there = {f"/{name}" for name in Nodes(client).children("/")}
    for writer in writers:
        assert writer.refused
        assert there.isdisjoint(writer.refused)
        assert there.issuperset(writer.confirmed)


def test_shutdown_ends_while_zookeeper_is_away(own_zookeeper: LocalZooKeeper) -> None:
    """Stopped or paused, and a second time."""
    with connect(own_zookeeper.connect_string, 2000) as away, connect(own_zookeeper.connect_string, 2000) as paused:
        own_zookeeper.pause()
        paused.shutdown()
        own_zookeeper.resume()
        own_zookeeper.stop()
        away.shutdown()
        away.shutdown()
        with pytest.raises(NotConnected, match="closed"):
            Nodes(away).get("/")


def test_the_gevent_handler_works_without_monkey_patching(zk_connect: str) -> None:
    """Registering, watching, expiry and a new session in a gevent program; timeouts are Exceptions there too."""
    done = subprocess.run(
        [sys.executable, "-c", GEVENT_PROGRAM, zk_connect],
        cwd=Path(__file__).parents[2],  # for `tests.support`
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


GEVENT_PROGRAM = """
import sys
import gevent
from gevent import monkey
from gevent.event import Event
from kazoo.handlers.gevent import SequentialGeventHandler
from zk import Broker, BrokerRegistry, NodeHeld, ZkError, connect
from zk.nodes import Nodes
from zk.ports import free_port
from zk.sessions import SessionEvents, SessionLease
from tests.support.sessions import expire_session

assert not monkey.is_module_patched("socket")
turns = 0

def turn():
    global turns
    while True:
        turns += 1
        gevent.sleep(0.001)

gevent.spawn(turn)
try:
    connect(f"127.0.0.1:{free_port()}", 2000, 200, SequentialGeventHandler())
    raise SystemExit("connected to nobody")
except ZkError:
    pass
assert turns > 20, turns
with connect(sys.argv[1], 2000, 20_000, SequentialGeventHandler()) as client:
    with connect(sys.argv[1], 2000, 20_000, SequentialGeventHandler()) as other:
        registry, events, changed = BrokerRegistry(client), SessionEvents(client), Event()
        broker = Broker.created(1, "h", 9092, 1)
        registry.ensure_parents()
        registry.brokers(lambda _: changed.set())
        BrokerRegistry(other).register(broker)
        assert changed.wait(20)
        asked = [gevent.spawn(lambda: [client.exists_async("/") for _ in range(500)]) for _ in range(5)]
        gevent.joinall(asked, raise_error=True)  # more at once than kazoo's socket pair takes
        assert all(result.get(timeout=20) for greenlet in asked for result in greenlet.value)
        before = turns
        try:
            registry.register(broker, wait_ms=300)
            raise SystemExit("took another's node")
        except NodeHeld:
            pass
        assert turns > before + 20
        gevent.spawn_later(0.2, other.shutdown)
        registry.register(broker, wait_ms=20_000)
        first = client.session_id
        SessionLease(client, first).renew()
        expire_session(client)
        while client.session_id in (None, first):
            assert events.wait(20)
        registry.register(broker, wait_ms=20_000)
        assert Nodes(client).get("/brokers/ids/1").owner == client.session_id != first
print("done")
"""
