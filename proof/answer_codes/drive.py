"""The driver for clients in Python: `drive.py librdkafka|kafka-python|aiokafka`; see clients.py for what it does."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

MOST_FAILURES = 20
SEND_S = 30
IN_PYTHON: dict[str, Any] = {
    "auto_offset_reset": "earliest",
    "enable_auto_commit": False,
    "heartbeat_interval_ms": 500,
    "session_timeout_ms": 6000,
}
"""The settings of both consumers in Python."""


def say(what: str, text: object) -> None:
    """Print what happened, in a line."""
    print(what, " ".join(str(text).split()), flush=True)  # noqa: T201


class Failures:
    """The errors that a client told its application."""

    def __init__(self) -> None:
        self._number = 0

    def tell(self, error: object) -> None:
        """Note one; end the process after many."""
        say("told", f"{type(error).__name__} {error}")
        self._number += 1
        if self._number > MOST_FAILURES:
            sys.exit(1)


def finish(send: Callable[[bytes], None], failures: Failures) -> int:
    """Send two messages, and return the exit status."""
    status = 1
    for value in (b"one", b"two"):
        try:
            send(value)
            say("sent", value.decode())
            status = 0
        except Exception as error:  # noqa: BLE001 - whatever a client raises is its answer
            failures.tell(error)
            status = 1
    return status


def librdkafka(servers: str, way: str, topic: str, group: str) -> int:
    """Drive confluent-kafka."""
    import confluent_kafka as ck

    failures = Failures()
    if way == "produce":
        producer = ck.Producer({"bootstrap.servers": servers, "enable.idempotence": True})

        def send(value: bytes) -> None:
            told: list[Any] = []
            producer.produce(topic, value, on_delivery=lambda error, _: told.append(error))
            producer.flush(SEND_S)
            if told != [None]:
                raise RuntimeError(str(told))

        return finish(send, failures)
    consumer = ck.Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "heartbeat.interval.ms": 500,
            "session.timeout.ms": 6000,
        }
    )
    consumer.subscribe([topic])
    while True:
        message = consumer.poll(0.2)
        if message is None:
            continue
        if (error := message.error()) is not None:
            failures.tell(error)
            continue
        value = (message.value() or b"").decode()
        say("read", value)
        if way == "commit":
            try:
                consumer.commit(message, asynchronous=False)
            except Exception as raised:  # noqa: BLE001
                failures.tell(raised)
        if value == "last":
            return 0


def kafka_python(servers: str, way: str, topic: str, group: str) -> int:
    """Drive kafka-python."""
    import kafka

    failures = Failures()
    if way == "produce":
        producer = kafka.KafkaProducer(bootstrap_servers=servers, enable_idempotence=True)
        return finish(lambda value: producer.send(topic, value).get(SEND_S), failures)
    consumer = kafka.KafkaConsumer(bootstrap_servers=servers, group_id=group, **IN_PYTHON)
    consumer.subscribe([topic])
    while True:
        try:
            for records in consumer.poll(200).values():
                for record in records:
                    say("read", record.value.decode())
                    if way == "commit":
                        consumer.commit()
                    if record.value == b"last":
                        return 0
        except Exception as error:  # noqa: BLE001
            failures.tell(error)


async def aiokafka(servers: str, way: str, topic: str, group: str) -> int:
    """Drive aiokafka."""
    import aiokafka as ak

    failures = Failures()
    if way == "produce":
        producer = ak.AIOKafkaProducer(bootstrap_servers=servers, enable_idempotence=True)
        await producer.start()
        status = 1
        for value in (b"one", b"two"):
            try:
                await asyncio.wait_for(producer.send_and_wait(topic, value), SEND_S)
                say("sent", value.decode())
                status = 0
            except Exception as error:  # noqa: BLE001
                failures.tell(error)
                status = 1
        return status
    consumer = ak.AIOKafkaConsumer(topic, bootstrap_servers=servers, group_id=group, **IN_PYTHON)
    await consumer.start()
    while True:
        try:
            record = await consumer.getone()
            say("read", (record.value or b"").decode())
            if way == "commit":
                await consumer.commit()
            if record.value == b"last":
                return 0
        except Exception as error:  # noqa: BLE001
            failures.tell(error)
            await asyncio.sleep(0.2)


def main() -> int:
    """Drive the client that the arguments name."""
    client, servers, way, topic, group = sys.argv[1:]
    if client == "librdkafka":
        return librdkafka(servers, way, topic, group)
    if client == "kafka-python":
        return kafka_python(servers, way, topic, group)
    return asyncio.run(aiokafka(servers, way, topic, group))


if __name__ == "__main__":
    import os

    status = main()
    os._exit(status)  # closing would take the client's own time limits
