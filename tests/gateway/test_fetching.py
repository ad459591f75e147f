"""A request for many partitions opens their indexes at once: one after the other, each waits for ZooKeeper."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import gevent
import pytest
from gevent.event import Event

from kafka2011.errors import BrokerConnectionError
from kafka2011.gateway.numbering.boundaries import Boundary
from kafka2011.gateway.protocol.errors import ErrorCode
from kafka2011.gateway.requests.context import Caller
from kafka2011.gateway.requests.fetching import OPENED_AT_ONCE, fetch

DEADLINE_S = 5.0
ID = b"0123456789abcdef"


class Slow:
    """A log whose index opens once enough others are being opened, too; then it fails."""

    opening = 0
    enough = Event()
    known_index = None
    where = "views-0-0"
    changes = Event()

    def index(self) -> Any:
        Slow.opening += 1
        if Slow.opening >= OPENED_AT_ONCE:
            Slow.enough.set()
        assert Slow.enough.wait(DEADLINE_S), "one after the other"
        raise BrokerConnectionError("away")


def fetched(topic_key: str, topic: object, version: int) -> Any:
    """Fetch partition 0 of a topic, of which a broker is away; return the answer for the topic."""
    partitions = SimpleNamespace(
        find=lambda name, _: (
            ErrorCode.NOT_LEADER_OR_FOLLOWER if name == "views" else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        )
    )
    catalogue = SimpleNamespace(topic_of={ID: "views"}.get)
    gateway: Any = SimpleNamespace(partitions=partitions, catalogue=catalogue, counts=Counter())
    asked = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1}]
    body = {"topics": [{topic_key: topic, "partitions": asked}], "max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1}
    (answer,) = fetch(gateway, Caller("anonymous", "here", False, None, version=version), body)["responses"]
    return answer


def test_clients_name_topics_by_ids_from_version_13_on() -> None:
    answer = fetched("topic_id", ID, 13)
    assert answer["topic_id"] == ID
    assert answer["partitions"][0]["error_code"] == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert fetched("topic", "views", 12)["topic"] == "views"


def test_an_id_of_a_deleted_topic_is_unknown() -> None:
    """Clients then ask for metadata again."""
    answer = fetched("topic_id", bytes(16), 13)
    assert answer["topic_id"] == bytes(16)
    assert answer["partitions"][0]["error_code"] == ErrorCode.UNKNOWN_TOPIC_ID


def test_indexes_are_opened_at_once() -> None:
    partitions = SimpleNamespace(find=lambda *_: SimpleNamespace(log=Slow(), want=lambda: None))
    gateway: Any = SimpleNamespace(partitions=partitions, counts=Counter())
    asked = [{"partition": number, "fetch_offset": 0, "partition_max_bytes": 1} for number in range(2 * OPENED_AT_ONCE)]
    body = {"topics": [{"topic": "views", "partitions": asked}], "max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1}
    with gevent.Timeout(DEADLINE_S):
        answer = fetch(gateway, Caller("anonymous", "here", False, None), body)
    errors = [partition["error_code"] for partition in answer["responses"][0]["partitions"]]
    assert errors == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * len(asked)


class Held:
    """A log whose messages have the numbers 100 to 109; `position` is where its first one lies."""

    fault = ""
    is_current = True
    changes = Event()
    known_index = True

    def __init__(self, position: int) -> None:
        end = Boundary(position + 50, 110)
        self._index = SimpleNamespace(log_start=lambda: Boundary(position, 100), end=end)

    def index(self) -> Any:
        return self._index

    def records(self, number: int, _max_bytes: int) -> bytes:
        return b"from %d" % number


@pytest.mark.parametrize(
    ("position", "offset", "error", "records"),
    [
        (0, 0, ErrorCode.NONE, b"from 100"),
        (0, 99, ErrorCode.NONE, b"from 100"),
        (0, 105, ErrorCode.NONE, b"from 105"),
        (0, -1, ErrorCode.OFFSET_OUT_OF_RANGE, b""),
        (0, 111, ErrorCode.OFFSET_OUT_OF_RANGE, b""),
        (40, 99, ErrorCode.OFFSET_OUT_OF_RANGE, b""),
        (40, 100, ErrorCode.NONE, b"from 100"),
    ],
)
def test_below_the_first_message_it_comes_unless_retention_has_removed_what_was_there(
    position: int, offset: int, error: ErrorCode, records: bytes
) -> None:
    partitions = SimpleNamespace(find=lambda *_: SimpleNamespace(log=Held(position), want=lambda: None))
    gateway: Any = SimpleNamespace(partitions=partitions, counts=Counter())
    asked = [{"partition": 0, "fetch_offset": offset, "partition_max_bytes": 100}]
    body = {"topics": [{"topic": "views", "partitions": asked}], "max_wait_ms": 0, "min_bytes": 1, "max_bytes": 100}
    with gevent.Timeout(DEADLINE_S):
        [answer] = fetch(gateway, Caller("anonymous", "here", False, None), body)["responses"][0]["partitions"]
    assert (answer.get("error_code", ErrorCode.NONE), answer["records"]) == (error, records)
    assert (answer["log_start_offset"], answer["high_watermark"]) == (100, 110)
