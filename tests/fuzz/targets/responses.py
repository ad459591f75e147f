"""What brokers answer, as clients read it: bodies, and sockets at which a hostile peer sends."""

from __future__ import annotations

import socket
import tempfile
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kafka2011.broker.connections import sending
from kafka2011.errors import BrokerConnectionError, BrokerError, KafkaError, ProtocolError
from kafka2011.message.message_set import decode
from kafka2011.wire import connection
from kafka2011.wire.connection import BrokerConnection
from kafka2011.wire.protocol import (
    FetchRequest,
    decode_fetch_response,
    decode_multifetch_body,
    decode_offsets_body,
    decode_response,
    encode_offsets_body,
    encode_request,
)
from tests.fuzz.driver import Target

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

    from tests.fuzz.driver import Run

_LIMIT_BYTES = 600
_SET_BYTES = 200
_TIMEOUT_S = 5.0
_ASK = encode_request(FetchRequest("t", 0, 7, _SET_BYTES))


@contextmanager
def open_bodies() -> Iterator[Run]:
    """Check that bodies are read, or refused: by the first byte those of a fetch, a multifetch, or offsets."""

    def run(data: bytes) -> Hashable:
        kind, body = data[0] if data else 0, data[1:]
        if kind % 3 == 0:
            code, messages = decode_fetch_response(body, "a fetch")
            if code == 0:
                assert decode_response(body, "a fetch") == messages
            return "fetch", code, sum(1 for _ in decode(messages, "t", 0, 0, 0, 10_000))
        if kind % 3 == 1:
            parts = decode_multifetch_body(body, kind // 3 % 4)
            assert sum(len(part) for _, part in parts) <= len(body)
            return "multifetch", tuple(code for code, _ in parts)
        offsets = decode_offsets_body(body)
        assert body.startswith(encode_offsets_body(offsets))
        return "offsets", len(offsets)

    yield run


class _Peer:
    """A socket at whose other end a case was sent, and then the end of the connection."""

    def __init__(self, case: bytes, in_c: bool) -> None:
        self.near, self.far = socket.socketpair()
        self.far.sendall(case)
        self.far.shutdown(socket.SHUT_WR)
        self.connection = BrokerConnection("127.0.0.1", 1, socket_timeout_ms=5000, max_frame_bytes=_LIMIT_BYTES)
        self.near.settimeout(None)
        self.connection._socket = self.near
        self.connection._limit_s = _TIMEOUT_S
        self.connection._code = connection.compiled if in_c else None

    def close(self) -> None:
        self.connection.close()
        self.near.close()
        self.far.close()


def _received(case: bytes, ask: Callable[[BrokerConnection], Any], *, in_c: bool) -> object:
    peer = _Peer(case, in_c)
    try:
        return ask(peer.connection)
    except (BrokerConnectionError, ProtocolError) as error:
        return type(error)
    finally:
        peer.close()


def _fetched(asked: BrokerConnection) -> list[object]:
    return list(asked._fetch(_ASK, _SET_BYTES, 1, 0))


@contextmanager
def open_peers() -> Iterator[Run]:
    """Check that C receives what Python does, from whoever says whatever and then goes."""
    asks: list[Callable[[BrokerConnection], Any]] = [
        lambda asked: bytes(asked._ask(_ASK, None, 0, 0)),
        lambda asked: bytes(asked._ask(_ASK, None, 300, 0)),
        _fetched,
        lambda asked: [bytes(each) for each in asked._ask_many([_ASK] * 2)],
    ]

    def run(data: bytes) -> Hashable:
        kind, case = data[0] % len(asks) if data else 0, data[1:]
        in_python, in_c = (_received(case, asks[kind], in_c=in_c) for in_c in (False, True))
        assert in_c == in_python, f"{in_c!r}, and in Python {in_python!r}"
        if asks[kind] is _fetched:  # several sets, of which one call loses all where the connection ends
            several = _received(case, lambda asked: asked._fetch(_ASK, _SET_BYTES, 8, 0), in_c=True)
            assert not isinstance(several, list) or several[:1] == in_python
        return kind, in_python if isinstance(in_python, type) else len(in_python)  # type: ignore[arg-type]

    yield run


@contextmanager
def open_sending() -> Iterator[Run]:
    """Check that C sends the parts of an answer, in order, wherever it was stopped."""
    content = bytes(range(256)) * 8
    with tempfile.TemporaryFile() as file:
        file.write(content)
        file.flush()
        fd = file.fileno()

        def run(data: bytes) -> Hashable:
            assert sending.compiled is not None
            numbers = iter(data)
            parts = []
            for size in numbers:
                head = bytes(next(numbers, 0) % 40)
                start = next(numbers, 0) * 9
                parts.append((head, fd, start, min(size, 200)))
            parts = parts[: sending.MOST_PARTS]
            wanted = b"".join(head + content[start : start + size] for head, _, start, size in parts)
            total = sum(len(head) + size for head, _, _, size in parts)
            near, far = socket.socketpair()
            with near, far:
                if data[:1] == b"\0":
                    far.close()
                sent, step, error = 0, 1 + len(data) * 7, 0
                while sent < total and not error:
                    before = sent
                    sent, error = sending.compiled.send_parts(
                        near.fileno(), tuple(parts), sent, min(total, sent + step), True
                    )
                    assert sent > before or error
                if far.fileno() < 0:
                    return "gone", error
                near.shutdown(socket.SHUT_WR)
                got = bytearray()
                while more := far.recv(1 << 16):
                    got += more
                assert got == wanted[: len(got)]
                assert len(got) == sent
                assert (sent == total) == (error == 0)
                return "sent", len(parts) > 1, error

        yield run


TARGETS = (
    Target("bodies", 120_000, open_bodies, (ProtocolError, BrokerError)),
    Target("peers", 30_000, open_peers, (KafkaError,)),
    Target("sending", 10_000, open_sending, (), max_bytes=150),
)
