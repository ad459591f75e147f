"""Who may do what: each request of a principal is allowed or refused as the brokers' file says."""

from __future__ import annotations

import uuid
from collections import Counter
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from kafka2011.broker.security.access import Access
from kafka2011.gateway.protocol.errors import ErrorCode
from kafka2011.gateway.protocol.fields import Api
from kafka2011.gateway.requests.context import Body, Caller
from kafka2011.gateway.requests.dispatch import HANDLERS
from kafka2011.gateway.requests.producing import begin_produce
from tests.planted.patches import Defect, read_defects
from tests.support.noticing import assert_noticed
from zk.clock import SYSTEM_CLOCK
from zk.cluster import TopicPartition
from zk.errors import ZkError
from zk.gateways import GatewayAddress, PartitionList

if TYPE_CHECKING:
    from pathlib import Path

ALLOW = """
[produce]
"orders" = ["writer"]
[consume]
"orders" = ["reader"]
[groups]
"report.*" = ["reader"]
[topics.create]
"orders" = ["creator"]
[topics.grow]
"orders" = ["grower"]
[topics.delete]
"orders" = ["deleter"]
"""
REFUSED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
PASSING = {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR}
GONE_ON = ErrorCode.NOT_LEADER_OR_FOLLOWER
"""What those are told who may, since there is no broker."""

CONSUME = (Api.FETCH, Api.LIST_OFFSETS, Api.OFFSET_FOR_LEADER_EPOCH)
PRODUCE = (Api.PRODUCE, Api.DESCRIBE_CONFIGS)
ALLOWED = {
    "writer": (*PRODUCE, Api.METADATA),
    "reader": (*CONSUME, Api.METADATA),
    "creator": (Api.CREATE_TOPICS,),
    "grower": (Api.CREATE_PARTITIONS,),
    "deleter": (Api.DELETE_TOPICS,),
    "anonymous": (),
}
REQUESTS: dict[Api, Any] = {
    Api.PRODUCE: lambda topic: {
        "acks": -1,
        "topic_data": [{"name": topic, "partition_data": [{"index": 0, "records": b""}]}],
    },
    Api.FETCH: lambda topic: {
        "max_wait_ms": 0,
        "min_bytes": 1,
        "topics": [
            {"topic": topic, "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1}]},
        ],
    },
    Api.LIST_OFFSETS: lambda topic: {
        "topics": [{"name": topic, "partitions": [{"partition_index": 0, "timestamp": -1}]}]
    },
    Api.OFFSET_FOR_LEADER_EPOCH: lambda topic: {"topics": [{"topic": topic, "partitions": [{"partition": 0}]}]},
    Api.METADATA: lambda topic: {"topics": [{"name": topic}]},
    Api.CREATE_TOPICS: lambda topic: {
        "topics": [
            {"name": topic, "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []},
        ],
        "validate_only": False,
    },
    Api.DELETE_TOPICS: lambda topic: {"topic_names": [topic]},
    Api.CREATE_PARTITIONS: lambda topic: {"topics": [{"name": topic, "count": 2}], "validate_only": False},
    Api.DESCRIBE_CONFIGS: lambda topic: {"resources": [{"resource_type": 2, "resource_name": topic}]},
}


WANTED = [{"name": "orders", "partitions": [{"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}]}]
MEMBER = {"generation_id": 1, "member_id": "m", "generation_id_or_member_epoch": 1}
GROUP_REQUESTS: dict[Api, Any] = {
    Api.FIND_COORDINATOR: lambda group: {"key": group},
    Api.JOIN_GROUP: lambda group: {"group_id": group},
    Api.SYNC_GROUP: lambda group: {"group_id": group},
    Api.HEARTBEAT: lambda group: {"group_id": group},
    Api.LEAVE_GROUP: lambda group: {"group_id": group},
    Api.OFFSET_COMMIT: lambda group: {"group_id": group, "topics": WANTED, **MEMBER},
    Api.OFFSET_FETCH: lambda group: {"group_id": group, "topics": None},
    Api.OFFSET_DELETE: lambda group: {"group_id": group, "topics": WANTED},
    Api.DESCRIBE_GROUPS: lambda group: {"groups": [group]},
    Api.DELETE_GROUPS: lambda group: {"groups_names": [group]},
}


class Away:
    """A part of the gateway that needs ZooKeeper, which is away."""

    def holds(self, _group: str) -> bool:
        return False

    def __getattr__(self, _name: str) -> Any:
        def fail(*_: object) -> None:
            raise ZkError("away")

        return fail


class Changes:
    """Changes no topic."""

    def create(self, *_: object, **_more: object) -> tuple[ErrorCode, str]:
        return GONE_ON, ""

    delete = grow = create


@pytest.fixture
def gateway() -> Any:
    lists = {
        topic: PartitionList(topic, uuid.uuid4(), (TopicPartition(topic, 0, 0),), 0) for topic in ("orders", "secrets")
    }
    return SimpleNamespace(
        address=GatewayAddress(0, "here", 9092),
        address_for=lambda *_: ("here", 9092),
        catalogue=SimpleNamespace(lists=lists, brokers={}, settings={}, cluster_id="c", is_live=lambda _: False),
        claims=SimpleNamespace(leader=lambda _: None),
        config=SimpleNamespace(auto_create_topics=True, max_message_size=1),
        counts=Counter(),
        partitions=SimpleNamespace(find=lambda *_: GONE_ON),
        topic_changes=Changes(),
        group_claims=Away(),
        group_directory=Away(),
        group_offsets=Away(),
    )


@pytest.fixture
def access(tmp_path: Path) -> Access:
    path = tmp_path / "allow.toml"
    path.write_text(ALLOW)
    return Access(path, SYSTEM_CLOCK)


def errors_in(answer: Body | list[Any]) -> set[int]:
    """Return all error codes of an answer, wherever they are."""
    found = set()
    for value in answer.values() if isinstance(answer, dict) else answer:
        if isinstance(value, dict | list):
            found |= errors_in(value)
    return found | ({answer["error_code"]} if isinstance(answer, dict) and "error_code" in answer else set())


def told(gateway: Any, access: Access, principal: str, api: Api, topic: str) -> set[int]:
    caller = Caller(principal, "127.0.0.1:1", True, access.may, version=4)
    body = (REQUESTS | GROUP_REQUESTS)[api](topic)
    if api is not Api.PRODUCE:
        return errors_in(HANDLERS[api](gateway, caller, body))
    answer = begin_produce(gateway, caller, body)(lambda: None)
    assert answer is not None
    return errors_in(answer)


@pytest.mark.parametrize("topic", ["orders", "secrets"])
@pytest.mark.parametrize("principal", ALLOWED)
@pytest.mark.parametrize("api", REQUESTS)
def test_a_request_is_allowed_or_refused_as_the_file_says(
    gateway: Any, access: Access, api: Api, principal: str, topic: str
) -> None:
    is_allowed = topic == "orders" and api in ALLOWED[principal]
    assert (REFUSED not in told(gateway, access, principal, api, topic)) is is_allowed


@pytest.mark.parametrize("group", ["reports", "my-report"])
@pytest.mark.parametrize("principal", ["reader", "writer", "anonymous"])
@pytest.mark.parametrize("api", GROUP_REQUESTS)
def test_a_group_is_used_by_those_whom_the_file_allows_it(
    gateway: Any, access: Access, api: Api, principal: str, group: str
) -> None:
    """All requests of members and of administrators; the rest is told that ZooKeeper is away."""
    errors = told(gateway, access, principal, api, group)
    is_allowed = (principal, group) == ("reader", "reports")
    assert errors == {*([] if is_allowed else [ErrorCode.GROUP_AUTHORIZATION_FAILED])} | (errors & PASSING)
    assert bool(errors & PASSING) is is_allowed


@pytest.mark.parametrize(("principal", "seen"), [("writer", ["orders"]), ("reader", ["orders"]), ("anonymous", [])])
def test_topics_are_listed_for_those_who_may_use_them(
    gateway: Any, access: Access, principal: str, seen: list[str]
) -> None:
    caller = Caller(principal, "127.0.0.1:1", True, access.may, version=4)
    topics = HANDLERS[Api.METADATA](gateway, caller, {"topics": None})["topics"]
    assert [topic["name"] for topic in topics] == seen


def test_a_topic_is_made_by_asking_only_for_those_who_may_produce(gateway: Any, access: Access) -> None:
    gateway.catalogue.lists.clear()
    assert told(gateway, access, "reader", Api.METADATA, "orders") == {REFUSED}
    assert told(gateway, access, "writer", Api.METADATA, "orders") == {ErrorCode.LEADER_NOT_AVAILABLE}


@pytest.mark.parametrize(
    ("api", "section"),
    [
        (Api.CREATE_TOPICS, "[topics.create]"),
        (Api.CREATE_PARTITIONS, "[topics.grow]"),
        (Api.DELETE_TOPICS, "[topics.delete]"),
    ],
)
def test_a_refused_change_names_the_section_that_would_allow_it(
    gateway: Any, tmp_path: Path, api: Api, section: str
) -> None:
    """A file without the section refuses it to everybody, also to those who may produce."""
    (tmp_path / "old.toml").write_text('[produce]\n".*" = ["*"]\n[consume]\n".*" = ["*"]\n')
    caller = Caller("writer", "127.0.0.1:1", True, Access(tmp_path / "old.toml", SYSTEM_CLOCK).may, version=4)
    [[answer]] = HANDLERS[api](gateway, caller, REQUESTS[api]("orders")).values()
    text = f"no line of {section} in allow.file allows topic orders to writer"
    assert (answer["error_code"], answer["error_message"]) == (REFUSED, text)


DEFECTS = [defect for defect in read_defects("gateway_server").values() if defect.shows.get("file") == "test_access"]


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_a_defect_is_noticed(defect: Defect, request: pytest.FixtureRequest) -> None:
    """The test that it names fails with it."""
    assert_noticed(defect, globals()[defect.shows["noticed_by"]], request)
