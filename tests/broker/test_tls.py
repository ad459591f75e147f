"""A broker's side of TLS: handshakes that do not end, answers made of pieces of files, and requests behind others."""

from __future__ import annotations

import os
import re
import socket
import ssl
from collections import Counter
from typing import TYPE_CHECKING, Any

import gevent
import gevent.socket
import pytest

from kafka2011.broker.connections import tls
from kafka2011.broker.connections.answer_threads import AnswerThreads
from kafka2011.broker.connections.tls import TlsConnection
from kafka2011.broker.memory.request_memory import RequestMemory
from kafka2011.broker.requests.awaited_bytes import AwaitedBytes
from kafka2011.broker.requests.parking import Parking
from kafka2011.broker.security.certificates import Certificates
from kafka2011.certificates import Authority
from kafka2011.errors import BrokerConnectionError
from kafka2011.wire.tls_socket import SEND_BYTES, TlsSocket
from zk.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from pathlib import Path

    from kafka2011.broker.connections.sending import Part

TIMEOUT_S = 20


def connection_of(certificates: Certificates, here: socket.socket, counts: Counter[str]) -> TlsConnection:
    """Make a broker's end of a connection."""
    accepted = gevent.socket.socket(fileno=here.detach())
    return TlsConnection(
        *(accepted, "there", RequestMemory(1 << 20, 1 << 18), counts, None, AnswerThreads.with_sends(0)),
        certificates=certificates,
        rule=re.compile("CN=([^,]*)"),
    )


@pytest.mark.parametrize("sent", [b"", b"\x16\x03\x01"])
def test_who_does_not_shake_hands_in_time_is_closed_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    """Silent from the beginning, or in the middle of a hello."""
    monkeypatch.setattr(tls, "HANDSHAKE_TIMEOUT_S", 0.05)
    issued = Authority(tmp_path).issue("broker", ["localhost"])
    certificates = Certificates(issued.certificate, issued.key, None, required=False, clock=SYSTEM_CLOCK)
    here, there = socket.socketpair()
    counts: Counter[str] = Counter()
    connection = connection_of(certificates, here, counts)
    with there:
        there.sendall(sent)
        with pytest.raises(BrokerConnectionError, match="did not shake hands"):
            connection.begin()
        connection.close()
    assert counts == {"failed_handshakes": 1}


def test_answers_of_many_pieces_come_whole_while_others_are_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Small pieces travel together and large ones in parts; who waits for the disk gets nobody else's bytes."""
    monkeypatch.setattr(tls, "is_in_memory", lambda *_: False)
    monkeypatch.setattr(tls, "_spare", [memoryview(bytearray(SEND_BYTES))])
    authority = Authority(tmp_path)
    issued = authority.issue("broker", ["localhost"])
    certificates = Certificates(issued.certificate, issued.key, None, required=False, clock=SYSTEM_CLOCK)
    context = ssl.create_default_context(cafile=str(authority.ca))
    counts: Counter[str] = Counter()
    content = os.urandom(3 * SEND_BYTES)
    file = tmp_path / "file"
    file.write_bytes(content)

    def serve(connection: TlsConnection, parts: tuple[Part, ...]) -> None:
        connection.begin()
        connection.writer.send_parts(parts, 0)
        connection.finish()
        connection.close()

    def take(there: socket.socket) -> bytes:
        plain = gevent.socket.socket(fileno=there.detach())
        plain.settimeout(TIMEOUT_S)
        client = TlsSocket(plain, context, "localhost")
        client.handshake()
        data = b""
        while part := client.recv(1 << 20):
            data += part
        client.close()
        return data

    expected, serving, taking = [], [], []
    with file.open("rb") as opened:
        fd = opened.fileno()
        for number in range(4):
            name = b"%d" % number
            parts: tuple[Part, ...] = (
                (name * 6, fd, number, 10),
                (b"", fd, 1000 * number, 2 * SEND_BYTES + number),
                (name * (SEND_BYTES - 7), fd, number, SEND_BYTES),
                (name * (SEND_BYTES + 1), -1, 0, 0),
                (name, fd, 5 * number, SEND_BYTES - 1),
                (name * 3, -1, 0, 0),
            )
            expected.append(b"".join(head + content[at : at + size] for head, _, at, size in parts))
            here, there = socket.socketpair()
            connection = connection_of(certificates, here, counts)
            serving.append(gevent.spawn(serve, connection, parts))
            taking.append(gevent.spawn(take, there))
        received = [each.get(timeout=TIMEOUT_S) for each in taking]
        for each in serving:
            each.get(timeout=TIMEOUT_S)
    assert received == expected
    assert counts["disk_read_bytes"] > 0


def test_no_request_waits_while_another_is_held_in_plain_or_encrypted(tmp_path: Path) -> None:
    """The socket below tells nothing of what was taken from it already: whoever watched that would wait to the end."""
    authority = Authority(tmp_path)
    issued = authority.issue("broker", ["localhost"])
    certificates = Certificates(issued.certificate, issued.key, None, required=False, clock=SYSTEM_CLOCK)
    here, there = socket.socketpair()
    connection = connection_of(certificates, here, Counter())
    plain = gevent.socket.socket(fileno=there.detach())
    plain.settimeout(TIMEOUT_S)
    client = TlsSocket(plain, ssl.create_default_context(cafile=str(authority.ca)), "localhost")
    shaken = gevent.spawn(connection.begin)
    client.handshake()
    shaken.get(timeout=TIMEOUT_S)
    parking = Parking(10, SYSTEM_CLOCK)
    nothing: Any = None
    awaited = AwaitedBytes(nothing, (), 1)  # of no partition: it never comes
    client.sendall(b"one")
    client.sendall(b"two")  # before the other is read: both are taken from the socket at once
    for most_bytes, expected in ((2, b"on"), (1, b"e"), (2, b"tw")):  # "o" is decrypted by then
        assert connection.socket.recv(most_bytes) == expected
        assert not connection.has_arrived
        with gevent.Timeout(TIMEOUT_S):
            assert connection.park(parking, awaited, TIMEOUT_S * 2)
    assert parking.counts == {}
    assert connection.socket.recv(1) == b"o"
    waiting = gevent.spawn(connection.park, parking, awaited, TIMEOUT_S * 2)
    with gevent.Timeout(TIMEOUT_S):
        while not parking.counts:
            gevent.sleep(0)
    client.sendall(b"three")
    assert waiting.get(timeout=TIMEOUT_S)
    assert parking.counts == {"parked": 1, "parked_more": 1}
    client.close()
    connection.close()
