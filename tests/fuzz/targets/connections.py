"""A broker that several connections send hostile frames to, while a correct client produces and reads."""

from __future__ import annotations

import logging
import os
import tempfile
from contextlib import contextmanager
from typing import TYPE_CHECKING

import gevent
from gevent import socket

from kafka2011.broker.connections.turn import let_others_run
from kafka2011.broker.server import KafkaServer
from kafka2011.config.broker import BrokerConfig
from kafka2011.message.message_set import encode
from kafka2011.wire.protocol import FetchRequest, FetchWait, MultiFetchRequest, ProduceRequest, encode_request
from tests.fuzz.driver import Target, in_memory
from tests.fuzz.targets.requests import TOKENS

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from tests.fuzz.driver import Run

_CONNECTIONS = 4
_DEADLINE_S = 20.0
_CORRECT_EVERY = 50
_PATIENT = FetchWait(10_000, 1)  # until it was flushed
_BARRIER = encode_request(MultiFetchRequest(()))


class _Correct:
    """A client that does everything right, and must be served whatever others send."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), _DEADLINE_S)
        self._number = 0
        self._offset = 0

    def ask(self) -> None:
        message = encode(b"correct %d" % self._number)
        self._number += 1
        self._socket.sendall(encode_request(ProduceRequest("correct", 0, message)) + _BARRIER)
        assert self._answer() == b"\0\0"
        self._socket.sendall(encode_request(FetchRequest("correct", 0, self._offset, 10_000, _PATIENT)))
        answer = self._answer()
        assert answer == b"\0\0" + message, answer
        self._offset += len(message)

    def close(self) -> None:
        self._socket.close()

    def _answer(self) -> bytes:
        size = int.from_bytes(self._exactly(4), "big")
        return self._exactly(size)

    def _exactly(self, size: int) -> bytes:
        found = b""
        while len(found) < size:
            part = self._socket.recv(size - len(found))
            assert part, "the connection of a correct client was closed"
            found += part
        return found


class _Errors(logging.Handler):
    """Collects what a broker logs as unexpected."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[BaseException] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the error that a line of the log is about."""
        if record.exc_info and record.exc_info[1] is not None:
            self.found.append(record.exc_info[1])


class _Hostile:
    """Sends cases over connections, and makes those anew that the broker has ended."""

    def __init__(self, port: int, errors: _Errors, correct: _Correct) -> None:
        self._port = port
        self._errors = errors
        self._correct = correct
        self._opened: dict[int, socket.socket] = {}
        self._cases = 0

    def run(self, data: bytes) -> Hashable:
        """Send a case, whose first byte says over which connection."""
        self._cases += 1
        number = data[0] % _CONNECTIONS if data else 0
        outcome = self._send(number, data[1:] or b"\0")
        if self._cases % _CORRECT_EVERY == 0:
            with gevent.Timeout(_DEADLINE_S):
                self._correct.ask()
        if self._errors.found:
            raise self._errors.found.pop()
        return outcome

    def _send(self, number: int, data: bytes) -> str:
        if number not in self._opened:
            self._opened[number] = socket.create_connection(("127.0.0.1", self._port), _DEADLINE_S)
        opened = self._opened[number]
        try:
            opened.sendall(data)
            let_others_run()
            if os.read(opened.fileno(), 1 << 16):
                return "answered"
        except BlockingIOError:
            return "taken"
        except OSError:
            pass
        self._opened.pop(number).close()
        return "closed"

    def close(self) -> None:
        """End all connections."""
        for opened in self._opened.values():
            opened.close()


@contextmanager
def open_connections() -> Iterator[Run]:
    """Check that what comes over any of several connections is answered, or ends that one, with no unexpected error."""
    with tempfile.TemporaryDirectory(prefix="fuzz-", dir=in_memory()) as directory, _collected() as errors:
        config = BrokerConfig.of(
            {
                "brokerid": 0,
                "log.dir": directory,
                "enable.zookeeper": False,
                "port": 0,
                "num.partitions": 2,
                "log.flush.interval": 1,
                "max.message.size": 2000,
                "max.socket.request.bytes": 5000,
                "log.file.size": 20_000,
                "log.retention.size": 100_000,
            }
        )
        with KafkaServer(config) as server:
            correct = _Correct(server.port)
            hostile = _Hostile(server.port, errors, correct)
            try:
                yield hostile.run
                with gevent.Timeout(_DEADLINE_S):
                    correct.ask()
            finally:
                correct.close()
                hostile.close()


@contextmanager
def _collected() -> Iterator[_Errors]:
    """Collect errors that a broker logs, and let it say nothing."""
    errors = _Errors()
    logger = logging.getLogger("kafka2011")
    level = logger.level
    logger.propagate = False
    logger.setLevel(logging.ERROR)
    logger.addHandler(errors)
    try:
        yield errors
    finally:
        logger.removeHandler(errors)
        logger.setLevel(level)
        logger.propagate = True


TARGETS = (Target("connections", 15_000, open_connections, (), TOKENS),)
