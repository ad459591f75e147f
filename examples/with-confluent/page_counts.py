"""Counts the views of each page: a small application that uses confluent-kafka, with a consumer group.

python page_counts.py BOOTSTRAP_SERVERS TOPIC
"""

from __future__ import annotations

import sys
from collections import Counter
from typing import Any

from confluent_kafka import Consumer, KafkaException

GROUP = "page-counts"


class PageCounter:
    """One member of the group. `settings` are added to confluent-kafka's own; a context manager."""

    def __init__(self, bootstrap_servers: str, topic: str, **settings: object) -> None:
        self.counts: Counter[str] = Counter()
        self.partitions: set[int] = set()
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": GROUP,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                **settings,
            }
        )
        self._consumer.subscribe([topic], on_assign=self._assigned, on_revoke=self._revoked)

    def poll(self, timeout_s: float = 1.0) -> None:
        """Count the views that arrive, and commit. Raises KafkaException."""
        messages = self._consumer.consume(500, timeout_s)
        for message in messages:
            if message.error() is not None:
                raise KafkaException(message.error())
            self.counts[message.key().decode()] += 1
        if messages:
            self._consumer.commit(asynchronous=False)

    def _assigned(self, _: Consumer, partitions: list[Any]) -> None:
        self.partitions = {where.partition for where in partitions}

    def _revoked(self, _: Consumer, __: list[Any]) -> None:
        self.partitions = set()

    def __enter__(self) -> PageCounter:
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()


def main() -> None:
    """Print the counts whenever they have changed."""
    shown: Counter[str] = Counter()
    with PageCounter(*sys.argv[1:]) as counter:
        while True:
            counter.poll()
            if counter.counts != shown:
                shown = counter.counts.copy()
                print(*(f"{page}: {count}" for page, count in shown.most_common()), sep=", ")


if __name__ == "__main__":
    main()
