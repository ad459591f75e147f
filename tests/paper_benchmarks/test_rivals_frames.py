"""What goes on the sockets of raw clients, byte for byte. They need the rivals' Python modules, as the workers do."""

from __future__ import annotations

import socket
from typing import cast

import pytest

from paper_benchmarks.clients.job import Job, counting

PAYLOAD = b"ab\x00c"


def test_a_message_for_rabbitmq_is_a_method_a_header_and_a_body() -> None:
    """AMQP 0-9-1: type, channel, length, contents, 0xce; basic.publish is 60, 40; delivery-mode is flag 0x1000."""
    pytest.importorskip("pika")
    from paper_benchmarks.clients.rabbitmq import publish

    method = b"\x00\x3c\x00\x28" + b"\x00\x00" + b"\x00" + b"\x05views" + b"\x00"
    header = b"\x00\x3c\x00\x00" + b"\x00\x00\x00\x00\x00\x00\x00\x04" + b"\x10\x00" + b"\x02"
    assert publish("views", PAYLOAD) == (
        b"\x01\x00\x01\x00\x00\x00\x0e" + method + b"\xce"
        b"\x02\x00\x01\x00\x00\x00\x0f" + header + b"\xce"
        b"\x03\x00\x01\x00\x00\x00\x04" + PAYLOAD + b"\xce"
    )


def test_a_message_for_activemq_has_its_length_before_it() -> None:
    """It may hold the byte that ends a frame."""
    pytest.importorskip("stomp")
    from paper_benchmarks.clients.activemq import frame, send_frame

    assert send_frame("views", PAYLOAD) == (
        b"SEND\ndestination:/queue/views\npersistent:true\ncontent-length:4\n\nab\x00c\x00"
    )
    assert frame("DISCONNECT", {"receipt": "done"}) == b"DISCONNECT\nreceipt:done\n\n\x00"


def test_commands_for_redis_are_arrays_of_strings() -> None:
    """The server chooses the numbers of entries; reading begins after one."""
    pytest.importorskip("hiredis")
    pytest.importorskip("redis")
    from paper_benchmarks.clients.redis import xadd, xread

    assert xadd("views", PAYLOAD) == b"*5\r\n$4\r\nXADD\r\n$5\r\nviews\r\n$1\r\n*\r\n$1\r\nm\r\n$4\r\nab\x00c\r\n"
    assert xread("views", 1000, b"7-1") == (
        b"*6\r\n$5\r\nXREAD\r\n$5\r\nCOUNT\r\n$4\r\n1000\r\n$7\r\nSTREAMS\r\n$5\r\nviews\r\n$3\r\n7-1\r\n"
    )


def test_a_message_for_nats_may_ask_for_an_acknowledgement() -> None:
    """By the subject to which it goes."""
    pytest.importorskip("nats")
    from paper_benchmarks.clients.nats import pub

    assert pub("views", PAYLOAD) == b"PUB views 4\r\nab\x00c\r\n"
    assert pub("views", PAYLOAD, "_INBOX.1") == b"PUB views _INBOX.1 4\r\nab\x00c\r\n"


def test_frames_of_streams_have_their_size_key_and_version() -> None:
    """A publish names its publisher and how many messages it has, and each of these a number and its length."""
    pytest.importorskip("rstream")
    from paper_benchmarks.clients.streams import publish
    from paper_benchmarks.systems.stream_socket import frame, text

    assert frame(0x15, text("/")) == b"\x00\x00\x00\x07\x00\x15\x00\x01" + b"\x00\x01/"
    assert publish([PAYLOAD, b"d"]) == (
        b"\x00\x00\x00\x26\x00\x02\x00\x01" + b"\x01" + b"\x00\x00\x00\x02"
        b"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x04"
        + PAYLOAD
        + b"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01d"
    )


@pytest.mark.parametrize("piece_bytes", [1, 7, 50])
def test_beginnings_of_messages_are_counted_wherever_pieces_end(piece_bytes: int) -> None:
    """A marker that is cut in two counts once, and bytes are asked for again after so many."""
    data = b"".join(b"MSG views 1 9\r\nsome bytes" for _ in range(20))
    ours, theirs = socket.socketpair()
    pieces = [data[begin : begin + piece_bytes] for begin in range(0, len(data), piece_bytes)]

    class Pieces:
        """Gives what a socket may: one piece at a time."""

        sendall = ours.sendall

        def recv_into(self, buffer: memoryview) -> int:
            piece = pieces.pop(0)
            buffer[: len(piece)] = piece
            return len(piece)

    job = Job(do="consume", client="raw", topic="views", messages=20, every=5)
    with ours, theirs:
        counting(job, cast("socket.socket", Pieces()), b"ask", b"MSG views 1 ", every=(5, b"more"))()
        asked = theirs.recv(100)
    assert asked.startswith(b"ask")
    assert asked.count(b"more") == 3
