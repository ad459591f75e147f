"""A monkey-patched application: `under_gevent.py ZK TOPIC MESSAGES` reads so many messages and leaves the group.

It never pauses between messages, for longer than its session: the library must see to it that its own greenlets run.
"""

from gevent import monkey

monkey.patch_all()

import sys  # noqa: E402
import time  # noqa: E402

import gevent  # noqa: E402

from kafka2011.consumer.connector import ConsumerConnector  # noqa: E402

PAUSE_S = 0.02
turns = 0


def count_turns() -> None:
    """Run beside the consumer."""
    global turns  # noqa: PLW0603
    while True:
        turns += 1
        gevent.sleep(0.001)


def compute(seconds: float) -> None:
    """Use the processor, and let nobody else have it."""
    ends = time.perf_counter() + seconds
    while time.perf_counter() < ends:
        pass


def main(zk_connect: str, topic: str, messages: str) -> None:
    """Read with one greenlet, shut down from another."""
    gevent.spawn(count_turns)
    config = {
        "zk.connect": zk_connect,
        "groupid": "gevent",
        "zk.sessiontimeout.ms": 2000,
        "zk.connectiontimeout.ms": 20000,
        "autocommit.interval.ms": 200,
        "fetcher.backoff.ms": 20,
    }
    seen = []
    with ConsumerConnector(config) as consumer:
        [stream] = consumer.create_message_streams({topic: 1})[topic]
        before = 0
        for message in stream:
            before = before or turns
            seen.append(message.offset)
            compute(PAUSE_S)
            if len(seen) == int(messages):
                break
        assert turns > before, "nothing else ran meanwhile"
        counts = consumer.counts()
        waiting = gevent.spawn(lambda: list(stream))
        gevent.sleep(0.1)
    assert waiting.get(timeout=20) == []
    sys.stdout.write(f"{len(seen)} {len(set(seen))} {counts.get('sessions_lost', 0)} {counts['commits'] > 1}\n")


main(*sys.argv[1:])
