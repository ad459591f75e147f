"""Requests about topics: each is carried out once or refused, and what is refused changes nothing."""

from __future__ import annotations

import uuid
from types import SimpleNamespace
from typing import Any

import pytest

from kafka2011.gateway.protocol.errors import ErrorCode
from kafka2011.gateway.protocol.fields import Api
from kafka2011.gateway.requests.context import Body, Caller
from kafka2011.gateway.requests.dispatch import HANDLERS
from kafka2011.gateway.topic_changes import DONE, LONGEST_NAME, TopicChanges
from zk.cluster import TopicPartition
from zk.gateways import PartitionList

ID, OTHER_ID = uuid.uuid4(), uuid.uuid4()
CALLER = Caller("anybody", "127.0.0.1:1", False, None, version=4)


class Changes:
    """Notes what is to be changed."""

    def __init__(self) -> None:
        self.made: list[str] = []

    def create(self, topic: str, *_: object, **_more: object) -> tuple[ErrorCode, str]:
        self.made.append(topic)
        return DONE

    delete = grow = create


@pytest.fixture
def gateway() -> Any:
    known = PartitionList("views", ID, (TopicPartition("views", 0, 0),), 0)
    return SimpleNamespace(
        catalogue=SimpleNamespace(lists={"views": known}, brokers={}),
        partitions=SimpleNamespace(find=lambda *_: ErrorCode.NOT_LEADER_OR_FOLLOWER),
        topic_changes=Changes(),
    )


def told(gateway: Any, api: Api, body: Body) -> list[tuple[str | None, int]]:
    [answers] = HANDLERS[api](gateway, CALLER, {"validate_only": False, **body}).values()
    return [(answer["name"], answer["error_code"]) for answer in answers]


def new_topic(name: str) -> Body:
    return {"name": name, "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}


@pytest.mark.parametrize(
    ("api", "body"),
    [
        (Api.CREATE_TOPICS, {"topics": [new_topic(name) for name in ("twice", "once", "twice")]}),
        (Api.CREATE_PARTITIONS, {"topics": [{"name": name, "count": 2} for name in ("twice", "once", "twice")]}),
        (Api.DELETE_TOPICS, {"topic_names": ["twice", "once", "twice"]}),
    ],
)
def test_a_topic_that_is_named_twice_is_refused_once(gateway: Any, api: Api, body: Body) -> None:
    """As Kafka does, and nothing is done with it; the other topic is changed."""
    assert told(gateway, api, body) == [("twice", ErrorCode.INVALID_REQUEST), ("once", ErrorCode.NONE)]
    assert gateway.topic_changes.made == ["once"]


def test_a_topic_to_delete_may_be_named_by_its_id(gateway: Any) -> None:
    """By its name and its id is twice."""
    by_id, unknown = {"name": None, "topic_id": ID.bytes}, {"name": None, "topic_id": OTHER_ID.bytes}
    asked = {"topics": [by_id, {"name": "views", "topic_id": bytes(16)}, unknown]}
    answer = [("views", ErrorCode.INVALID_REQUEST), (None, ErrorCode.UNKNOWN_TOPIC_ID)]
    assert told(gateway, Api.DELETE_TOPICS, asked) == answer
    assert told(gateway, Api.DELETE_TOPICS, {"topics": [{"name": None, "topic_id": ID.bytes}]}) == [("views", 0)]
    assert gateway.topic_changes.made == ["views"]


def test_offsets_of_a_partition_that_is_named_twice_are_not_told(gateway: Any) -> None:
    asked = [{"partition_index": number, "timestamp": -1} for number in (0, 1, 0)]
    topics = HANDLERS[Api.LIST_OFFSETS](gateway, CALLER, {"topics": [{"name": "views", "partitions": asked}]})["topics"]
    twice, once = ErrorCode.INVALID_REQUEST, ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert [partition["error_code"] for partition in topics[0]["partitions"]] == [twice, once, twice]


def test_a_name_that_kafka_refuses_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers are asked for nothing."""
    monkeypatch.setattr(TopicChanges, "_do", lambda *_: DONE)
    catalogue: Any = SimpleNamespace(lists={}, brokers={0: None})
    config: Any = SimpleNamespace()
    changes = TopicChanges(config, catalogue)
    try:
        assert changes.create("x" * LONGEST_NAME, 1, only_check=True) == DONE
        assert changes.create("x" * (LONGEST_NAME + 1), 1)[0] is ErrorCode.INVALID_TOPIC_EXCEPTION
    finally:
        changes.stop()
