"""Stage 2: sets are appended to logs, and fetched from any offset."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from kafka2011.lab import paper
from kafka2011.lab.recordings import request, response
from kafka2011.lab.requests import (
    BARRIER,
    BARRIER_ANSWER,
    fetch,
    message,
    message_set,
    multifetch,
    multiproduce,
    produce,
)

if TYPE_CHECKING:
    from kafka2011.lab.bench import Bench, BrokerUnderTest

_RECORDED = {
    "A fetch from 0 returns the set as it was produced": "fetch_nocompression_2msgs",
    "A fetch at the end of the log returns an empty set": "fetch_at_log_end",
    "A fetch beyond the end is answered with error 1": "fetch_offset_out_of_range",
    "A fetch of 24 bytes returns 24 bytes, though a message is cut": "fetch_truncated_maxsize_24",
    "A fetch of 10 bytes returns 10 bytes": "fetch_maxsize_too_small_10",
    "A fetch of an unknown topic returns an empty set": "fetch_unknown_topic",
    "A fetch of an unknown partition is answered with error 3": "fetch_wrong_partition",
    "A GZIP message is returned as it was produced": "fetch_gzip_2msgs",
    "A Snappy message is returned as it was produced": "fetch_snappy_2msgs",
    "A multifetch returns a part for each topic": "multifetch_2topics_nocompression_and_gzip",
    "In a multifetch, each part has its own error": "multifetch_ok_and_out_of_range_and_unknown_topic",
}
_PRODUCED = ("produce_nocompression_2msgs", "produce_gzip_2msgs", "produce_snappy_2msgs")


def grade(bench: Bench) -> None:
    """Try the stage. Raises WrongError."""
    with bench.broker() as broker:
        broker.start()
        recorded(bench, broker)
        append(bench, broker)
        refuse(bench, broker)
    with bench.broker(partitions=3) as broker:
        broker.start()
        partitions(bench, broker)
        side_by_side(bench, broker)


def recorded(bench: Bench, broker: BrokerUnderTest) -> None:
    """Try what a client of 0.7.2 has sent; wanted is what a broker of 0.7.2 has answered."""
    with bench.check("Sets of a client of Kafka 0.7.2 are appended", paper.APPEND):
        for name in _PRODUCED:
            broker.put(request(name))
    for title, name in _RECORDED.items():
        with bench.check(title, paper.PULL):
            broker.expect(request(name), response(name))


def append(bench: Bench, broker: BrokerUnderTest) -> None:
    """Try several appends, and fetches from many offsets."""
    first, second = message_set(b"one", b"two"), message_set(b"three")
    with bench.check("A second set is appended after the first", paper.APPEND):
        broker.put(produce("a", first))
        broker.put(produce("a", second))
        broker.ask(fetch("a", 0))
    with bench.check("The second message begins at the length of the first", paper.NEXT_ID):
        broker.ask(fetch("a", 13))
    with bench.check("A fetch from the middle of a message returns the bytes from there", paper.OFFSET):
        broker.ask(fetch("a", 3))
    with bench.check("A fetch of 0 bytes returns an empty set", paper.PULL):
        broker.ask(fetch("a", 0, 0))
    with bench.check("A fetch from a negative offset is answered with error 1", paper.OFFSET):
        broker.ask(fetch("a", -1))
    with bench.check("A fetch one byte beyond the end is answered with error 1", paper.OFFSET):
        broker.ask(fetch("a", len(first + second) + 1))
    with bench.check("Topics have logs of their own", paper.APPEND):
        broker.put(produce("b", second))
        broker.ask(multifetch(("a", 0, 0), ("b", 0, 0), ("b", 0, 13)))
    with bench.check("A multiproduce appends to each of its topics", paper.SET):
        broker.put(multiproduce(("c", first), ("d", second), ("c", second)))
        broker.ask(multifetch(("c", 0, 0), ("d", 0, 0)))
    with bench.check("An empty set leaves the log as it is", paper.APPEND):
        broker.put(produce("a", b""))
        broker.ask(fetch("a", 0))
    with bench.check("A message with magic 0 is stored as it came", paper.APPEND):
        broker.put(produce("e", message(b"old", magic=0) + message(b"new")))
        broker.ask(fetch("e", 0))
    with bench.check("Responses come in the order of the requests on a connection", paper.PULL):
        broker.ask(fetch("a", 13) + produce("a", second) + fetch("b", 0) + BARRIER + fetch("b", 15))


def refuse(bench: Bench, broker: BrokerUnderTest) -> None:
    """Try that nothing of a bad set is appended."""
    good = message(b"one")
    with bench.check("Nothing is appended of a set with one wrong CRC", paper.NETWORK_CRC):
        broker.put(produce("f", good))
        broker.ask(produce("f", good + good[:-1] + b"x") + BARRIER)
        broker.ask(fetch("f", 0))
    with bench.check("Of a set that ends in the middle of a message, the whole messages are appended", paper.APPEND):
        broker.put(produce("f", message_set(b"two", b"three", b"four")[:-2]))
        broker.ask(fetch("f", 0))
    with bench.check("A produce request to an unknown partition closes the connection", paper.APPEND):
        broker.ask(produce("f", good, partition=7) + BARRIER)
    with bench.check("In a multiproduce, parts before a bad one are appended", paper.SET):
        broker.ask(multiproduce(("g", good), ("h", good[:-1] + b"x"), ("i", good)) + BARRIER)
        broker.ask(multifetch(("g", 0, 0), ("h", 0, 0), ("i", 0, 0)))


def partitions(bench: Bench, broker: BrokerUnderTest) -> None:
    """Try several partitions of a topic."""
    with bench.check("With partitions=3, each partition has a log of its own", paper.APPEND):
        for partition in range(3):
            broker.put(produce("p", message(b"%d" % partition), partition))
        broker.ask(multifetch(("p", 0, 0), ("p", 1, 0), ("p", 2, 0)))
    with bench.check("With partitions=3, partition 3 is unknown", paper.APPEND):
        broker.ask(fetch("p", 0, partition=3))
        broker.ask(fetch("p", 0, partition=-2))
    with bench.check("A produce request to partition -1 is appended to one of the partitions", paper.APPEND):
        sent = multifetch(*(("any", p, 0) for p in range(3)))
        one, none = b"\0\0\0\x0f\0\0" + message(b"one"), b"\0\0\0\x02\0\0"
        parts = [b"".join(one if p == chosen else none for p in range(3)) for chosen in range(3)]
        broker.expect(produce("any", message(b"one"), -1) + BARRIER, BARRIER_ANSWER)
        broker.expect_one_of(sent, [b"\0\0\0\x21\0\0" + answer for answer in parts])


def side_by_side(bench: Bench, broker: BrokerUnderTest) -> None:
    """Send random requests to the program and to the model."""
    with bench.check("Random requests get the answers of kafka2011's own broker", paper.PULL):
        choice = random.Random(2011)  # noqa: S311 - the same for each student
        for _ in range(60):
            topic, partition = choice.choice(["r", "s"]), choice.randrange(3)
            if choice.random() < 0.4:
                payloads = [choice.randbytes(choice.randrange(40)) for _ in range(choice.randrange(1, 4))]
                broker.put(produce(topic, message_set(*payloads), partition))
            else:
                broker.ask(fetch(topic, choice.randrange(120), choice.randrange(200), partition))
