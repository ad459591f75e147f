"""AsyncioConsumer: a member of a group, for programs that run in an event loop.

Its streams hand messages out in the loop's own thread, straight from what the fetchers' threads have brought, so that
"consumed" means what it means in other programs: the application came back for the next message.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Self, TypeVar

from kafka2011.aio.threads import Thread
from kafka2011.config import ConsumerConfig
from kafka2011.consumer.connector import ConsumerConnector
from kafka2011.consumer.stream import LOOK_INTERVAL_S
from kafka2011.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping
    from types import TracebackType

    import pyarrow as pa

    from kafka2011.consumer.rebalance_listener import RebalanceListener
    from kafka2011.consumer.stream import MessageStream
    from kafka2011.consumer.topic_filter import TopicFilter
    from kafka2011.message.message_set import Message
    from zk.cluster import TopicPartition

T = TypeVar("T")

_TURN_S = 0.002
"""How long messages that are there are handed out before the loop's other tasks have their turn."""


class AsyncioStream:
    """Delivers the messages of one stream to one task of an event loop: an async iterator.

    Ends when consumer.timeout.ms passes without a message, and after the consumer's end; raises as `MessageStream`.
    """

    def __init__(self, stream: MessageStream, timeout_ms: int) -> None:
        self._stream = stream
        self._timeout_s = None if timeout_ms < 0 else timeout_ms / 1000
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self._is_waiting = False
        self._task: asyncio.Task[object] | None = None
        stream.on_change(self._wake)

    def __repr__(self) -> str:
        return f"<AsyncioStream {self._stream.stream_id}>"

    def __aiter__(self) -> AsyncIterator[Message]:
        return self._each(self._stream.poll)

    def batches(self, max_messages: int = 250) -> AsyncIterator[list[Message]]:
        """Yield lists of messages of one partition each, as `MessageStream.batches` does."""
        return self._each(lambda: self._stream.poll_list(max_messages) or None)

    def arrow(self, max_messages: int = 10_000) -> AsyncIterator[pa.RecordBatch]:
        """Yield Arrow's record batches of one partition each, as `MessageStream.arrow` does. Needs PyArrow."""
        return self._each(lambda: self._stream.poll_arrow(max_messages))

    def count_in_hand_as_done(self) -> None:
        """Count the message that this task is processing as consumed."""
        if self._task is asyncio.current_task():
            self._stream.count_in_hand_as_done()

    async def _each(self, poll: Callable[[], T | None]) -> AsyncIterator[T]:
        turn_ends_s = self._loop.time() + _TURN_S
        while True:
            self._task = asyncio.current_task()
            item = poll()
            if item is None:
                item = await self._next(poll)
                if item is None:
                    return
                turn_ends_s = self._loop.time() + _TURN_S
            yield item
            if self._loop.time() > turn_ends_s:
                await asyncio.sleep(0)
                turn_ends_s = self._loop.time() + _TURN_S

    async def _next(self, poll: Callable[[], T | None]) -> T | None:
        """Wait for the next one; None after the timeout and after the end."""
        with self._stream.asking():
            return await self._await_next(poll)

    async def _await_next(self, poll: Callable[[], T | None]) -> T | None:
        until_s = None if self._timeout_s is None else self._loop.time() + self._timeout_s
        while True:
            self._changed.clear()
            self._is_waiting = True  # before looking, so that nothing comes unnoticed
            item = poll()
            if item is not None or self._stream.is_closed:
                self._is_waiting = False
                return item
            wait_s = None if until_s is None else until_s - self._loop.time()
            if wait_s is not None and wait_s <= 0:
                self._is_waiting = False
                return None
            if self._stream.waits_for_session:
                wait_s = LOOK_INTERVAL_S if wait_s is None else min(wait_s, LOOK_INTERVAL_S)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), wait_s)

    def _wake(self) -> None:
        """Have the task look again; from any thread, at most once for each time that it waits."""
        if self._is_waiting:
            self._is_waiting = False
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._changed.set)


class AsyncioConsumer:
    """Joins a consumer group from an asyncio event loop, as `ConsumerConnector` does; an async context manager.

        async with AsyncioConsumer({"zk.connect": "localhost:2181", "groupid": "reports"}) as consumer:
            [stream] = (await consumer.create_message_streams({"views": 1}))["views"]
            async for message in stream:
                ...

    For one event loop, which must not be held up for longer than the session's time-out. `config`, `listener`, which is
    called in a thread, and `explicit_commits` are those of `ConsumerConnector`.
    """

    def __init__(
        self,
        config: ConsumerConfig | Mapping[str, object],
        listener: RebalanceListener | None = None,
        *,
        explicit_commits: bool = False,
    ) -> None:
        self._config = ConsumerConfig.of(config)
        self._listener = listener
        self._explicit_commits = explicit_commits
        self._opened: tuple[ConsumerConnector, Thread] | None = None
        self._streams: list[AsyncioStream] = []

    def __repr__(self) -> str:
        return f"<AsyncioConsumer of {self._opened[0]}>" if self._opened else "<AsyncioConsumer, not open>"

    async def create_message_streams(self, streams_by_topic: Mapping[str, int]) -> dict[str, list[AsyncioStream]]:
        """Join the group and return streams: `streams_by_topic` maps a topic to how many. It may be created later."""
        connector, thread = self._open()
        created = await thread.call(connector.create_message_streams, streams_by_topic)
        return {topic: self._added(streams) for topic, streams in created.items()}

    async def create_message_streams_by_filter(
        self, topic_filter: TopicFilter, streams: int = 1
    ) -> list[AsyncioStream]:
        """Join the group and return `streams` streams of all topics that the filter allows, now or later."""
        connector, thread = self._open()
        return self._added(await thread.call(connector.create_message_streams_by_filter, topic_filter, streams))

    async def commit_offsets(self, offsets: Mapping[tuple[str, int, int], int] | None = None) -> None:
        """Commit as `ConsumerConnector.commit_offsets` does; the message being processed counts as consumed."""
        connector, thread = self._open()
        if offsets is None:
            self._count_in_hand_as_done()
        await thread.call(connector.commit_offsets, offsets)

    async def rewind(
        self, topic: str, broker_id: int, partition: int, *, offset: int | None = None, time_ms: int | None = None
    ) -> int:
        """Continue a partition at another offset or time, as `ConsumerConnector.rewind` does."""
        connector, thread = self._open()
        return await thread.call(connector.rewind, topic, broker_id, partition, offset=offset, time_ms=time_ms)

    def owned_partitions(self) -> list[TopicPartition]:
        """Return the partitions that this member owns, sorted."""
        return self._open()[0].owned_partitions()

    def counts(self) -> dict[str, int]:
        """Return the counters since the start."""
        return self._open()[0].counts()

    async def __aenter__(self) -> Self:
        if self._opened is not None:
            raise KafkaError("this consumer is open already")
        thread = Thread("asyncio consumer")
        try:
            connector = await thread.call(
                ConsumerConnector, self._config, self._listener, explicit_commits=self._explicit_commits
            )
        except BaseException:
            thread.end()
            raise
        self._opened = connector, thread
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        connector, thread = self._open()
        if exc_type is None:
            self._count_in_hand_as_done()
        try:
            await asyncio.shield(asyncio.to_thread(connector.shutdown))
        finally:
            thread.end()

    def _open(self) -> tuple[ConsumerConnector, Thread]:
        if self._opened is None:
            raise KafkaError("this consumer is not open: use it by `async with`")
        return self._opened

    def _added(self, streams: list[MessageStream]) -> list[AsyncioStream]:
        added = [AsyncioStream(stream, self._config.consumer_timeout_ms) for stream in streams]
        self._streams += added
        return added

    def _count_in_hand_as_done(self) -> None:
        for stream in self._streams:
            stream.count_in_hand_as_done()
