"""The producer and the members of groups of event loops, beside a real cluster."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

from kafka2011 import KafkaError, Message, TopicPartition, Whitelist
from kafka2011.aio import AsyncioConsumer, AsyncioProducer
from kafka2011.errors import ConfigError
from zk.ports import free_port

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Coroutine

    from kafka2011 import FailedBatch
    from kafka2011.local_cluster import LocalCluster

TIMEOUT_S = 60
_names = count()


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(main, TIMEOUT_S))


@pytest.fixture
def topic() -> str:
    return f"views-{next(_names)}"


@pytest.fixture
def here(kafka2011_session_cluster: LocalCluster) -> dict[str, object]:
    return {"zk.connect": kafka2011_session_cluster.zk_connect}


def group(here: dict[str, object], **more: object) -> dict[str, object]:
    return {**here, "groupid": "readers", "autooffset.reset": "smallest", "autocommit.enable": "false"} | {
        name.replace("_", "."): value for name, value in more.items()
    }


async def payloads(messages: AsyncIterable[Message], many: int) -> list[bytes]:
    found = []
    async for message in messages:
        found.append(message.payload)
        if len(found) == many:
            break
    return found


def test_what_is_sent_comes_in_order(here: dict[str, object], topic: str) -> None:
    """Messages alone, lists and those with keys; the receipts say where they went."""

    async def main() -> None:
        async with AsyncioProducer(here) as producer:
            assert (await producer.send(topic, b"one")).topic == topic
            assert (await producer.send(topic, [b"two", b"three"])).messages == 2
            assert (await producer.send(topic, b"four", key="member")).broker_id == 0
            assert producer.counts()["messages_sent"] == 4
        async with AsyncioConsumer(group(here)) as consumer:
            [stream] = (await consumer.create_message_streams({topic: 1}))[topic]
            assert await payloads(stream, 4) == [b"one", b"two", b"three", b"four"]
            assert consumer.owned_partitions() == [TopicPartition(topic, 0, 0)]

    run(main())


def test_a_stream_gives_columns(here: dict[str, object], topic: str) -> None:
    """The task waits for them as for messages."""

    async def main() -> None:
        async with AsyncioConsumer(group(here)) as consumer:
            [stream] = (await consumer.create_message_streams({topic: 1}))[topic]
            async with AsyncioProducer(here) as producer:
                await producer.send(topic, [b"1", b"2", b"3"])
            found: list[bytes] = []
            async for batch in stream.arrow():
                found += batch.column("payload").to_pylist()
                if len(found) == 3:
                    break
            assert found == [b"1", b"2", b"3"]

    run(main())


def test_a_batch_wakes_the_loop_once(here: dict[str, object], topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many wait for its messages; other tasks have their turn meanwhile."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        wake, woken, turns = loop.call_soon_threadsafe, [0], [0]

        def counted(*args: Any, **kwargs: Any) -> asyncio.Handle:
            woken[0] += 1
            return wake(*args, **kwargs)

        async def others() -> None:
            while True:
                turns[0] += 1
                await asyncio.sleep(0)

        async with AsyncioProducer({**here, "batch.size": 500, "queue.time": 60_000}) as producer:
            first = await producer.post(topic, b"first")
            other = asyncio.create_task(others())
            monkeypatch.setattr(loop, "call_soon_threadsafe", counted)
            posted = [await producer.post(topic, b"x" * 100) for _ in range(499)]
            receipts = await asyncio.gather(first, *posted)
            monkeypatch.undo()
            other.cancel()
        assert {receipt.messages for receipt in receipts} == {500}
        assert woken[0] == 1
        assert turns[0] > 0

    run(main())


def test_all_of_many_come(here: dict[str, object], topic: str) -> None:
    """As lists, each of one partition."""

    async def main() -> None:
        async with AsyncioProducer(here) as producer:
            await asyncio.gather(*[await producer.post(topic, b"%d" % number) for number in range(20_000)])
        found: list[bytes] = []
        async with AsyncioConsumer(group(here)) as consumer:
            [stream] = await consumer.create_message_streams_by_filter(Whitelist(topic))
            async for messages in stream.batches(300):
                assert len(messages) <= 300
                found += [message.payload for message in messages]
                if len(found) == 20_000:
                    break
        assert found == [b"%d" % number for number in range(20_000)]

    run(main())


@pytest.mark.parametrize("is_done", [True, False], ids=["left", "failed"])
def test_the_message_in_hand_at_the_end(here: dict[str, object], topic: str, is_done: bool) -> None:
    """It was done when the program leaves in order, and comes again when an error ends it."""

    async def main() -> None:
        async with AsyncioProducer(here) as producer:
            await producer.send(topic, [b"one", b"two", b"three"])
        with suppress(ZeroDivisionError):
            async with AsyncioConsumer(group(here, autocommit_enable="true")) as consumer:
                [stream] = (await consumer.create_message_streams({topic: 1}))[topic]
                assert await payloads(stream, 2) == [b"one", b"two"]
                if not is_done:
                    raise ZeroDivisionError
        async with AsyncioConsumer(group(here)) as consumer:
            [stream] = (await consumer.create_message_streams({topic: 1}))[topic]
            assert await payloads(stream, 1) == [b"three" if is_done else b"two"]

    run(main())


def test_a_commit_is_of_the_task_that_asks(here: dict[str, object], topic: str) -> None:
    """What another task has in hand is not done, though both run in one thread."""

    async def main() -> None:
        topics = [topic, f"{topic}-too"]
        async with AsyncioProducer(here) as producer:
            for each in topics:
                await producer.send(each, [b"one", b"two"])
        with suppress(ZeroDivisionError):  # so that what is in hand at the end does not count as done
            async with AsyncioConsumer(group(here)) as consumer:
                streams = await consumer.create_message_streams(dict.fromkeys(topics, 1))
                mine, others = (streams[each][0] for each in topics)
                assert await asyncio.create_task(payloads(others, 1)) == [b"one"]
                assert await payloads(mine, 1) == [b"one"]
                await consumer.commit_offsets()
                raise ZeroDivisionError
        async with AsyncioConsumer(group(here)) as consumer:
            streams = await consumer.create_message_streams(dict.fromkeys(topics, 1))
            assert await payloads(streams[topics[0]][0], 1) == [b"two"]
            assert await payloads(streams[topics[1]][0], 1) == [b"one"]

    run(main())


def test_a_stream_ends_when_nothing_comes(here: dict[str, object], topic: str) -> None:
    """After consumer.timeout.ms; and it can be iterated again."""

    async def main() -> None:
        async with AsyncioProducer(here) as producer, AsyncioConsumer(group(here, consumer_timeout_ms=300)) as consumer:
            [stream] = (await consumer.create_message_streams({topic: 1}))[topic]
            assert [message async for message in stream] == []
            await producer.send(topic, b"one")
            found: list[bytes] = []
            while not found:
                found += [message.payload async for message in stream]
            assert found == [b"one"]

    run(main())


def test_a_task_that_waits_is_not_silent(here: dict[str, object], topic: str) -> None:
    """For max.poll.interval.ms, of which the loop's wait for the next message is none."""

    async def main() -> None:
        async with AsyncioConsumer(group(here, max_poll_interval_ms=60_000)) as consumer:
            [stream] = (await consumer.create_message_streams({topic: 1}))[topic]
            waiting = asyncio.create_task(payloads(stream, 1))
            while not stream._stream.is_asked:
                await asyncio.sleep(0.01)
            waiting.cancel()
            with suppress(asyncio.CancelledError):
                await waiting
            assert not stream._stream.is_asked

    run(main())


def test_the_end_of_a_consumer_ends_its_streams(here: dict[str, object], topic: str) -> None:
    """Also of a task that waits for a message."""

    async def main() -> None:
        async with AsyncioConsumer(group(here)) as consumer:
            [stream] = (await consumer.create_message_streams({topic: 1}))[topic]
            waiting = asyncio.create_task(payloads(stream, 1))
            await asyncio.sleep(0)
        assert await waiting == []

    run(main())


def test_one_who_no_longer_waits_takes_nothing_from_the_others(here: dict[str, object], topic: str) -> None:
    """They share the future of a batch."""

    async def main() -> None:
        async with AsyncioProducer({**here, "queue.time": 60_000}) as producer:
            first, second = [asyncio.ensure_future(await producer.post(topic, b"x")) for _ in range(2)]
            first.cancel()
            assert await producer.flush(TIMEOUT_S)
            assert (await second).messages == 2
            assert first.cancelled()

    run(main())


def test_what_cannot_be_sent_is_told_in_the_loop() -> None:
    """To who waits for it, and to `on_failure`, in the loop's thread."""
    told: list[tuple[FailedBatch, threading.Thread]] = []

    async def main() -> None:
        nobody = {"broker.list": f"0:127.0.0.1:{free_port()}", "num.retries": 0}
        failed = asyncio.Event()

        def on_failure(batch: FailedBatch) -> None:
            told.append((batch, threading.current_thread()))
            failed.set()

        async with AsyncioProducer(nobody, on_failure=on_failure) as producer:
            with pytest.raises(KafkaError):
                await producer.send("views", b"one")
            await failed.wait()
        assert [(batch.topic, thread) for batch, thread in told] == [("views", threading.current_thread())]

    run(main())


def test_what_is_not_open_says_so() -> None:
    """Nothing connects before `async with`, and only an asynchronous producer fits."""

    async def main() -> None:
        with pytest.raises(KafkaError, match="async with"):
            await AsyncioProducer({"broker.list": "0:127.0.0.1:1"}).send("views", b"one")
        with pytest.raises(KafkaError, match="async with"):
            await AsyncioConsumer({"zk.connect": "127.0.0.1:1", "groupid": "readers"}).create_message_streams({})
        with pytest.raises(ConfigError, match=r"producer\.type"):
            AsyncioProducer({"broker.list": "0:127.0.0.1:1", "producer.type": "sync"})

    run(main())
