"""The local ZooKeeper server."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.support.waiting import eventually
from zk import local_zookeeper as local
from zk.connecting import connect
from zk.errors import LocalZooKeeperError
from zk.local_zookeeper import LocalZooKeeper
from zk.nodes import Nodes
from zk.ports import free_port


def test_data_and_port_stay_over_a_restart(own_zookeeper: LocalZooKeeper) -> None:
    """In order and by kill; starting and stopping twice changes nothing."""
    port, directory = own_zookeeper.port, own_zookeeper.log_path.parent
    with connect(own_zookeeper.connect_string) as client:
        Nodes(client).create("/kept", b"x")
    for end in (own_zookeeper.stop, own_zookeeper.kill):
        end()
        end()
        assert not own_zookeeper.running
        own_zookeeper.start()
        pid = own_zookeeper.pid
        own_zookeeper.start()
        assert (own_zookeeper.pid, own_zookeeper.port) == (pid, port)
        with connect(own_zookeeper.connect_string) as client:
            assert Nodes(client).exists("/kept")
    own_zookeeper.close()
    assert not directory.exists()
    own_zookeeper.close()


def test_a_given_directory_stays(tmp_path: Path) -> None:
    """Its data is forced to disk, and another server on another port goes on with it."""
    with LocalZooKeeper(data_dir=tmp_path / "its data") as first:
        assert "-Dzookeeper.forceSync=no" not in psutil.Process(first.pid).cmdline()
        with connect(first.connect_string) as client:
            Nodes(client).create("/kept", b"x")
    with LocalZooKeeper(free_port(), tmp_path / "its data") as second, connect(second.connect_string) as client:
        assert Nodes(client).exists("/kept")


@pytest.mark.skipif(not Path("/usr/share/java/zookeeper.jar").exists(), reason="libzookeeper-java is not installed")
def test_debians_jars_do_without_pyspark(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same server, by the same settings; a port that is taken is known by what it logs."""
    monkeypatch.setattr(local, "_pyspark_jars", lambda: None)
    with LocalZooKeeper() as server:
        assert "/usr/share/java/zookeeper.jar" in " ".join(psutil.Process(server.pid).cmdline())
        with connect(server.connect_string, 2000) as client:
            Nodes(client).create("/kept", b"x")
            assert Nodes(client).exists("/kept")
        with pytest.raises(LocalZooKeeperError, match="the port is taken"), LocalZooKeeper(server.port):
            pass


def test_only_the_loopback_address_is_listened_on(zookeeper: LocalZooKeeper) -> None:
    """Nothing of the network reaches a local server."""
    listening = [c.laddr for c in psutil.Process(zookeeper.pid).net_connections() if c.status == psutil.CONN_LISTEN]
    assert [(address.ip.removeprefix("::ffff:"), address.port) for address in listening] == [
        ("127.0.0.1", zookeeper.port)
    ]


def test_a_taken_port_is_an_error_when_given(zookeeper: LocalZooKeeper) -> None:
    """In one sentence, without Java's stack trace."""
    with pytest.raises(LocalZooKeeperError) as raised:
        LocalZooKeeper(port=zookeeper.port).__enter__()
    assert str(raised.value) == f"ZooKeeper cannot listen on {zookeeper.connect_string}: the port is taken"


def test_another_port_is_tried_when_the_chosen_one_is_taken(
    zookeeper: LocalZooKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A free port may be taken by somebody else before the server binds it."""
    ports = iter([zookeeper.port, free_port()])
    monkeypatch.setattr(local, "free_port", lambda host: next(ports))
    with LocalZooKeeper() as server:
        assert server.port != zookeeper.port
        with connect(server.connect_string):
            pass


def test_before_the_first_start_there_is_no_port() -> None:
    """Nor a process; closing is no error."""
    server = LocalZooKeeper()
    for ask in (lambda: server.port, lambda: server.connect_string, lambda: server.pid, server.pause):
        with pytest.raises(LocalZooKeeperError):
            ask()
    server.close()


def test_the_server_dies_with_its_parent() -> None:
    """By kill -9 of the process that started it."""
    program = (
        "import sys; from zk.local_zookeeper import LocalZooKeeper; server = LocalZooKeeper(); server.start();"
        "print(server.pid, server.log_path.parent, flush=True); sys.stdin.read()"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pid, directory = parent.stdout.readline().split()
    server = psutil.Process(int(pid))
    assert server.name() == "java"
    os.kill(parent.pid, signal.SIGKILL)
    parent.communicate()
    eventually(lambda: not server.is_running() or server.status() == psutil.STATUS_ZOMBIE)
    for left in sorted(Path(directory).rglob("*"), reverse=True):
        left.rmdir() if left.is_dir() else left.unlink()
    Path(directory).rmdir()


def test_free_ports_are_bindable_and_below_those_of_outgoing_connections() -> None:
    """So that a server that restarts finds its port again."""
    port = free_port()
    with socket.socket() as server:
        server.bind(("127.0.0.1", port))
    assert 15000 <= port < 32768
