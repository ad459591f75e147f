"""Counts the messages in a topic's logs that were written with one schema."""

from __future__ import annotations

import os
from contextlib import ExitStack

from kafka2011.admin.partition_cursor import open_cursors
from kafka2011.admin.partitions import ends_of
from kafka2011.cli.partitions import find_partitions
from kafka2011.config import SimpleConsumerConfig


def count_events(topic: str, zk_connect: str, fingerprint: str) -> dict[str, int]:
    """Return how many events of a fingerprint each partition holds now, by broker-partition. Raises KafkaError.

    It reads the logs of brokers that are live, from their beginnings to their present ends.
    """
    from kafka2011.events.codec import HEADER_BYTES, MARK

    head = MARK + bytes.fromhex(fingerprint)
    config = SimpleConsumerConfig.from_sources(environ=os.environ)
    counts: dict[str, int] = {}
    with ExitStack() as stack:
        for cursor in open_cursors(stack, topic, find_partitions(topic, None, zk_connect, ()), config):
            name = f"{cursor.consumer.broker_id}-{cursor.partition}"
            counts[name] = 0
            cursor.go_to("earliest")
            _, end = ends_of(cursor.consumer, topic, cursor.partition)
            while cursor.offset < end:
                before = cursor.offset
                counts[name] += sum(message.payload[:HEADER_BYTES] == head for message in cursor.fetch())
                if cursor.offset == before:
                    break
    return counts
