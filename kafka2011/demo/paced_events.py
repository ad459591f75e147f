"""Made-up activity at a steady pace, endlessly: `python -m kafka2011.demo.paced_events [TOPIC]`, see `--help`.

Finds the brokers through KAFKA2011_ZK_CONNECT, and creates the topic on all live ones. Sends are confirmed and keyed by
member; a line every five seconds says how many events were confirmed and given up, and how many sets were sent again.
SIGTERM and Ctrl-C end it, once everything sent is confirmed.
"""

from __future__ import annotations

import argparse
import itertools
import json
import logging
import os
import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from kafka2011.admin.topics import create_topic
from kafka2011.config import ProducerConfig
from kafka2011.demo.activity import activity_lines
from kafka2011.errors import KafkaError
from kafka2011.producer.producer import Producer
from zk.clock import SYSTEM_CLOCK
from zk.connecting import connect

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafka2011.producer.batch import FailedBatch
    from zk.clock import Clock

logger = logging.getLogger(__name__)

EVENTS_A_DAY = 100_000
REPORT_INTERVAL_S = 5.0
RETRY_INTERVAL_S = 1.0


def main(arguments: list[str] | None = None) -> None:
    """Feed a topic until SIGTERM or SIGINT."""
    parser = argparse.ArgumentParser(prog="kafka2011.demo.paced_events", description=__doc__.splitlines()[0])
    parser.add_argument("topic", nargs="?", default="activity")
    parser.add_argument("--per-second", type=_pace, default=10.0, help="events per second (default: %(default)g)")
    parser.add_argument("--heartbeat", type=Path, help="a file to touch while events are confirmed")
    given = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("zk.kazoo").setLevel(logging.ERROR)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    config = ProducerConfig.from_sources(
        environ=os.environ, overrides=("producer.type=async", "confirm=true", "queue.time=100")
    )
    # A topic that nobody knows begins on whichever brokers its first events go to.
    with connect(config.zk_connect) as client:
        create_topic(client, given.topic)
    with Producer(config, on_failure=_log_failure) as producer:
        feed(producer, given.topic, given.per_second, stop, heartbeat=given.heartbeat)
        logger.info("stopping: %s", _counts(producer))
    logger.info("stopped: %s", _counts(producer))


def feed(
    producer: Producer,
    topic: str,
    per_second: float,
    stop: threading.Event,
    clock: Clock = SYSTEM_CLOCK,
    heartbeat: Path | None = None,
) -> None:
    """Send an event every `1 / per_second` seconds until `stop` is set; events missed in a stall are not made up.

    With every report, the file `heartbeat` is touched if more was confirmed since the last one.
    """
    gap_s = 1 / per_second
    confirmed = producer.counts.messages_sent
    next_s = next_report_s = clock.monotonic_s()
    for event in _events():
        now_s = clock.monotonic_s()
        if now_s >= next_report_s:
            logger.info("%s", _counts(producer))
            next_report_s = now_s + REPORT_INTERVAL_S
            if heartbeat is not None and producer.counts.messages_sent > confirmed:
                confirmed = producer.counts.messages_sent
                heartbeat.touch()
        next_s = max(next_s + gap_s, now_s)
        if stop.wait(next_s - now_s):
            return
        while not _send(producer, topic, event):
            if stop.wait(RETRY_INTERVAL_S):
                return


def _send(producer: Producer, topic: str, event: bytes) -> bool:
    """Queue an event; False when that is not possible now, as while there is no live broker."""
    try:
        producer.send(topic, event, key=json.loads(event)["member"])
    except KafkaError as error:
        logger.warning("cannot send to %s, trying again in %g s: %s", topic, RETRY_INTERVAL_S, error)
        return False
    return True


def _events() -> Iterator[bytes]:
    """Yield day after day of activity, each day a different one."""
    return itertools.chain.from_iterable(activity_lines(EVENTS_A_DAY, seed) for seed in itertools.count(2011))


def _log_failure(failed: FailedBatch) -> None:
    logger.error("events for %s were given up: %s", failed.topic, failed.error)


def _counts(producer: Producer) -> str:
    counts = producer.counts
    sent, failed, resent = counts.messages_sent, counts.messages_failed, counts.sets_resent
    return f"{sent} events confirmed, {failed} given up, {resent} sets sent again"


def _pace(text: str) -> float:
    number = float(text)
    if not 0 < number <= 100_000:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 100000")
    return number


if __name__ == "__main__":
    main()
