"""DescribeLogDirs: what Java's kafka-log-dirs shows of the brokers that a gateway serves."""

from __future__ import annotations

import uuid
from types import SimpleNamespace
from typing import Any

import pytest

from kafka2011.errors import BrokerConnectionError
from kafka2011.gateway.protocol.errors import ErrorCode
from kafka2011.gateway.requests.context import Caller
from kafka2011.gateway.requests.log_dirs import describe_log_dirs
from tests.planted.patches import Defect, read_defects
from tests.support.noticing import assert_noticed
from zk.cluster import TopicPartition
from zk.gateways import PartitionList

SIZES = {("orders", 0): 100, ("orders", 1): 0, ("secrets", 0): 7}


class Log:
    """A log of some bytes, whose front was deleted."""

    def __init__(self, size: int) -> None:
        self.size = size

    def earliest(self) -> int:
        return 1000

    def latest(self) -> int:
        return 1000 + self.size


class Away(Log):
    """A log whose broker does not answer."""

    def latest(self) -> int:
        raise BrokerConnectionError("away")


def gateway(away: str = "") -> Any:
    """Serve the brokers 0 and 1; broker 2 is served by another gateway."""
    orders = tuple(TopicPartition("orders", broker_id, 0) for broker_id in range(3))
    secrets = (TopicPartition("secrets", 1, 0),)
    lists = {
        "orders": PartitionList("orders", uuid.uuid4(), orders, 0),
        "secrets": PartitionList("secrets", uuid.uuid4(), secrets, 0),
    }

    def find(topic: str, number: int) -> Any:
        log = Away(0) if topic == away else Log(SIZES[topic, number])
        return SimpleNamespace(log=log)

    return SimpleNamespace(
        served_brokers=[0, 1], catalogue=SimpleNamespace(lists=lists), partitions=SimpleNamespace(find=find)
    )


def caller(may_see: str = "") -> Caller:
    return Caller("reader", "here", False, (lambda _who, _what, topic: topic == may_see) if may_see else None)


def sizes(answer: dict[str, Any]) -> dict[str, dict[tuple[str, int], int]]:
    return {
        directory["log_dir"]: {
            (topic["name"], partition["partition_index"]): partition["partition_size"]
            for topic in directory["topics"]
            for partition in topic["partitions"]
        }
        for directory in answer["results"]
    }


def test_each_broker_is_a_directory_with_the_sizes_of_its_logs() -> None:
    assert sizes(describe_log_dirs(gateway(), caller(), {"topics": None})) == {
        "broker-0": {("orders", 0): 100},
        "broker-1": {("orders", 1): 0, ("secrets", 0): 7},
    }


@pytest.mark.parametrize(
    ("topics", "expected"),
    [
        ([{"topic": "orders", "partitions": [1, 2]}], {"broker-0": {}, "broker-1": {("orders", 1): 0}}),
        ([{"topic": "unknown", "partitions": [0]}], {"broker-0": {}, "broker-1": {}}),
    ],
)
def test_only_what_is_asked_for_is_told(topics: list[dict[str, Any]], expected: object) -> None:
    assert sizes(describe_log_dirs(gateway(), caller(), {"topics": topics})) == expected


def test_topics_that_a_caller_may_not_see_are_left_out() -> None:
    assert sizes(describe_log_dirs(gateway(), caller("secrets"), {"topics": None})) == {
        "broker-0": {},
        "broker-1": {("secrets", 0): 7},
    }


def test_a_broker_that_does_not_answer_has_an_error() -> None:
    directories = describe_log_dirs(gateway(away="secrets"), caller(), {"topics": None})["results"]
    errors = {directory["log_dir"]: directory.get("error_code", 0) for directory in directories}
    assert errors == {"broker-0": 0, "broker-1": ErrorCode.KAFKA_STORAGE_ERROR}


DEFECTS = [defect for defect in read_defects("gateway_server").values() if defect.shows.get("file") == "test_log_dirs"]


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_a_defect_is_noticed(defect: Defect, request: pytest.FixtureRequest) -> None:
    """The test that it names fails with it."""
    assert_noticed(defect, globals()[defect.shows["noticed_by"]], request)
