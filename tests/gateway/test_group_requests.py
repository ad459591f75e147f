"""Offsets and descriptions of groups, as today's clients ask for them, with members of 0.7 and of today."""

from __future__ import annotations

import socket
import uuid
from collections import Counter
from contextlib import closing
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import gevent
import pytest
from gevent.server import StreamServer
from kazoo import exceptions as kazoo_errors

from kafka2011.errors import BrokerConnectionError
from kafka2011.gateway.groups.directory import GroupDirectory
from kafka2011.gateway.groups.lookups import Lookups
from kafka2011.gateway.groups.offsets import GroupOffsets
from kafka2011.gateway.groups.peers import Peers
from kafka2011.gateway.protocol.consumer_protocol import read_assignment, read_subscription
from kafka2011.gateway.protocol.errors import ErrorCode
from kafka2011.gateway.protocol.fields import Api
from kafka2011.gateway.protocol.frames import write_response
from kafka2011.gateway.requests.context import Body, Caller
from kafka2011.gateway.requests.dispatch import HANDLERS, begin
from kafka2011.wire.protocol import FrameReader
from tests.gateway.groups.test_places import SIZE, Log
from tests.planted.patches import Defect, read_defects
from tests.support.noticing import assert_noticed
from tests.support.zk_in_memory import ZkClientInMemory
from zk import paths
from zk.cluster import TopicPartition
from zk.commit_notes import CommitNotes, GroupCommit
from zk.consumers import ConsumerRegistry
from zk.gateway_members import GatewayMember, GatewayMemberRegistry
from zk.gateways import GatewayAddress, PartitionList
from zk.offsets import OffsetRegistry
from zk.owners import OwnerRegistry

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

FIRST, SECOND, AWAY = TopicPartition("views", 3, 0), TopicPartition("views", 1, 0), TopicPartition("views", 9, 0)
"""Partitions 0, 1 and 2 for clients; the broker of the last is away."""
WRAPPER = 3 * SIZE


def as_client(made: Any) -> Any:
    """Return a client in memory as one that registries accept."""
    return made


class World:
    """A gateway with one topic of three partitions, in the first of which are 3 plain messages and a wrapper of 5."""

    def __init__(self) -> None:
        self.is_coordinator = True
        self.zk = zk = as_client(ZkClientInMemory())
        self.logs = {0: Log(), 1: Log()}
        for log in self.logs.values():
            log.append((3, False), (5, True))
        lists = {"views": PartitionList("views", uuid.UUID(int=7), (FIRST, SECOND, AWAY), 0)}
        catalogue: Any = SimpleNamespace(
            lists=lists,
            partition=lambda topic, number: (
                lists[topic].partitions[number] if topic in lists and 0 <= number < 3 else None
            ),
        )
        partitions: Any = SimpleNamespace(find=self.find, known=lambda _, number: self.known.get(number))
        self.known: dict[int, Log] = {}  # that clients have read
        self.served_elsewhere: set[int] = set()  # brokers whose partitions another gateway serves
        claims: Any = SimpleNamespace(
            address=None, holds=lambda broker_id: broker_id not in self.served_elsewhere, leader=lambda _: self.other
        )
        self.other: GatewayAddress | None = None
        lookups = Lookups(catalogue, claims, partitions, Peers("", 5.0))
        self.gateway: Any = SimpleNamespace(
            counts=Counter(),
            lookups=lookups,
            group_directory=GroupDirectory(zk),
            group_offsets=GroupOffsets(catalogue, lookups, CommitNotes(zk)),
            group_claims=SimpleNamespace(coordinates=lambda _: self.is_coordinator),
            coordinator=Members(ErrorCode.UNKNOWN_MEMBER_ID),
        )
        self.rules: dict[tuple[str, str], bool] = {}

    def find(self, topic: str, number: int) -> Any:
        if topic != "views" or number > 2:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return self.logs.get(number, ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def ask(self, api: Api, body: Body, version: int = 5) -> Any:
        """Return the answer to a request, which can be written."""
        caller = Caller("me", "here", False, lambda _, what, name: self.rules.get((what, name), True), version=version)
        answer = HANDLERS[api](self.gateway, caller, body)
        assert write_response(api, version, 7, answer)
        return answer

    def commit(self, numbers: Mapping[int, int], *, topic: str = "views", metadata: str = "", **more: Any) -> Any:
        partitions = [
            {"partition_index": partition, "committed_offset": number, "committed_metadata": metadata}
            for partition, number in numbers.items()
        ]
        who = {"group_id": "readers", "generation_id_or_member_epoch": -1, "member_id": "", **more}
        return errors_of(self.ask(Api.OFFSET_COMMIT, {**who, "topics": [{"name": topic, "partitions": partitions}]}))

    def committed(self, *numbers: int, version: int = 7) -> dict[int, tuple[int, str] | ErrorCode]:
        """Return what is committed of partitions, of all those known without one."""
        topics = [{"name": "views", "partition_indexes": list(numbers)}] if numbers else None
        answer = self.ask(Api.OFFSET_FETCH, {"group_id": "readers", "topics": topics}, version)
        return fetched(answer)

    def join_07(self, consumer_id: str = "readers_host-1-a", subscription: str = '{ "views": 1 }') -> None:
        ConsumerRegistry(self.zk).register("readers", consumer_id, subscription)

    def reset_07(self, where: TopicPartition, position: int) -> None:
        OffsetRegistry(self.zk).write("readers", where, position)


def errors_of(answer: Body) -> dict[int, ErrorCode]:
    return {
        partition["partition_index"]: partition["error_code"]
        for topic in answer["topics"]
        for partition in topic["partitions"]
    }


def fetched(answer: Body) -> dict[int, tuple[int, str] | ErrorCode]:
    return {
        partition["partition_index"]: partition.get("error_code")
        or (partition["committed_offset"], partition["metadata"])
        for topic in answer["topics"]
        for partition in topic["partitions"]
    }


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    for log in made.logs.values():
        log.tail.stop()


# Offsets -------------------------------------------------------------------------------------------------------------


def test_what_was_committed_is_read_again(world: World) -> None:
    """Also within a wrapper; 0.7 goes on from the wrapper's start."""
    assert world.commit({0: 5, 1: 2}, metadata="größe") == {0: ErrorCode.NONE, 1: ErrorCode.NONE}
    assert world.committed(0, 1) == {0: (5, "größe"), 1: (2, "größe")}
    offsets = OffsetRegistry(world.zk).export_group("readers")
    assert offsets == {FIRST: WRAPPER, SECOND: 2 * SIZE}


def test_nothing_was_committed(world: World) -> None:
    """Also of a partition that nobody knows, as in Kafka."""
    assert world.committed(0, 7) == {0: (-1, ""), 7: (-1, "")}
    assert world.committed() == {}


def test_all_that_was_committed_is_listed(world: World) -> None:
    world.commit({0: 5, 1: 8})
    OffsetRegistry(world.zk).write("readers", TopicPartition("gone", 0, 0), 5)
    OffsetRegistry(world.zk).write("readers", TopicPartition("views", 77, 0), 5)
    assert world.committed() == {0: (5, ""), 1: (8, "")}


@pytest.mark.parametrize("topics", [None, [{"name": "views", "partition_indexes": [0]}]])
def test_many_groups_are_asked_for_at_once(world: World, topics: list[Body] | None) -> None:
    world.commit({0: 5})
    asked = {"groups": [{"group_id": name, "topics": topics} for name in ("readers", "others", "a b")]}
    groups = world.ask(Api.OFFSET_FETCH, asked, 8)["groups"]
    assert [group["group_id"] for group in groups] == ["readers", "others", "a b"]
    assert [group.get("error_code", 0) for group in groups] == [0, 0, ErrorCode.INVALID_GROUP_ID]
    assert [fetched(group) for group in groups] == [{0: (5, "")}, {} if topics is None else {0: (-1, "")}, {}]


def test_a_member_of_0_7_goes_on_and_comes_back(world: World) -> None:
    """Its offset is where today's clients go on, and what is done of the wrapper there no longer counts."""
    world.commit({0: 6, 1: 8}, metadata="text")
    for position, number in ((WRAPPER, 3), (SIZE, 1), (SIZE + 3, 1), (len(world.logs[0].broker.data), 8)):
        world.reset_07(FIRST, position)
        assert world.committed(0, 1) == {0: (number, ""), 1: (8, "text")}


def test_an_offset_behind_the_log_is_none(world: World) -> None:
    """The log was put back, or is another one: clients begin where they are set to, as 0.7's do."""
    world.reset_07(FIRST, 10**9)
    assert world.committed(0) == {0: (-1, "")}
    assert world.committed() == {}


@pytest.mark.parametrize("number", [9, 10**12, 2**63 - 1, -1, -2, -7, -(2**63)])
def test_a_number_without_a_place_in_the_log_is_committed(world: World, number: int) -> None:
    """Clients read it as they wrote it; a 0.7 consumer continues at the nearest place."""
    assert world.commit({0: number, 1: 8}, metadata="größe") == {0: ErrorCode.NONE, 1: ErrorCode.NONE}
    assert world.committed(0, 1) == world.committed() == {0: (number, "größe"), 1: (8, "größe")}
    nearest = 0 if number < -1 else len(world.logs[0].broker.data)
    assert OffsetRegistry(world.zk).export_group("readers")[FIRST] == nearest
    world.reset_07(FIRST, nearest)
    assert world.committed(0) == {0: (0 if number < -1 else 8, "")}
    assert world.commit({0: number}) == world.commit({0: 3}) == {0: ErrorCode.NONE}
    assert world.committed(0) == {0: (3, "")}


def test_a_number_above_the_end_is_read_as_it_was_written_once_messages_have_it(world: World) -> None:
    world.commit({0: 9, 1: -1})
    world.logs[0].append((5, False))
    world.logs[1].append((5, False))
    assert world.committed(0, 1) == {0: (9, ""), 1: (-1, "")}


def test_below_the_start_of_the_log_the_start_is_read(world: World) -> None:
    """That holds for a number that was above the end when it was committed, too."""
    world.commit({0: 1, 1: 10})
    for log in world.logs.values():
        log.append((20, False))
        with gevent.Timeout(20):
            while log.end() < 28:
                log.log.changes.wait(1)
        end = len(log.broker.data)
        log.broker.data, log.broker.start = log.broker.data[-4 * SIZE :], end - 4 * SIZE
        log.log.refresh_start()
    assert world.committed(0, 1) == {0: (24, ""), 1: (24, "")}
    assert world.commit({0: 2}) == {0: ErrorCode.NONE}
    assert world.committed(0) == {0: (24, "")}
    assert OffsetRegistry(world.zk).export_group("readers")[FIRST] == world.logs[0].broker.start


def test_what_cannot_be_committed_leaves_the_rest_alone(world: World) -> None:
    errors = world.commit({0: 1, 2: 1, 3: 1})
    assert errors == {
        0: ErrorCode.NONE,
        2: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        3: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert world.commit({0: 1}, topic="other") == {0: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert world.commit({0: 2}, metadata="ü" * 2049) == {0: ErrorCode.OFFSET_METADATA_TOO_LARGE}
    assert world.committed(0) == {0: (1, "")}


@pytest.mark.parametrize(
    ("version", "error"),
    [(1, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), (5, None), (7, ErrorCode.UNSTABLE_OFFSET_COMMIT)],
)
def test_clients_ask_again_while_a_broker_is_away(world: World, version: int, error: ErrorCode | None) -> None:
    """With "nothing was committed" they would begin at the end or the start of the log."""
    world.commit({0: 5})
    world.reset_07(AWAY, 5)
    if error is None:
        topics = [{"name": "views", "partition_indexes": [0, 2]}]
        answer = world.ask(Api.OFFSET_FETCH, {"group_id": "readers", "topics": topics}, version)
        assert answer["error_code"] == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return
    found = world.committed(0, 2, version=version)
    assert found[2] == (ErrorCode.UNSTABLE_OFFSET_COMMIT if version == 7 else error)
    assert found[0] == ((5, "") if version == 7 else error)


def test_clients_ask_again_when_a_broker_fails(world: World) -> None:
    world.commit({0: 5})

    def fail(*_: object) -> bytes:
        raise BrokerConnectionError("away")

    links: Any = world.logs[0].broker
    links.fetch = fail
    world.logs[0].forget_recent()
    world.reset_07(FIRST, SIZE + 1)
    assert world.committed(0) == {0: ErrorCode.UNSTABLE_OFFSET_COMMIT}


def test_what_was_read_is_committed_while_its_broker_is_away(world: World) -> None:
    """As when a broker restarts, and its partitions are given up for a moment."""
    log = world.known[0] = world.logs[0]
    log.log.records(0, 1024 * 1024)
    del world.logs[0]
    log.tail.stop()
    log.forget_recent()
    assert world.commit({0: 5, 2: 0}) == {0: ErrorCode.NONE, 2: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
    assert OffsetRegistry(world.zk).export_group("readers") == {FIRST: WRAPPER}
    world.logs[0] = log
    assert world.committed(0) == {0: (5, "")}


def test_nothing_is_asked_of_a_broker_that_hangs_for_what_was_read(world: World) -> None:
    log = world.known[0] = world.logs[0]
    log.log.records(0, 1024 * 1024)
    log.tail.stop()
    log.forget_recent()
    log.fetches.clear()
    assert log.log.fault
    assert world.commit({0: 5}) == {0: ErrorCode.NONE}
    assert log.fetches == []


def test_without_zookeeper_clients_look_for_another_coordinator(world: World) -> None:
    def fail(*_: object) -> None:
        raise kazoo_errors.ConnectionLoss

    world.zk.before = fail
    away = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.commit({0: 5}) == {0: away}
    topics = [{"name": "views", "partition_indexes": [0]}]
    unread = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert world.ask(Api.OFFSET_FETCH, {"group_id": "readers", "topics": topics})["error_code"] == unread
    assert world.committed(0, version=1) == {0: unread}
    assert world.ask(Api.LIST_GROUPS, {}, 4)["error_code"] == away
    assert world.ask(Api.DESCRIBE_GROUPS, {"groups": ["readers"]})["groups"][0]["error_code"] == away
    assert world.ask(Api.DELETE_GROUPS, {"groups_names": ["readers"]}, 2)["results"][0]["error_code"] == away
    assert world.ask(Api.OFFSET_DELETE, {"group_id": "readers", "topics": []}, 0)["error_code"] == away


@pytest.mark.parametrize("is_of_07", [True, False])
def test_nobody_commits_beside_members(world: World, is_of_07: bool) -> None:
    """A reset while a member lives would be overwritten, or take its place from it."""
    world.commit({0: 5})
    world.join_07()
    if not is_of_07:
        GatewayMemberRegistry(world.zk).register("readers", "readers_host-1-a", GatewayMember("m", "c", "h"))
    assert world.commit({0: 1}) == {0: ErrorCode.UNKNOWN_MEMBER_ID}
    assert world.committed(0) == {0: (5, "")}
    ConsumerRegistry(world.zk).deregister("readers", "readers_host-1-a")
    assert world.commit({0: 1}) == {0: ErrorCode.NONE}


class Members:
    """Commits for members: what is asked of it, and what it answers."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.asked: list[tuple[Any, ...]] = []

    def commit(self, *asked: Any) -> Any:
        self.asked.append(asked)
        return self.answer


def test_a_member_commits_what_it_owns(world: World) -> None:
    """Places and what else is kept are handed to those who know what members own."""
    member: dict[str, Any] = {"member_id": "m", "generation_id_or_member_epoch": 4, "group_instance_id": "i"}
    assert world.commit({0: 5}, **member) == {0: ErrorCode.UNKNOWN_MEMBER_ID}
    world.join_07()
    members = world.gateway.coordinator = Members({FIRST: ErrorCode.NONE})
    errors = world.commit({0: 5, 1: 99, 2: 0, 3: 0}, metadata="text", **member)
    waits = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert errors == {0: ErrorCode.NONE, 1: waits, 2: waits, 3: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    ((group, member_id, instance_id, generation, commits),) = members.asked
    assert (group, member_id, instance_id, generation) == ("readers", "m", "i", 4)
    assert commits == {
        FIRST: GroupCommit(WRAPPER, 2, "text"),
        SECOND: GroupCommit(len(world.logs[1].broker.data), 0, "text", number=99),
    }
    members.answer = ErrorCode.ILLEGAL_GENERATION
    assert world.commit({0: 5, 2: 0}, **member) == dict.fromkeys((0, 2), ErrorCode.ILLEGAL_GENERATION)
    world.is_coordinator = False
    assert world.commit({0: 5}, **member) == {0: ErrorCode.NOT_COORDINATOR}


@pytest.mark.parametrize("api", [Api.JOIN_GROUP, Api.SYNC_GROUP, Api.HEARTBEAT, Api.LEAVE_GROUP])
def test_another_gateway_s_members_are_sent_to_it(world: World, api: Api) -> None:
    """Their connection stays: the answer has only fields of its message."""
    world.is_coordinator = False
    assert world.ask(api, {"group_id": "readers"}, 3)["error_code"] == ErrorCode.NOT_COORDINATOR


def test_deleted_offsets_are_gone(world: World) -> None:
    world.commit({0: 5, 1: 8})
    asked = [{"name": "views", "partitions": [{"partition_index": number} for number in (0, 9)]}]
    answer = world.ask(Api.OFFSET_DELETE, {"group_id": "readers", "topics": asked}, 0)
    assert (answer["error_code"], errors_of(answer)) == (0, {0: 0, 9: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
    assert world.committed(0, 1) == {0: (-1, ""), 1: (8, "")}
    answer = world.ask(Api.OFFSET_DELETE, {"group_id": "others", "topics": asked}, 0)
    assert answer["error_code"] == ErrorCode.GROUP_ID_NOT_FOUND


def test_offsets_that_members_use_are_not_deleted(world: World) -> None:
    world.commit({0: 5})
    world.join_07(subscription="*1*vie.*")
    world.zk.create_async("/brokers", None)
    for path in (paths.BROKER_TOPICS, paths.BROKER_IDS, paths.topic("views"), paths.topic_broker("views", 3)):
        world.zk.create_async(path, b"1")
    asked = [{"name": "views", "partitions": [{"partition_index": 0}]}]
    answer = world.ask(Api.OFFSET_DELETE, {"group_id": "readers", "topics": asked}, 0)
    assert errors_of(answer) == {0: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC}
    assert world.committed(0) == {0: (5, "")}


# Groups --------------------------------------------------------------------------------------------------------------


def listed(world: World, *states: str) -> dict[str, str]:
    answer = world.ask(Api.LIST_GROUPS, {"states_filter": list(states)}, 4)
    return {group["group_id"]: group["group_state"] for group in answer["groups"]}


def described(world: World, *groups: str) -> dict[str, Body]:
    answer = world.ask(Api.DESCRIBE_GROUPS, {"groups": list(groups)})
    return {group["group_id"]: group for group in answer["groups"]}


def test_groups_are_listed_with_their_states(world: World) -> None:
    world.commit({0: 5}, group_id="done")
    world.join_07()
    assert listed(world) == {"done": "Empty", "readers": "Stable"}
    assert listed(world, "stable") == {"readers": "Stable"}
    assert listed(world, "PreparingRebalance") == {}


def test_all_groups_are_of_the_classic_type(world: World) -> None:
    world.join_07()

    def types(*wanted: str) -> list[str]:
        answer = world.ask(Api.LIST_GROUPS, {"states_filter": [], "types_filter": list(wanted)}, 5)
        return [group["group_type"] for group in answer["groups"]]

    assert types() == types("Classic") == types("consumer", "classic") == ["classic"]
    assert types("consumer", "share") == []


def test_members_of_both_kinds_are_described_with_what_they_own(world: World) -> None:
    """As Java's tools read it: topics and numbers in the bytes of the consumer protocol."""
    world.join_07("readers_host-1-a")
    world.join_07("readers_m2")
    today = GatewayMember("m2", "kcat", "10.0.0.1", "one", "sticky")
    GatewayMemberRegistry(world.zk).register("readers", "readers_m2", today)
    owners = OwnerRegistry(world.zk)
    owners.claim("readers", FIRST, "readers_host-1-a-0")
    owners.claim("readers", SECOND, "readers_m2-0")
    owners.claim("readers", AWAY, "readers_m2-0")
    group = described(world, "readers")["readers"]
    assert (group["group_state"], group["protocol_type"], group["protocol_data"]) == ("Stable", "consumer", "sticky")
    old, new = group["members"]
    assert [read_subscription(member["member_metadata"]).topics for member in (old, new)] == [("views",)] * 2
    assert read_assignment(old["member_assignment"]) == {"views": (0,)}
    assert sorted(read_assignment(new["member_assignment"])["views"]) == [1, 2]
    assert (old["member_id"], old["client_id"]) == ("readers_host-1-a", "kafka-0.7")
    shown = ("member_id", "client_id", "client_host", "group_instance_id")
    assert [new[name] for name in shown] == ["m2", "kcat", "10.0.0.1", "one"]


def test_a_group_without_members_is_empty_and_one_that_does_not_exist_is_dead(world: World) -> None:
    world.commit({0: 5})
    groups = described(world, "readers", "others", "a b")
    assert {name: group.get("group_state") for name, group in groups.items()} == {
        "readers": "Empty",
        "others": "Dead",
        "a b": None,
    }
    assert groups["a b"]["error_code"] == ErrorCode.INVALID_GROUP_ID
    assert groups["readers"]["members"] == []


def test_a_group_is_deleted_with_its_offsets_unless_it_has_members(world: World) -> None:
    world.commit({0: 5}, metadata="text")
    world.join_07()

    def delete(*groups: str) -> list[ErrorCode]:
        answer = world.ask(Api.DELETE_GROUPS, {"groups_names": list(groups)}, 2)
        return [result["error_code"] for result in answer["results"]]

    assert delete("readers", "others", "a b") == [
        ErrorCode.NON_EMPTY_GROUP,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.INVALID_GROUP_ID,
    ]
    assert world.committed(0) == {0: (5, "text")}
    ConsumerRegistry(world.zk).deregister("readers", "readers_host-1-a")
    assert delete("readers") == [ErrorCode.NONE]
    assert world.committed(0) == {0: (-1, "")}
    assert listed(world) == {}
    assert paths.gateway_commits("readers") not in world.zk.tree


# Who may -------------------------------------------------------------------------------------------------------------


def test_a_group_is_for_those_whom_the_file_allows_it(world: World) -> None:
    world.commit({0: 5})
    world.rules["groups", "readers"] = False
    refused = ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert world.commit({0: 6}) == {0: refused}
    topics = [{"name": "views", "partition_indexes": [0]}]
    assert world.ask(Api.OFFSET_FETCH, {"group_id": "readers", "topics": topics}) == {
        "topics": [],
        "error_code": refused,
    }
    asked = {"groups": [{"group_id": "readers", "topics": None}]}
    assert world.ask(Api.OFFSET_FETCH, asked, 8)["groups"] == [
        {"group_id": "readers", "topics": [], "error_code": refused}
    ]
    assert world.committed(0, version=1) == {0: refused}
    assert world.ask(Api.OFFSET_DELETE, {"group_id": "readers", "topics": []}, 0)["error_code"] == refused
    assert world.ask(Api.DELETE_GROUPS, {"groups_names": ["readers"]}, 2)["results"][0]["error_code"] == refused
    assert described(world, "readers")["readers"] == {"error_code": refused, "group_id": "readers"}
    assert listed(world) == {}
    world.rules.clear()
    assert world.committed(0) == {0: (5, "")}


def test_offsets_are_those_of_topics_that_a_caller_may_consume(world: World) -> None:
    world.commit({0: 5})
    world.rules["consume", "views"] = False
    refused = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert world.commit({0: 6}) == {0: refused}
    assert world.committed(0) == {0: refused}
    assert world.committed() == {}
    asked = [{"name": "views", "partitions": [{"partition_index": 0}]}]
    answer = world.ask(Api.OFFSET_DELETE, {"group_id": "readers", "topics": asked}, 0)
    assert errors_of(answer) == {0: refused}
    world.rules.clear()
    assert world.committed(0) == {0: (5, "")}


# Partitions that another gateway serves -------------------------------------------------------------------------------


@pytest.fixture
def served(world: World) -> Iterator[World]:
    """Have broker 3, and so partition 0, served by another gateway."""
    other = World()
    server = StreamServer(("127.0.0.1", 0), partial(_serve, other))
    server.start()
    world.served_elsewhere.add(FIRST.broker_id)
    world.other = GatewayAddress(1, "127.0.0.1", server.server_port or 0)
    yield other
    world.gateway.lookups.stop()
    server.stop()
    for log in other.logs.values():
        log.tail.stop()


def _serve(world: World, connection: Any, _address: object) -> None:
    caller = Caller("me", "here", False, lambda _, what, name: world.rules.get((what, name), True))
    reader = FrameReader(1_000_000)
    while data := connection.recv(65536):
        reader.receive_data(data)
        while (frame := reader.next_frame()) is not None:
            parts = begin(world.gateway, caller, frame)(lambda: None)
            assert parts is not None
            connection.sendall(b"".join(parts))


def test_places_of_another_gateways_partitions_are_asked_for(world: World, served: World) -> None:
    """By the gateway that coordinates the group, both ways."""
    world.logs.pop(0)
    assert world.commit({0: 5, 1: 2}) == {0: ErrorCode.NONE, 1: ErrorCode.NONE}
    assert OffsetRegistry(world.zk).export_group("readers") == {FIRST: WRAPPER, SECOND: 2 * SIZE}
    assert world.committed(0, 1) == {0: (5, ""), 1: (2, "")}
    end = len(served.logs[0].broker.data)
    for number, position in ((99, end), (-1, end), (-2, 0)):
        assert world.commit({0: number}) == {0: ErrorCode.NONE}
        assert world.committed(0) == {0: (number, "")}
        assert OffsetRegistry(world.zk).export_group("readers")[FIRST] == position
    assert served.gateway.counts["requests_places"]


def test_a_gateway_that_is_away_is_asked_again(world: World) -> None:
    """Clients ask again, and so do those whose partition nobody serves."""
    world.commit({0: 5})
    world.served_elsewhere.add(FIRST.broker_id)
    assert world.commit({0: 5}) == {0: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
    with closing(socket.create_server(("127.0.0.1", 0))) as nobody:
        port = nobody.getsockname()[1]
    world.other = GatewayAddress(1, "127.0.0.1", port)
    assert world.commit({0: 5}) == {0: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
    assert world.committed(0) == {0: ErrorCode.UNSTABLE_OFFSET_COMMIT}


def test_a_gateway_tells_only_who_may_read(world: World, served: World) -> None:
    served.rules["consume", "views"] = False
    assert world.commit({0: 5}) == {0: ErrorCode.TOPIC_AUTHORIZATION_FAILED}


DEFECTS = read_defects("gateway_group_requests").values()


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_a_defect_is_noticed(defect: Defect, request: pytest.FixtureRequest) -> None:
    """The test that it names fails with it."""
    assert_noticed(defect, globals()[defect.shows["noticed_by"]], request)
