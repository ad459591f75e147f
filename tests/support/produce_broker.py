"""A broker on a real socket for producers that should meet trouble at a chosen moment."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING

from kafka2011.message.message_set import MessageSet
from kafka2011.producer.partition_info import ListedBrokers
from kafka2011.wire.protocol import (
    FrameReader,
    MultiFetchRequest,
    MultiProduceRequest,
    ProduceRequest,
    decode_request,
    encode_response_header,
)
from tests.support.listener import DEADLINE_S, Listener
from zk.cluster import Broker, TopicPartition

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from kafka2011.wire.protocol import Request


class ProduceBroker(Listener):
    """Handles produce requests in order and answers barriers, until told to do otherwise.

    `sets` are the handled ones: (topic, partition, payloads). `script` is asked about each set before it is handled:
    False ends the connection instead. Answers wait for the event `answering`, but for that to the first barrier, with
    which a connection begins.
    """

    def __init__(self, broker_id: int) -> None:
        self.broker_id = broker_id
        self.sets: list[tuple[str, int, list[bytes]]] = []
        self.requests: list[Request] = []
        self.unasked_ends = 0
        self.script: Callable[[ProduceRequest], bool] = lambda _request: True
        self.answering = threading.Event()
        self.answering.set()
        super().__init__(self._answer_all)

    @property
    def entry(self) -> Broker:
        """What producers know of it."""
        return Broker(self.broker_id, "127.0.0.1", self.port)

    @property
    def payloads(self) -> list[bytes]:
        """All that was handled, in order."""
        return [payload for _, _, payloads in self.sets for payload in payloads]

    def stop(self) -> None:
        """Refuse connections, and end those there are."""
        self.refuse()
        self.end_connections()

    def close(self) -> None:
        """Stop, and fail if it met what it did not expect."""
        self.answering.set()
        self.stop()
        super().close()

    def _answer_all(self, accepted: socket.socket, _number: int) -> None:
        reader = FrameReader()
        handled = len(self.sets)
        try:
            while data := accepted.recv(65536):
                reader.receive_data(data)
                while (frame := reader.next_frame()) is not None:
                    request = decode_request(frame)
                    self.requests.append(request)
                    if not isinstance(request, MultiFetchRequest):
                        if not self._handle(request):
                            return
                    elif self.answering.is_set() or len(self.sets) == handled:
                        accepted.sendall(encode_response_header(0, 0))
                    else:
                        self.spawn(self._answer_later, accepted)
        except OSError:
            self.unasked_ends += 1

    def _answer_later(self, accepted: socket.socket) -> None:
        self.answering.wait(DEADLINE_S)
        with contextlib.suppress(OSError):
            accepted.sendall(encode_response_header(0, 0))

    def _handle(self, request: Request) -> bool:
        assert isinstance(request, ProduceRequest | MultiProduceRequest)
        for produce in request.produces if isinstance(request, MultiProduceRequest) else (request,):
            if not self.script(produce):
                return False
            payloads = list(MessageSet.from_bytes(produce.messages))
            self.sets.append((produce.topic, produce.partition, payloads))
        return True


class KnownBrokers(ListedBrokers):
    """Brokers that have the same partitions of every topic: as many as `counts` says of each broker."""

    def __init__(self, brokers: list[ProduceBroker], partitions: int = 1) -> None:
        super().__init__([broker.entry for broker in brokers])
        self.counts = dict.fromkeys((broker.broker_id for broker in brokers), partitions)

    def partitions(self, topic: str) -> tuple[TopicPartition, ...]:
        return tuple(TopicPartition.all_of(topic, self.counts))

    choices = partitions
