"""A broker under mutated frames from several connections: a correct client is served, and nothing grows."""

from __future__ import annotations

import os
import socket
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import psutil
import pytest

from kafka2011.message.message_set import encode
from kafka2011.wire.protocol import FetchRequest, FetchWait, MultiFetchRequest, ProduceRequest, encode_request
from tests.fuzz.inputs import read_corpus
from tests.fuzz.mutator import Mutator
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka2011.local_cluster import LocalBroker
    from kafka2011.wire.connection import BrokerConnection

    OpenConnection = Callable[[LocalBroker], BrokerConnection]
    Counts = Callable[[LocalBroker], dict[str, int]]

ROUND_S = float(os.environ.get("MUTATED_FRAMES_S", "3"))
"""How long frames come in each of two rounds; the second must need no more than the first."""
CONNECTIONS = 4
MORE_FILES = 10
MORE_MEMORY_BYTES = 25 << 20
TOKENS = (b"\0\0\0\0", b"WAIT", b"\xff\xff\xff\xff")
_BARRIER = encode_request(MultiFetchRequest(()))


class Hostile:
    """Sends mutated frames over one connection, and opens another when the broker has ended it."""

    def __init__(self, port: int, seed: int, ended: threading.Event) -> None:
        self.frames = 0
        self._port = port
        self._mutator = Mutator(seed, read_corpus("frames"), TOKENS, 2000)
        self._ended = ended
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        while not self._ended.is_set():
            with suppress(OSError), socket.create_connection(("127.0.0.1", self._port), 10) as opened:
                opened.settimeout(10)
                while not self._ended.is_set():
                    self.frames += 1
                    opened.sendall(self._mutator.case())
                    opened.setblocking(False)
                    try:
                        if not opened.recv(1 << 16):
                            break
                    except BlockingIOError:
                        time.sleep(0.0002)  # or nothing else on a small machine would run
                    opened.settimeout(10)


class Correct:
    """Produces one message, has it confirmed, and reads it back."""

    def __init__(self, connection: BrokerConnection) -> None:
        self._connection = connection
        self._offset = 0
        self.served = 0

    def ask(self) -> None:
        message = encode(b"correct %d" % self.served)
        self._connection.send(encode_request(ProduceRequest("correct", 0, message)))
        assert bytes(self._connection.request(_BARRIER)) == b"\0\0"
        fetch = FetchRequest("correct", 0, self._offset, 10_000, FetchWait(10_000, 1))
        assert bytes(self._connection.request(encode_request(fetch))) == b"\0\0" + message
        self._offset += len(message)
        self.served += 1


def needed_by(broker: LocalBroker) -> tuple[int, int]:
    """Return how many files a broker has open, but for those of logs, and its memory."""
    process = psutil.Process(broker.process.pid)
    logs = sum(1 for each in process.open_files() if each.path.endswith(".kafka"))
    return process.num_fds() - logs, process.memory_info().rss


@pytest.mark.timeout(60 + 4 * ROUND_S)
def test_a_correct_client_is_served_meanwhile(
    new_broker: Callable[..., LocalBroker], open_connection: OpenConnection, counts_of: Counts
) -> None:
    """No frame leads to an error that nobody expected; descriptors and memory are what they were."""
    broker = new_broker(
        {
            "log.flush.interval": 1,
            "max.message.size": 2000,
            "max.socket.request.bytes": 5000,
            "log.file.size": 100_000,
            "log.retention.size": 300_000,
            "log.cleanup.interval.mins": 0.01,
        }
    )
    broker.start()
    correct = Correct(open_connection(broker))
    needed = []
    for number in range(2):
        ended = threading.Event()
        hostile = [Hostile(broker.port, 100 * number + each, ended) for each in range(CONNECTIONS)]
        ends_s = time.monotonic() + ROUND_S
        while time.monotonic() < ends_s or min(each.frames for each in hostile) < 50:
            correct.ask()
        ended.set()
        for each in hostile:
            each.thread.join(20)
            assert not each.thread.is_alive()
        eventually(lambda: len(psutil.Process(broker.process.pid).net_connections()) == 2, what="one client, one port")
        needed.append(needed_by(broker))
        correct.ask()
    (files, memory_bytes), (more_files, more_memory_bytes) = needed
    assert more_files <= files + MORE_FILES
    assert more_memory_bytes <= memory_bytes + MORE_MEMORY_BYTES
    counts = counts_of(broker)
    assert counts["refused"] > 0
    assert counts.get("handler_errors", 0) == 0
    assert b"Traceback" not in broker.output()
