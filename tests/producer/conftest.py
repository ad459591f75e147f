"""A scripted broker on a real socket, for producers that should meet trouble at a chosen moment."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from kafka2011.message import MessageSet
from kafka2011.producer.broker_partition_info import ListedBrokers
from kafka2011.protocol import (
    FrameReader,
    MultiFetchRequest,
    MultiProduceRequest,
    ProduceRequest,
    decode_request,
    encode_response_header,
)
from zk.cluster import Broker, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafka2011.protocol import Request

TIMEOUT_S = 20.0


class FakeBroker:
    """Handles produce requests in order and answers barriers, until told to do otherwise.

    `sets` are the handled ones: (topic, partition, payloads). `script` is asked about each set before it is handled:
    False ends the connection instead. Answers wait for the event `answering`, but for that to the first barrier, with
    which a connection begins.
    """

    def __init__(self, broker_id: int) -> None:
        self.broker_id = broker_id
        self.sets: list[tuple[str, int, list[bytes]]] = []
        self.requests: list[Request] = []
        self.connections = 0
        self.unasked_ends = 0
        self.script: Callable[[ProduceRequest], bool] = lambda _request: True
        self.answering = threading.Event()
        self.answering.set()
        self._open: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._listener: socket.socket | None = None
        self.port = 0
        self.start()

    @property
    def entry(self) -> Broker:
        return Broker(self.broker_id, "127.0.0.1", self.port)

    @property
    def payloads(self) -> list[bytes]:
        """All that was handled, in order."""
        return [payload for _, _, payloads in self.sets for payload in payloads]

    def start(self) -> None:
        """Listen, on the same port as before."""
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self.port = self._listener.getsockname()[1]
        self._spawn(self._accept, self._listener)

    def stop(self) -> None:
        """Refuse connections, and end those there are."""
        if self._listener is not None:
            with contextlib.suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            self._listener = None
        self.end_connections()

    def end_connections(self) -> None:
        for connection in self._open:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.answering.set()
        self.stop()
        for thread in self._threads:
            thread.join(TIMEOUT_S)
            assert not thread.is_alive()

    def _spawn(self, target: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            self.connections += 1
            self._open.append(connection)
            self._spawn(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        reader = FrameReader()
        handled = len(self.sets)
        with connection:
            try:
                while data := connection.recv(65536):
                    reader.receive_data(data)
                    while (frame := reader.next_frame()) is not None:
                        request = decode_request(frame)
                        self.requests.append(request)
                        if not isinstance(request, MultiFetchRequest):
                            if not self._handle(request):
                                return
                        elif self.answering.is_set() or len(self.sets) == handled:
                            connection.sendall(encode_response_header(0, 0))
                        else:
                            self._spawn(self._answer_later, connection)
            except OSError:
                self.unasked_ends += 1

    def _answer_later(self, connection: socket.socket) -> None:
        self.answering.wait(TIMEOUT_S)
        with contextlib.suppress(OSError):
            connection.sendall(encode_response_header(0, 0))

    def _handle(self, request: Request) -> bool:
        assert isinstance(request, ProduceRequest | MultiProduceRequest)
        for produce in request.produces if isinstance(request, MultiProduceRequest) else (request,):
            if not self.script(produce):
                return False
            payloads = list(MessageSet.from_bytes(produce.messages))
            self.sets.append((produce.topic, produce.partition, payloads))
        return True


class FakeInfo(ListedBrokers):
    """Brokers that have the same partitions of every topic."""

    def __init__(self, brokers: list[FakeBroker], partitions: int = 1) -> None:
        super().__init__([broker.entry for broker in brokers])
        self._counts = dict.fromkeys((broker.broker_id for broker in brokers), partitions)

    def partitions(self, topic: str) -> tuple[TopicPartition, ...]:
        return tuple(TopicPartition.all_of(topic, self._counts))

    choices = partitions


@pytest.fixture
def new_broker() -> Iterator[Callable[[], FakeBroker]]:
    """Start scripted brokers, numbered from 0."""
    with ExitStack() as stack:
        made: list[FakeBroker] = []

        def start() -> FakeBroker:
            broker = FakeBroker(len(made))
            made.append(broker)
            stack.callback(broker.close)
            return broker

        yield start


@pytest.fixture
def broker(new_broker: Callable[[], FakeBroker]) -> FakeBroker:
    """Start one scripted broker."""
    return new_broker()


@pytest.fixture
def info_of() -> Callable[..., FakeInfo]:
    """Make what a producer knows of scripted brokers."""
    return FakeInfo


@pytest.fixture
def eventually() -> Callable[..., None]:
    """Poll a condition until it holds; fail when it does not within the deadline."""

    def poll(condition: Callable[[], object], timeout_s: float = TIMEOUT_S) -> None:
        deadline = time.monotonic() + timeout_s
        while not condition():
            assert time.monotonic() < deadline, "the condition did not come true"
            time.sleep(0.002)

    return poll
