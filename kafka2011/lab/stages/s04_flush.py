"""Stage 4: only what was flushed may be read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka2011.lab import paper
from kafka2011.lab.bench import wait_until
from kafka2011.lab.errors import WrongError
from kafka2011.lab.requests import BARRIER, BARRIER_ANSWER, fetch, message, message_set, offsets, produce

if TYPE_CHECKING:
    from kafka2011.lab.bench import Bench, BrokerUnderTest

_END = -1
_FLUSH_MS = 600
_LATE_S = 3.0
_TRIES = 3


def grade(bench: Bench) -> None:
    """Try the stage. Raises WrongError."""
    with bench.broker(flush_messages=3) as broker:
        broker.start()
        by_count(bench, broker)
        stop(bench, broker)
    with bench.broker(flush_messages=100, segment_bytes=50) as broker:
        broker.start()
        by_roll(bench, broker)
    with bench.broker(flush_ms=_FLUSH_MS) as broker:
        broker.start()
        by_time(bench, broker)


def by_count(bench: Bench, broker: BrokerUnderTest) -> None:
    """Try the setting flush-messages."""
    one = message(b"one")
    with bench.check("With flush-messages=3, two messages cannot be read", paper.EXPOSED):
        broker.put(produce("a", one))
        broker.put(produce("a", one))
        broker.ask(fetch("a", 0))
    with bench.check("An offset that was appended and not flushed is error 1", paper.EXPOSED):
        broker.ask(fetch("a", 13))
        broker.ask(fetch("a", 26))
    with bench.check("The end in an offsets response is the end of what was flushed", paper.EXPOSED):
        broker.ask(offsets("a", _END))
    with bench.check("The third message makes all three readable", paper.FLUSH):
        broker.put(produce("a", one))
        broker.ask(fetch("a", 0))
        broker.ask(offsets("a", _END))
    with bench.check("After a flush, the count begins again", paper.FLUSH):
        broker.put(produce("a", one))
        broker.ask(fetch("a", 0))
        broker.ask(fetch("a", 39))
        broker.ask(fetch("a", 40))
        broker.ask(offsets("a", _END))
        broker.put(produce("a", one * 2))
        broker.ask(fetch("a", 39))
    with bench.check("The messages of a set are counted, not the sets", paper.FLUSH):
        broker.put(produce("b", one * 2))
        broker.ask(fetch("b", 0))
        broker.put(produce("b", one * 2))
        broker.ask(fetch("b", 0))
    with bench.check("Each log counts its own messages", paper.FLUSH):
        for topic in ("c", "d"):
            broker.put(produce(topic, one * 2))
        for topic in ("c", "d"):
            broker.ask(fetch(topic, 0))


def stop(bench: Bench, broker: BrokerUnderTest) -> None:
    """Try what is kept when the program is asked to end."""
    with bench.check("After SIGTERM, the program flushes and ends", paper.FLUSH):
        broker.stop()
    with bench.check("After a new start, everything can be read", paper.FLUSH):
        broker.start()
        broker.model.flush()
        broker.ask(fetch("b", 0))
        broker.ask(fetch("c", 0))
        broker.ask(offsets("d", _END))


def by_roll(bench: Bench, broker: BrokerUnderTest) -> None:
    """Try that a full segment is flushed before the next one begins."""
    pair = message_set(b"one", b"two")
    with bench.check("With flush-messages=100, four messages cannot be read", paper.EXPOSED):
        broker.put(produce("a", pair))
        broker.put(produce("a", pair))
        broker.ask(fetch("a", 0))
    with bench.check("When a new segment begins, the full one is flushed", paper.FLUSH):
        broker.put(produce("a", pair))
        broker.ask(fetch("a", 0))
    with bench.check("The new segment is not flushed yet", paper.EXPOSED):
        broker.ask(fetch("a", 52))
        broker.ask(fetch("a", 65))
        broker.ask(offsets("a", _END))


def by_time(bench: Bench, broker: BrokerUnderTest) -> None:
    """Try the setting flush-ms."""
    one = message(b"one")
    empty, readable = BARRIER_ANSWER, b"\0\0\0\x0f\0\0" + one
    with bench.check(f"With flush-ms={_FLUSH_MS}, a message cannot be read at once", paper.EXPOSED):
        for attempt in range(1, _TRIES + 1):
            topic = f"early{attempt}"
            try:
                broker.expect(produce(topic, one) + fetch(topic, 0), empty)
                break
            except WrongError:  # the machine may have stood still just then
                if attempt == _TRIES:
                    raise
    with bench.check(f"With flush-ms={_FLUSH_MS}, it can be read soon", paper.FLUSH):
        broker.expect_soon(fetch(topic, 0), readable, _LATE_S)
    with bench.check("The time runs from the first message that is not flushed", paper.FLUSH):
        many = b"".join(produce("busy", one) for _ in range(5))
        flushed = _read_while_busy(broker, many)
        if not flushed:
            what = (
                f"A log that got messages all the time could not be read for {_LATE_S:g} s, with flush-ms={_FLUSH_MS}."
            )
            raise WrongError(what, sent=fetch("busy", 0))
        broker.expect(BARRIER, BARRIER_ANSWER)


def _read_while_busy(broker: BrokerUnderTest, requests: bytes) -> bool:
    """Append again and again, and return whether anything became readable meanwhile."""
    with broker.connect() as connection:

        def is_readable() -> bool:
            connection.send(requests + fetch("busy", 0, 4))
            size = connection.read(4).data
            return len(connection.read(int.from_bytes(size, "big")).data) > 2  # error and bytes

        return wait_until(is_readable, _LATE_S)
