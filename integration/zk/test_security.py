"""A ZooKeeper behind TLS, and znodes that belong to a user, against a real server."""

from __future__ import annotations

import logging
import socket
import ssl
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kafka2011.certificates import Authority
from zk.connecting import connect
from zk.errors import NotAllowed, NotConnected
from zk.local_zookeeper import LocalZooKeeper, ServerTls
from zk.nodes import Nodes
from zk.protection import is_open_to_all, look, protect, undo

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from zk.client import ZkClient

PATIENT_MS = 20_000
PASSWORD = "a-long-secret"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Make an authority."""
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def secured(authority: Authority) -> Iterator[LocalZooKeeper]:
    """Start a ZooKeeper that takes TLS alone."""
    issued = authority.issue("zookeeper", ["127.0.0.1"])
    with LocalZooKeeper(tls=ServerTls(issued.key_and_certificate, authority.ca)) as server:
        yield server


@pytest.fixture
def address_of(secured: LocalZooKeeper, authority: Authority, tmp_path: Path) -> Callable[..., str]:
    """Return a zk.connect with a file of the lines that are given; TLS with our authority comes first."""

    def of(
        *lines: str, of_all: tuple[str, ...] = (), ca: Path | None = authority.ca, server: str = secured.connect_string
    ) -> str:
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.toml"
        path.touch(0o600)
        tls = ["[zookeeper]", "tls = true", *([f'ca = "{ca}"'] if ca else [])]
        path.write_text("\n".join([*of_all, *tls, *lines]))
        return f"{server}/{tmp_path.name}?security={path}"

    return of


def user(name: str = "kafka") -> tuple[str, str]:
    """Return the lines of a user."""
    return f'user = "{name}"', f'password = "{PASSWORD}"'


def test_what_a_user_makes_is_its_own(address_of: Callable[..., str]) -> None:
    """Every kind of znode has our ACL; without the password it can be neither read, nor written, nor deleted."""
    with connect(address_of(of_all=user()), connection_timeout_ms=PATIENT_MS) as ours:
        nodes = Nodes(ours)
        nodes.create_with_parents("/a/b", b"1", ephemeral=True)
        nodes.upsert("/c/d", b"2")
        nodes.create_many({"/e/f": b"3"})
        assert not any(is_open_to_all(ours.get_acls(path)[0]) for path in ("/", "/a", "/a/b", "/c", "/c/d", "/e/f"))
        with connect(address_of(of_all=user()), connection_timeout_ms=PATIENT_MS) as same:
            assert Nodes(same).set("/c/d", b"4") == 1
        for lines in ((), user("another")):
            with connect(address_of(of_all=lines), connection_timeout_ms=PATIENT_MS) as other:
                theirs = Nodes(other)
                for attempt in (
                    partial(theirs.get, "/c/d"),
                    partial(theirs.set, "/c/d", b"5"),
                    partial(theirs.delete, "/c/d"),
                    partial(theirs.create, "/c/x", b""),
                    partial(theirs.children, "/c"),
                ):
                    with pytest.raises(NotAllowed, match="/c"):
                        attempt()


def test_others_may_be_let_read(address_of: Callable[..., str]) -> None:
    """With others_may_read everybody sees what we make, and still cannot change it."""
    with connect(address_of(of_all=(*user(), "others_may_read = true")), connection_timeout_ms=PATIENT_MS) as ours:
        Nodes(ours).upsert("/seen", b"1")
        with connect(address_of(), connection_timeout_ms=PATIENT_MS) as other:
            node = Nodes(other).get("/seen")
            assert node is not None
            assert node.data == b"1"
            with pytest.raises(NotAllowed):
                Nodes(other).set("/seen", b"2")


def test_what_was_open_is_protected_afterwards(address_of: Callable[..., str]) -> None:
    """Znodes from before there was a user become its own, the chroot included; then none is left."""
    with connect(address_of(), connection_timeout_ms=PATIENT_MS) as before:
        Nodes(before).upsert("/x/y", b"1")
        Nodes(before).create("/mine", b"", ephemeral=True)
        with pytest.raises(NotAllowed):
            protect(before, ["/x"])
        with connect(address_of(of_all=user()), connection_timeout_ms=PATIENT_MS) as ours:
            found = look(ours)
            assert (found.open_nodes, found.closed_nodes) == (["/", "/mine", "/x", "/x/y"], [])
            protect(ours, found.open_nodes)
            found = look(ours)
            assert (found.open_nodes, found.closed_nodes) == ([], ["/", "/mine", "/x", "/x/y"])
            with pytest.raises(NotAllowed):
                Nodes(before).upsert("/x/y", b"2")
            undo(ours, found.closed_nodes)
            Nodes(before).upsert("/x/y", b"2")


def test_who_has_no_user_and_lives_is_named_before_anything_is_closed(address_of: Callable[..., str]) -> None:
    """Brokers and members as 0.7 registers them; and once their znodes are closed, which they need."""
    with connect(address_of(), connection_timeout_ms=PATIENT_MS) as other:
        theirs = Nodes(other)
        for path in ("/brokers/ids", "/brokers/topics/t", "/consumers/g/ids", "/consumers/g/offsets/t"):
            theirs.ensure_persistent(path)
        without_user = ["/brokers/ids/1", "/consumers/g/ids/g_x"]
        for path in without_user:
            theirs.create(path, b"", ephemeral=True)
        with connect(address_of(of_all=user()), connection_timeout_ms=PATIENT_MS) as ours:
            Nodes(ours).create("/brokers/ids/2", b"", ephemeral=True)
            found = look(ours)
            assert (found.without_user, dict(found.shut_out)) == (without_user, {})
            protect(ours, found.open_nodes)
            assert look(ours).shut_out == {without_user[0]: "/brokers/topics", without_user[1]: "/consumers/g"}


def test_without_a_user_znodes_are_open(zk_connect: str) -> None:
    """As 0.7's are: nothing changes for whoever asks for nothing."""
    with connect(zk_connect, connection_timeout_ms=PATIENT_MS) as client:
        Nodes(client).create("/a", None)
        assert is_open_to_all(client.get_acls("/a")[0])


def test_what_is_decrypted_already_is_not_waited_for(address_of: Callable[..., str], authority: Authority) -> None:
    """Two answers in one TLS record: behind the first, the socket has nothing, and the second is there all the same."""
    issued = authority.issue("record", ["127.0.0.1"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(issued.certificate, issued.key)
    with (
        connect(address_of(), connection_timeout_ms=PATIENT_MS) as client,
        socket.create_server(("127.0.0.1", 0)) as listening,
        ThreadPoolExecutor(1) as pool,
    ):
        handler = client._connection.handler
        connecting = pool.submit(handler.create_connection, listening.getsockname(), "127.0.0.1")
        accepted, _ = listening.accept()
        with context.wrap_socket(accepted, server_side=True) as server, connecting.result(20) as reading:
            server.sendall(b"first second")
            assert reading.recv(6) == b"first "
            assert handler.select([reading], [], [], 20)[0] == [reading]
            assert reading.recv(6) == b"second"
            assert handler.select([reading], [], [], 0.01)[0] == []


def test_a_session_outlives_its_server(authority: Authority, address_of: Callable[..., str]) -> None:
    """After a restart of the server the same session goes on over TLS, with its ephemeral nodes and its user."""
    issued = authority.issue("restarted", ["127.0.0.1"])
    with LocalZooKeeper(tls=ServerTls(issued.key_and_certificate, authority.ca)) as server:
        address = address_of(of_all=user(), server=server.connect_string)
        with connect(address, 20_000, PATIENT_MS) as client:
            Nodes(client).create("/alive", b"1", ephemeral=True)
            session = client.session_id
            server.kill()
            server.start()
            _await_session(client, session)
            assert Nodes(client).set("/alive", b"2") == 1


def _await_session(client: ZkClient, session: int | None) -> None:
    came = client.handler.event_object()
    client.add_listener(lambda _: came.set())
    for _ in range(100):
        if client.session_id == session:
            return
        came.wait(0.2)
        came.clear()
    raise AssertionError("the session did not come back")


def test_a_server_that_proves_nothing_is_refused(authority: Authority, address_of: Callable[..., str]) -> None:
    """Neither an unknown signer nor another's certificate is trusted, and the error says so."""
    with pytest.raises(NotConnected, match="CERTIFICATE_VERIFY_FAILED"):
        connect(address_of(ca=None), 2000, 1000)
    issued = authority.issue("elsewhere", ["elsewhere.example"])
    with LocalZooKeeper(tls=ServerTls(issued.key_and_certificate, authority.ca)) as server:
        with pytest.raises(NotConnected, match=r"not valid for '127\.0\.0\.1'"):
            connect(address_of(server=server.connect_string), 2000, 1000)
        unchecked = address_of("check_hostname = false", server=server.connect_string)
        with connect(unchecked, connection_timeout_ms=PATIENT_MS) as client:
            assert Nodes(client).exists("/")


def test_a_server_may_want_certificates(authority: Authority, address_of: Callable[..., str]) -> None:
    """With one it lets us in, and without one it does not."""
    issued = authority.issue("picky", ["127.0.0.1"])
    ours = authority.issue("client")
    with LocalZooKeeper(tls=ServerTls(issued.key_and_certificate, authority.ca, wants_certificates=True)) as server:
        lines = (f'certificate = "{ours.certificate}"', f'key = "{ours.key}"')
        with connect(address_of(*lines, server=server.connect_string), connection_timeout_ms=PATIENT_MS) as client:
            assert Nodes(client).exists("/")
        with pytest.raises(NotConnected):
            connect(address_of(server=server.connect_string), 2000, 1000)


def test_the_password_is_in_no_log(address_of: Callable[..., str], caplog: pytest.LogCaptureFixture) -> None:
    """Not even with everything logged that kazoo has to say."""
    caplog.set_level(1)
    for name in ("zk", "zk.kazoo"):
        caplog.set_level(1, name)
    with connect(address_of(of_all=user()), connection_timeout_ms=PATIENT_MS) as client:
        Nodes(client).upsert("/a", b"1")
        assert "Sending request" in caplog.text
        assert PASSWORD not in caplog.text


def test_a_password_without_tls_is_warned_of(
    zookeeper: LocalZooKeeper, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It works, since the network may be one's own, and says what it does."""
    path = tmp_path / "open.toml"
    path.touch(0o600)
    path.write_text("\n".join(user()))
    caplog.set_level(logging.WARNING)
    with connect(f"{zookeeper.connect_string}/{tmp_path.name}?security={path}", connection_timeout_ms=PATIENT_MS):
        assert "in the clear" in caplog.text


def test_a_silent_port_stops_no_greenlet(address_of: Callable[..., str]) -> None:
    """Under gevent, a port that accepts and never shakes hands keeps only its own connect waiting."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = address_of(server=f"127.0.0.1:{silent.getsockname()[1]}")
        assert run(SILENT_PORT, address) == "refused\n"


def run(program: str, address: str) -> str:
    """Run a program of gevent's, and return what it said."""
    done = subprocess.run(
        [sys.executable, "-c", program, address],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


SILENT_PORT = """
import sys
import gevent
from kazoo.handlers.gevent import SequentialGeventHandler
from zk import ZkError, connect

turns = 0

def turn():
    global turns
    while True:
        turns += 1
        gevent.sleep(0.001)

gevent.spawn(turn)
try:
    connect(sys.argv[1], 3000, 1500, SequentialGeventHandler())
except ZkError:
    assert turns > 100, turns
    print("refused")
"""


def test_gevent_reaches_it_too(address_of: Callable[..., str]) -> None:
    """A broker's client, whose sockets are gevent's, does the same over TLS, many answers at once included."""
    assert run(UNDER_GEVENT, address_of(of_all=user())) == "1000\n"


UNDER_GEVENT = """
import sys
from kazoo.handlers.gevent import SequentialGeventHandler
from zk import connect
from zk.nodes import Nodes

with connect(sys.argv[1], 6000, 20_000, SequentialGeventHandler()) as client:
    nodes = Nodes(client)
    paths = [f"/g{number}" for number in range(1000)]
    nodes.create_many(dict.fromkeys(paths, b"x" * 50), ephemeral=True)
    print(len(nodes.get_many(paths)))
"""
