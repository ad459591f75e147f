"""Producer: publishes to the brokers of a cluster, which it finds by itself (paper, sections 3.1 and 3.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from kafka2011.config import ProducerConfig
from kafka2011.message import MessageSet, scan
from kafka2011.producer.async_producer import AsyncProducer
from kafka2011.producer.counts import Counts
from kafka2011.producer.encoder import payloads_of
from kafka2011.producer.errors import ProducerClosedError
from kafka2011.producer.set_encoder import SetEncoder
from kafka2011.producer.setup import open_router, own_encoder
from kafka2011.producer.synchronous_sender import SynchronousSender

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from concurrent.futures import Future
    from types import TracebackType

    from kafka2011.producer.parcel import FailedSend, Receipt


class Producer:
    """A producer that finds brokers and partitions through ZooKeeper, or takes those of broker.list.

        with Producer({"zk.connect": "localhost:2181"}) as producer:
            producer.send("views", b"one")
            producer.send("views", [b"two", b"three"], key="member-42")

    May be shared by threads. producer.type chooses between sending in the caller's thread (sync, the default) and an
    AsyncProducer. `on_failure` is for the latter. `counts` tells what was done.
    """

    def __init__(
        self,
        config: ProducerConfig | Mapping[str, object],
        *,
        on_failure: Callable[[FailedSend], object] | None = None,
    ) -> None:
        self._config = ProducerConfig.of(config)
        self._async: AsyncProducer | None = None
        self._closed = False
        if self._config.producer_type == "async":
            self._async = AsyncProducer(self._config, on_failure=on_failure)
            self.counts = self._async.counts
            return
        self.counts = Counts()
        self._value_encoder = own_encoder(self._config)
        self._set_encoder = SetEncoder(self._config)
        self._router = open_router(self._config)
        self._sender = SynchronousSender(self._config, self._router, self.counts)

    def send(self, topic: str, messages: object, key: object = None) -> Future[Receipt] | None:
        """Send one payload, several, or a MessageSet; all of one call go to one partition, in order.

        Without a key that is any partition, with one the partitioner's choice. An asynchronous producer returns a
        future, see AsyncProducer.send. Otherwise this returns None when all was handed to the operating system, or
        with confirm=true, when the broker has proven that it handled it.
        Raises before anything is sent: InvalidTopicError, TypeError, MessageSizeTooLargeError, InvalidPartitionError,
        NoBrokersError, ProducerClosedError. Raises BrokerConnectionError when a set could not be handed over, and
        confirming, ConfirmTimeoutError or SetRefusedError; sets of the same call before that one were sent.
        """
        if self._async is not None:
            return self._async.send(topic, messages, key)
        if self._closed:
            raise ProducerClosedError("the producer is closed")
        self._router.check_topic(topic)
        if isinstance(messages, MessageSet):
            self._set_encoder.check_set(topic, messages)
            self._sender.send(topic, key, [(bytes(messages), scan(bytes(messages)).messages)])
            return None
        payloads = payloads_of(messages, self._value_encoder)
        self._set_encoder.check(topic, payloads)
        encode = self._set_encoder.encode
        self._sender.send(topic, key, ((encode(topic, piece), len(piece)) for piece in self._set_encoder.cut(payloads)))
        return None

    def flush(self, timeout_s: float | None = None) -> bool:
        """Send what is queued at once, and wait until it is done; False when `timeout_s` passed before."""
        return True if self._async is None else self._async.flush(timeout_s)

    def close(self) -> None:
        """Send what is queued, wait until the brokers have handled all that was sent, and end; may be called twice."""
        if self._async is not None:
            self._async.close()
        elif not self._closed:
            self._closed = True
            self._sender.close()
            self._router.info.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
