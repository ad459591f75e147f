"""AsyncioProducer: the producer, for programs that run in an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Self

from kafka2011.aio.threads import Thread
from kafka2011.config import ProducerConfig
from kafka2011.errors import ConfigError, KafkaError
from kafka2011.producer.producer import Producer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from concurrent.futures import Future
    from types import TracebackType

    from kafka2011.message.message_set import MessageSet
    from kafka2011.producer.batch import FailedBatch, Receipt
    from kafka2011.producer.counts import Counts
    from zk.cluster import TopicPartition

QUEUE_TIME_MS = 10
"""queue.time unless it is set: with the 5 seconds of other producers, a single awaited message would take as long."""


class AsyncioProducer:
    """Publishes from an asyncio event loop, as an asynchronous `Producer` does; an async context manager.

        async with AsyncioProducer({"zk.connect": "localhost:2181"}) as producer:
            receipt = await producer.send("views", b"one")

    `config` is the producer's; producer.type is async, and queue.time is 10 ms unless it is set. `on_failure` is called
    in the event loop with every FailedBatch. For one event loop; its coroutines may share it.
    """

    def __init__(
        self,
        config: ProducerConfig | Mapping[str, object],
        *,
        on_failure: Callable[[FailedBatch], object] | None = None,
    ) -> None:
        if isinstance(config, Mapping):
            config = ProducerConfig.of({"producer.type": "async", "queue.time": QUEUE_TIME_MS, **config})
        if config.producer_type != "async":
            raise ConfigError("the producer of an event loop has producer.type=async")
        self._config = config
        self._on_failure = on_failure
        self._opened: tuple[Producer, Thread] | None = None
        self._waiting: dict[Future[Receipt], asyncio.Future[Receipt]] = {}

    def __repr__(self) -> str:
        return f"<AsyncioProducer of {self._opened[0]}>" if self._opened else "<AsyncioProducer, not open>"

    async def send(
        self,
        topic: str,
        messages: bytes | list[bytes] | MessageSet,
        key: object = None,
        partition: TopicPartition | None = None,
    ) -> Receipt:
        """Send as `Producer.send` does, and return the receipt once written or, with confirm=true, confirmed.

        Raises what `Producer.send` raises, and the error that the batch failed with. Cancelled, it may have been sent.
        """
        return await (await self.post(topic, messages, key, partition))

    async def post(
        self,
        topic: str,
        messages: bytes | list[bytes] | MessageSet,
        key: object = None,
        partition: TopicPartition | None = None,
    ) -> Awaitable[Receipt]:
        """Queue what `send` would send, waiting for room only, and return an awaitable of the receipt."""
        producer, thread = self._open()
        sent = producer.send_at_once(topic, messages) if key is None and partition is None else None
        if sent is None:
            sent = await thread.call(producer.send, topic, messages, key, partition)
        return asyncio.shield(self._future_of(sent))

    async def flush(self, timeout_s: float | None = None) -> bool:
        """Send what is queued at once, and wait until it is done; return False if `timeout_s` seconds pass first."""
        producer, _ = self._open()
        return await asyncio.to_thread(producer.flush, timeout_s)

    @property
    def counts(self) -> Counts:
        """Return what was done so far."""
        return self._open()[0].counts

    async def __aenter__(self) -> Self:
        if self._opened is not None:
            raise KafkaError("this producer is open already")
        loop = asyncio.get_running_loop()
        thread = Thread("asyncio producer")
        try:
            producer = await thread.call(Producer, self._config, on_failure=self._teller(loop))
        except BaseException:
            thread.end()
            raise
        self._opened = producer, thread
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        producer, thread = self._open()
        try:
            await asyncio.shield(asyncio.to_thread(producer.close))
        finally:
            thread.end()

    # Inside ------------------------------------------------------------------------------------------------------

    def _open(self) -> tuple[Producer, Thread]:
        if self._opened is None:
            raise KafkaError("this producer is not open: use it by `async with`")
        return self._opened

    def _future_of(self, sent: Future[Receipt]) -> asyncio.Future[Receipt]:
        """Return the loop's future for a batch's, which all who wait for that batch share: one wake-up for them all."""
        future = self._waiting.get(sent)
        if future is None:
            loop = asyncio.get_running_loop()
            future = self._waiting[sent] = loop.create_future()

            def tell(done: Future[Receipt]) -> None:
                with suppress(RuntimeError):  # the loop has ended, and nobody waits
                    loop.call_soon_threadsafe(self._end, done)

            sent.add_done_callback(tell)
        return future

    def _end(self, sent: Future[Receipt]) -> None:
        future = self._waiting.pop(sent)
        error = sent.exception()
        if error is None:
            future.set_result(sent.result())
        else:
            future.set_exception(error)
            future.exception()  # those who await it hear of it; `on_failure` and `counts` tell the others

    def _teller(self, loop: asyncio.AbstractEventLoop) -> Callable[[FailedBatch], object] | None:
        on_failure = self._on_failure
        if on_failure is None:
            return None

        def tell(failed: FailedBatch) -> None:
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(on_failure, failed)

        return tell
