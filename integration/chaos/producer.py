"""One producer, in a process of its own: `python -m integration.chaos.producer FILE STYLE RATE TOPICS SETTINGS`.

    keyed    confirms; every message has a key, and now and then it names its partition instead
    unkeyed  confirms; no keys
    plain    confirms nothing
    today    a client of today sends through the gateways that SETTINGS name; every message has a key

What is sent is written down before, and what became of it as soon as that is known. TOPICS are lines of a file, read
again and again, so that a topic may be born. SIGTERM ends it once all that was sent is done.
"""

from __future__ import annotations

import json
import logging
import os
import random
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from integration.chaos.defects import plant
from integration.chaos.gateway import TodayProducer
from integration.chaos.records import NO_KEY, TODAY, MessageId, outcome_line, payload_of, sent_line, told_line
from kafka2011 import Producer
from kafka2011.errors import KafkaError
from zk.clock import SYSTEM_CLOCK
from zk.cluster import TopicPartition

if TYPE_CHECKING:
    from concurrent.futures import Future

KEYS = 40
NAMED_EVERY = 10

logger = logging.getLogger("producer")

now_s = SYSTEM_CLOCK.monotonic_s


def connect(style: str, settings: str) -> Producer | TodayProducer:
    """Make a producer, once ZooKeeper answers."""
    if style == TODAY:
        return TodayProducer(json.loads(settings)["bootstrap.servers"])
    while True:
        try:
            return Producer(json.loads(settings))
        except KafkaError as error:
            logger.info("not connected: %s", error)
            time.sleep(0.5)


def main(path: str, style: str, rate: str, topics_path: str, settings: str) -> None:
    """Send until SIGTERM."""
    plant("producer")
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("kazoo").setLevel(logging.WARNING)
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    name = Path(path).stem
    draw = random.Random(name)
    with connect(style, settings) as producer:
        number = 0
        next_s = now_s()
        while not ended.is_set():
            topic = draw.choice(Path(topics_path).read_text().split())
            key = f"k{draw.randrange(KEYS)}" if style in {"keyed", TODAY} else NO_KEY
            named = None
            if style == "keyed" and number % NAMED_EVERY == 0:
                key, named = NO_KEY, TopicPartition(topic, draw.randrange(3), 0)
            payload = payload_of(MessageId(name, number), key)
            os.write(file, sent_line(now_s(), number, topic, key, named.znode_name if named else ""))
            try:
                future = producer.send(topic, payload, key=None if key == NO_KEY else key, partition=named)
            except KafkaError as error:
                logger.info("%d: %s", number, error)
                os.write(file, outcome_line(now_s(), number, "failed", 0))
            else:

                def done(future: Future[Any], number: int = number) -> None:
                    error = future.exception()
                    if not error and style == TODAY:
                        os.write(file, told_line(now_s(), number, future.result().partition, future.result().offset))
                    outcome = "failed" if error else "confirmed" if future.result().confirmed else "written"
                    resends = 0 if error else future.result().resends
                    os.write(file, outcome_line(now_s(), number, outcome, resends))

                future.add_done_callback(done)
            number += 1
            next_s = max(next_s + 1 / float(rate), now_s() - 0.5)
            time.sleep(max(0.0, next_s - now_s()))
    os.write(file, f"X {now_s():.6f} {json.dumps(dict(producer.counts()))}\n".encode())


if __name__ == "__main__":
    main(*sys.argv[1:])
