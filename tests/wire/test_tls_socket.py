"""TLS over a pair of sockets: what is sent comes, the ends are told apart, and nothing travels in plain text."""

from __future__ import annotations

import os
import socket
import ssl
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from kafka2011.certificates import Authority
from kafka2011.wire.tls_socket import SEND_BYTES, TlsSocket

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

TIMEOUT_S = 20
SECRET = b"a payload that nobody may see " * 10


class Contexts:
    """A server's and a client's contexts, of one authority."""

    def __init__(self, directory: Path) -> None:
        authority = Authority(directory)
        issued, known = authority.issue("broker", ["localhost"]), authority.issue("reports")
        self.server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.server.load_cert_chain(issued.certificate, issued.key)
        self.server.load_verify_locations(authority.ca)
        self.server.verify_mode = ssl.CERT_OPTIONAL
        self.client = ssl.create_default_context(cafile=str(authority.ca))
        self.known = ssl.create_default_context(cafile=str(authority.ca))
        self.known.load_cert_chain(known.certificate, known.key)


@pytest.fixture(scope="module")
def contexts(tmp_path_factory: pytest.TempPathFactory) -> Contexts:
    """Make certificates."""
    return Contexts(tmp_path_factory.mktemp("tls"))


class Pair:
    """Two ends of a connection, and what travelled between them."""

    def __init__(self, server_context: ssl.SSLContext, client_context: ssl.SSLContext, hostname: str) -> None:
        self.plain_server, below_server = socket.socketpair()
        self.plain_client, below_client = socket.socketpair()
        self.seen = bytearray()
        for one in (self.plain_server, self.plain_client, below_server, below_client):
            one.settimeout(TIMEOUT_S)
        self._below = (below_server, below_client)
        self._carriers = [
            threading.Thread(target=self._carry, args=pair) for pair in (self._below, tuple(reversed(self._below)))
        ]
        for carrier in self._carriers:
            carrier.start()
        self.server = TlsSocket(self.plain_server, server_context)
        self.client = TlsSocket(self.plain_client, client_context, hostname)

    def _carry(self, source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                self.seen += data
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def handshake(self) -> None:
        """Shake hands at both ends."""
        with ThreadPoolExecutor(1) as pool:
            other = pool.submit(self.server.handshake)
            self.client.handshake()
            other.result(TIMEOUT_S)

    def close(self) -> None:
        """Close all."""
        for one in (self.server, self.client):
            one.close()
        for carrier in self._carriers:
            carrier.join(TIMEOUT_S)
        for below in self._below:
            below.close()


@pytest.fixture
def make_pair(contexts: Contexts) -> Iterator[Callable[..., Pair]]:
    """Connect two ends."""
    pairs: list[Pair] = []

    def make(client: ssl.SSLContext = contexts.client, hostname: str = "localhost") -> Pair:
        pairs.append(Pair(contexts.server, client, hostname))
        return pairs[-1]

    yield make
    for pair in pairs:
        pair.close()


def received(end: TlsSocket, size: int) -> bytes:
    """Receive so many bytes."""
    data = b""
    while len(data) < size and (part := end.recv(size - len(data))):
        data += part
    return data


def test_what_is_sent_comes_and_cannot_be_read_on_the_way(make_pair: Callable[..., Pair]) -> None:
    """Both ways, in pieces of any size, larger than all buffers too."""
    pair = make_pair()
    pair.handshake()
    large = os.urandom(1 << 20) + SECRET
    with ThreadPoolExecutor(1) as pool:
        sending = pool.submit(pair.client.sendall, large)
        assert received(pair.server, len(large)) == large
        sending.result(TIMEOUT_S)
    pair.server.sendall(memoryview(SECRET))
    assert received(pair.client, len(SECRET)) == SECRET
    assert len(pair.seen) > len(large)
    assert SECRET[:30] not in pair.seen


def test_little_is_encrypted_at_once_and_much_of_it_sent(
    make_pair: Callable[..., Pair], monkeypatch: pytest.MonkeyPatch
) -> None:
    """OpenSSL's buffer never gives back the room that it once needed, on any idle connection that has sent much."""
    send, calls = socket.socket.sendmsg, []

    def sendmsg(plain: socket.socket, pieces: list[bytes]) -> int:
        calls.append([len(each) for each in pieces])
        return send(plain, pieces)

    pair = make_pair()
    pair.handshake()
    monkeypatch.setattr(socket.socket, "sendmsg", sendmsg)
    with ThreadPoolExecutor(1) as pool:
        sending = pool.submit(pair.server.sendall, bytes(2 * SEND_BYTES))
        assert received(pair.client, 2 * SEND_BYTES) == bytes(2 * SEND_BYTES)
        sending.result(TIMEOUT_S)
    assert len(calls) == 2
    assert max(max(each) for each in calls) < SEND_BYTES / 4


def test_a_half_closed_connection_goes_on_the_other_way(make_pair: Callable[..., Pair]) -> None:
    """The server sees the end, and what it answers comes, encrypted, although it reads no more."""
    pair = make_pair()
    pair.handshake()
    pair.client.sendall(b"last request")
    pair.client.shutdown(socket.SHUT_WR)
    assert received(pair.server, 100) == b"last request"
    assert pair.server.recv(100) == b""
    pair.server.shutdown(socket.SHUT_RD)
    pair.server.sendall(SECRET)
    pair.server.shutdown(socket.SHUT_WR)
    assert received(pair.client, len(SECRET)) == SECRET
    assert pair.client.recv(1) == b""
    assert SECRET[:30] not in pair.seen


def test_who_takes_leave_has_not_been_cut(make_pair: Callable[..., Pair]) -> None:
    """The other side sees an end in order; one that is gone already, or has not shaken hands, troubles nobody."""
    pair = make_pair()
    pair.client.take_leave()
    pair = make_pair()
    pair.handshake()
    pair.client.sendall(b"all of it")
    pair.client.take_leave()
    pair.client.close()
    assert received(pair.server, 100) == b"all of it"
    pair.server.close()
    pair.client.take_leave()


def test_a_cut_connection_is_no_end(make_pair: Callable[..., Pair]) -> None:
    """Without TLS's farewell somebody else may have cut it: that is an error, not the end of what was sent."""
    pair = make_pair()
    pair.handshake()
    pair.client.sendall(b"half of ")
    pair.plain_client.shutdown(socket.SHUT_WR)
    assert received(pair.server, 8) == b"half of "
    with pytest.raises(ConnectionResetError, match="cut"):
        pair.server.recv(1)


def test_a_limit_is_an_end(make_pair: Callable[..., Pair]) -> None:
    """What had arrived by then is received, and nothing of what comes later."""
    pair = make_pair()
    pair.handshake()
    before = len(pair.seen)
    pair.client.sendall(b"in time")
    assert received(pair.server, 7) == b"in time"
    pair.server.limit_reading(0)
    pair.client.sendall(b"too late")
    assert pair.server.recv(100) == b""
    assert len(pair.seen) > before


def test_whether_the_other_side_has_ended_is_seen_without_waiting(make_pair: Callable[..., Pair]) -> None:
    """Open, with something to receive, and ended: only the last is an end."""
    pair = make_pair()
    pair.handshake()
    assert not pair.client.has_ended()
    pair.server.sendall(b"x")
    assert not pair.client.has_ended()
    assert pair.client.recv(1) == b"x"
    pair.server.shutdown(socket.SHUT_WR)
    deadline = threading.Event()
    for _ in range(1000):
        if pair.client.has_ended():
            break
        deadline.wait(0.02)
    else:
        raise AssertionError("the end was not seen")


def test_who_is_there_is_known(make_pair: Callable[..., Pair], contexts: Contexts) -> None:
    """A client with a certificate is named by it, and one without is nobody."""
    known, unknown = make_pair(contexts.known), make_pair()
    known.handshake()
    unknown.handshake()
    known.client.sendall(b"x")  # in TLS 1.3 the server has the certificate with what comes next
    assert known.server.recv(1) == b"x"
    assert known.server.peer["subject"] == ((("commonName", "reports"),),)
    assert unknown.server.peer == {}


def test_a_stranger_is_refused_and_told(make_pair: Callable[..., Pair]) -> None:
    """A client does not speak to a server of another name, and the server hears why."""
    pair = make_pair(hostname="elsewhere")
    with ThreadPoolExecutor(1) as pool:
        serving = pool.submit(pair.server.handshake)
        with pytest.raises(ssl.SSLCertVerificationError, match="elsewhere"):
            pair.client.handshake()
        with pytest.raises(ssl.SSLError, match=r"(?i)alert"):
            serving.result(TIMEOUT_S)


def test_plain_text_at_a_door(make_pair: Callable[..., Pair]) -> None:
    """A client of 0.7 gets an end, not an answer."""
    pair = make_pair()
    pair.plain_client.sendall(b"\0\0\0\x0e\0\x01\0\x04test")
    with pytest.raises(ssl.SSLError):
        pair.server.handshake()


def test_a_silent_peer_ends_by_the_timeout(make_pair: Callable[..., Pair]) -> None:
    """A handshake that never comes is a timeout of the socket below."""
    pair = make_pair()
    pair.server.settimeout(0.05)
    with pytest.raises(TimeoutError):
        pair.server.handshake()
