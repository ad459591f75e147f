"""Stage 3: logs are segment files, and an offsets request finds where they begin."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from kafka2011.lab import paper
from kafka2011.lab.recordings import request, response, segment
from kafka2011.lab.requests import BARRIER, fetch, message_set, offsets, produce

if TYPE_CHECKING:
    from kafka2011.lab.bench import Bench, BrokerUnderTest

_RECORDED = {
    "An offsets request for time -1 returns the end": "offsets_latest_max1",
    "An offsets request for time -1 returns the end, then the beginning": "offsets_latest_max10",
    "An offsets request for time -2 returns the beginning": "offsets_earliest_max1",
    "An offsets request for a time before all segments returns no offsets": "offsets_time_1_before_everything",
    "An offsets request for an unknown topic and time -1 returns 0": "offsets_unknown_topic_latest",
}
_END, _BEGINNING = -1, -2
_HOUR_S = 3600


def grade(bench: Bench) -> None:
    """Try the stage. Raises WrongError."""
    with bench.broker(segment_bytes=50) as broker:
        broker.start()
        recorded(bench, broker)
        with bench.check("For an unknown topic and a time in ms, there are no offsets", paper.SORTED_LIST):
            broker.ask(offsets("nosuchtopic", 1_307_836_800_000))
        roll(bench, broker)
        names(bench, broker)
        restart(bench, broker)
    with bench.broker(segment_bytes=50) as broker:
        planted(bench, broker)


def recorded(bench: Bench, broker: BrokerUnderTest) -> None:
    """Try what a client of 0.7.2 has sent."""
    with bench.check("The segment file has the bytes of Kafka 0.7.2", paper.SEGMENTS):
        broker.put(request("produce_nocompression_2msgs"))
        broker.expect_files("cap-0", {0: segment()})
    for title, name in _RECORDED.items():
        with bench.check(title, paper.SORTED_LIST):
            broker.expect(request(name), response(name))
    with bench.check("An offsets request for an unknown partition closes the connection", paper.SORTED_LIST):
        broker.expect(request("offsets_wrong_partition") + BARRIER, None)


def roll(bench: Bench, broker: BrokerUnderTest) -> None:
    """Try when a new segment begins: each set has 26 bytes, a segment may exceed 50."""
    pair = message_set(b"one", b"two")
    with bench.check("With segment-bytes=50, a segment of 26 bytes gets the next set", paper.SEGMENTS):
        broker.put(produce("a", pair))
        broker.put(produce("a", pair))
        broker.expect_files("a-0", {0: pair * 2})
    with bench.check("A segment of 52 bytes is full: the next set begins a new file", paper.SEGMENTS):
        broker.put(produce("a", pair))
        broker.expect_files("a-0", {0: pair * 2, 52: pair})
    with bench.check("A segment of exactly 50 bytes is not full", paper.SEGMENTS):
        broker.put(produce("b", message_set(b"x" * 40)))
        broker.put(produce("b", pair))
        broker.expect_files("b-0", {0: message_set(b"x" * 40) + pair})
    with bench.check("A set is never split", paper.SEGMENTS):
        broker.put(produce("c", pair * 4))
        broker.put(produce("c", pair))
        broker.expect_files("c-0", {0: pair * 4, 104: pair})
    with bench.check("A fetch ends at the end of its segment", paper.SORTED_LIST):
        broker.ask(fetch("a", 0))
        broker.ask(fetch("a", 26))
    with bench.check("A fetch from the start of the second segment reads the second segment", paper.SORTED_LIST):
        broker.ask(fetch("a", 52))
        broker.ask(fetch("a", 65))
        broker.ask(fetch("a", 78))
        broker.ask(fetch("a", 79))
    with bench.check("An offsets request returns the start of each segment, newest first", paper.SORTED_LIST):
        for _ in range(4):
            broker.put(produce("a", pair))
        broker.ask(offsets("a", _END))
    with bench.check("An offsets request returns no more offsets than it asks for", paper.SORTED_LIST):
        for count in (0, 1, 2):
            broker.ask(offsets("a", _END, count))
        broker.ask(offsets("a", _BEGINNING))


def names(bench: Bench, broker: BrokerUnderTest) -> None:
    """Try topics that lead out of the data directory."""
    with bench.check("A topic that is a path closes the connection, and nothing is written", paper.SEGMENTS):
        for topic in ("../out", "a/b"):
            broker.expect(produce(topic, message_set(b"one")) + BARRIER, None)
            broker.expect_nothing_new(topic)


def restart(bench: Bench, broker: BrokerUnderTest) -> None:
    """Try that a log goes on after a restart."""
    pair = message_set(b"one", b"two")
    with bench.check("After kill -9 and a new start, everything is still there", paper.SEGMENTS):
        broker.kill()
        broker.start()
        broker.ask(fetch("a", 0))
        broker.ask(fetch("a", 130))
        broker.ask(offsets("a", _END))
    with bench.check("After a new start, the log goes on at its end", paper.APPEND):
        broker.put(produce("a", pair))
        broker.put(produce("b", pair))
        broker.ask(offsets("a", _END))
        broker.ask(fetch("a", 156))
        broker.expect_files("b-0", {0: message_set(b"x" * 40) + pair, 76: pair})


def planted(bench: Bench, broker: BrokerUnderTest) -> None:
    """Try a data directory that another program has written."""
    one, two, three = (message_set(payload * 10) for payload in (b"a", b"b", b"c"))
    size = len(one)
    with bench.check("A data directory of another broker is read", paper.SORTED_LIST):
        broker.plant("my-topic-0", {0: one, size: two, size * 2: three})
        broker.plant("cap-0", {0: segment()})
        broker.plant("late-0", {1000: one, 1000 + size: two})
        now_s = time.time()
        for age_hours, start in ((3, 0), (2, size), (1, size * 2)):
            path = broker.data / "my-topic-0" / f"{start:020}.kafka"
            os.utime(path, (now_s - age_hours * _HOUR_S,) * 2)
        broker.start()
        broker.expect(request("fetch_nocompression_2msgs"), response("fetch_nocompression_2msgs"))
        broker.ask(fetch("my-topic", size + 3))
    with bench.check("A log may begin at a later offset than 0", paper.SORTED_LIST):
        for offset in (0, 999, 1000, 1000 + size, 1000 + size * 2, 1001 + size * 2):
            broker.ask(fetch("late", offset))
        broker.ask(offsets("late", _BEGINNING))
        broker.ask(offsets("late", _END))
    with bench.check("For a time, only segments that were last written by then are returned", paper.SORTED_LIST):
        before_ms = [int((now_s - hours * _HOUR_S) * 1000) for hours in (3.5, 2.5, 1.5)]
        ends = [[], [0], [size, 0]]
        for time_ms, found in zip(before_ms, ends, strict=True):
            body = len(found).to_bytes(4, "big") + b"".join(offset.to_bytes(8, "big") for offset in found)
            answer = (len(body) + 2).to_bytes(4, "big") + b"\0\0" + body
            broker.expect(offsets("my-topic", time_ms), answer)
    with bench.check("The end of the log counts as written now", paper.SORTED_LIST):
        half_hour_ago, soon = int((now_s - _HOUR_S / 2) * 1000), int((now_s + _HOUR_S) * 1000)
        starts = [size * 2, size, 0]
        for time_ms, found in ((half_hour_ago, starts), (soon, [size * 3, *starts])):
            body = len(found).to_bytes(4, "big") + b"".join(offset.to_bytes(8, "big") for offset in found)
            answer = (len(body) + 2).to_bytes(4, "big") + b"\0\0" + body
            broker.expect(offsets("my-topic", time_ms), answer)
