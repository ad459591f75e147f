"""Members of a group of a Kafka of today, some in a process: each polls in a thread of its own until told to end."""

from __future__ import annotations

import json
import sys
import threading
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer

if TYPE_CHECKING:
    from collections.abc import Mapping


def _poll(consumer: Consumer, topics: list[str], ended: threading.Event) -> None:
    consumer.subscribe(topics)
    while not ended.is_set():
        consumer.poll(0.1)
    consumer.close()


def _run(job: Mapping[str, Any]) -> None:
    ended = threading.Event()
    settings = {
        "bootstrap.servers": job["zk"],
        "group.id": job["group"],
        "auto.offset.reset": "earliest",
        **job["settings"],
    }
    consumers = [Consumer(settings) for _ in range(job["count"])]
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    if not sys.stdin.readline():
        return
    threads = [threading.Thread(target=_poll, args=(each, list(job["topics"]), ended)) for each in consumers]
    for thread in threads:
        thread.start()
    sys.stdin.read()
    ended.set()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    _run(json.loads(sys.argv[1]))
