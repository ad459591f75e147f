"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup of today's members, and FindCoordinator."""

from __future__ import annotations

import logging
from functools import wraps
from typing import TYPE_CHECKING

from kafka2011.gateway.groups.coordinator import Joining, unique
from kafka2011.gateway.groups.member import Timeouts
from kafka2011.gateway.groups.protocols import choose
from kafka2011.gateway.protocol.consumer_protocol import PROTOCOL_TYPE, read_subscription, write_assignment
from kafka2011.gateway.protocol.errors import ErrorCode, MalformedRequestError
from kafka2011.gateway.requests.context import group_error
from kafka2011.message.topic import InvalidTopicError, validate_topic
from zk.errors import ZkError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from kafka2011.gateway.requests.context import Body, Caller, Gateway
    from zk.cluster import TopicPartition

logger = logging.getLogger(__name__)

_TRANSACTION = 1
_WITH_MEMBER_ID = 4
"""From this version on a client comes again with the id that it is given, so that one that gave up leaves no member."""
_LEADER = "the rebalance"
"""Who is called the leader: no client, so that none divides partitions."""
_REFUSED = {
    ErrorCode.INVALID_GROUP_ID: "a group is a name without '/' and blanks",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "no line of [groups] in allow.file says that this principal may use it",
}


def find_coordinator(gateway: Gateway, caller: Caller, body: Body) -> Body:
    """Name the gateway that coordinates a group; there are no transactions."""
    is_transaction = body.get("key_type") == _TRANSACTION
    if "coordinator_keys" not in body:
        return _coordinator(gateway, caller, body["key"], is_transaction=is_transaction)
    return {
        "coordinators": [
            {"key": key, **_coordinator(gateway, caller, key, is_transaction=is_transaction)}
            for key in body["coordinator_keys"]
        ]
    }


def _coordinator(gateway: Gateway, caller: Caller, group: str, *, is_transaction: bool) -> Body:
    nobody: Body = {"node_id": -1, "port": -1}
    if is_transaction:
        error = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        return {**nobody, "error_code": error, "error_message": "there are no transactions here"}
    refused = group_error(caller, group)
    if refused:
        return {**nobody, "error_code": refused, "error_message": _REFUSED[refused]}
    try:
        address = gateway.group_claims.find(group)
    except ZkError as failure:
        logger.warning("group %s: its coordinator cannot be told: %s", group, failure)
        return {**nobody, "error_code": ErrorCode.COORDINATOR_NOT_AVAILABLE}
    host, port = gateway.address_for(caller, address)
    return {"node_id": address.node_id, "host": host, "port": port}


def _by_coordinator(
    handle: Callable[[Gateway, Caller, Body], Body],
) -> Callable[[Gateway, Caller, Body], Body]:
    """Let a request of a member be handled only by the gateway that coordinates its group."""

    @wraps(handle)
    def handled(gateway: Gateway, caller: Caller, body: Body) -> Body:
        try:
            error = _coordination_error(gateway, caller, body["group_id"])
            return {"error_code": error} if error else handle(gateway, caller, body)
        except ZkError as failure:
            logger.warning("group %s: %s", body["group_id"], failure)
            return {"error_code": ErrorCode.NOT_COORDINATOR}

    return handled


def _coordination_error(gateway: Gateway, caller: Caller, group: str) -> ErrorCode:
    """Say why this gateway does not handle the requests of a group's members."""
    error = group_error(caller, group)
    if error:
        return error
    return ErrorCode.NONE if gateway.group_claims.coordinates(group) else ErrorCode.NOT_COORDINATOR


@_by_coordinator
def join_group(gateway: Gateway, caller: Caller, body: Body) -> Body:
    """Register a client as a member, and answer once its share is known or its rebalance timeout has passed."""
    group, member_id = body["group_id"], body["member_id"]
    session_ms, config = body["session_timeout_ms"], gateway.config
    session_s = session_ms / 1000
    rebalance_ms = body.get("rebalance_timeout_ms", -1)
    rebalance_s = rebalance_ms / 1000 if rebalance_ms > 0 else session_s
    if not config.group_min_session_timeout_ms <= session_ms <= config.group_max_session_timeout_ms:
        return {"error_code": ErrorCode.INVALID_SESSION_TIMEOUT, "member_id": member_id}
    if body["protocol_type"] != PROTOCOL_TYPE or not body["protocols"]:
        logger.warning("group %s: members of type %r form no groups here, only consumers", group, body["protocol_type"])
        return {"error_code": ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "member_id": member_id}
    protocol = choose(body["protocols"], config.group_protocols)
    if protocol is None:
        logger.warning(
            "group %s: %s of %s cannot join: its assignment protocols (%s) are unknown here; see group.protocols",
            *(group, member_id or caller.client_id, caller.name),
            ", ".join(each["name"] for each in body["protocols"]),
        )
        return {"error_code": ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "member_id": member_id}
    try:
        subscription = read_subscription(protocol["metadata"])
    except MalformedRequestError as failure:
        logger.warning("group %s: what %s subscribes to cannot be read: %s", group, caller.name, failure)
        return {"error_code": ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "member_id": member_id}
    joined = gateway.coordinator.join(
        group,
        Joining(
            member_id,
            body.get("group_instance_id"),
            caller.client_id,
            caller.host,
            Timeouts(session_s, rebalance_s),
            unique(topic for topic in subscription.topics if _is_topic(topic)),
            frozenset(_partitions(gateway, subscription.owned or {})),
            needs_id=caller.version >= _WITH_MEMBER_ID,
            protocol=protocol["name"],
        ),
    )
    error = joined.error
    if error is ErrorCode.UNKNOWN_MEMBER_ID and not gateway.group_claims.holds(group):  # it was lost during the wait
        error = ErrorCode.NOT_COORDINATOR
    return {
        "error_code": error,
        "generation_id": joined.generation,
        "protocol_type": PROTOCOL_TYPE,
        "protocol_name": protocol["name"],
        "leader": _LEADER,
        "member_id": joined.member_id,
        "members": [],
    }


@_by_coordinator
def sync_group(gateway: Gateway, _caller: Caller, body: Body) -> Body:
    """Return the share that Algorithm 1 gives a member."""
    numbers: dict[TopicPartition, int] = {}

    def has_number(where: TopicPartition) -> bool:
        known = gateway.catalogue.lists.get(where.topic)
        if known is None or where not in known.partitions:
            return False
        numbers[where] = known.partitions.index(where)
        return True

    member = body["group_id"], body["member_id"], body.get("group_instance_id")
    share = gateway.coordinator.sync(*member, body["generation_id"], has_number)
    if isinstance(share, ErrorCode):
        return {"error_code": share, "assignment": b""}
    by_topic: dict[str, list[int]] = {}
    for where in sorted(share):
        by_topic.setdefault(where.topic, []).append(numbers[where])
    return {
        "protocol_type": body.get("protocol_type"),
        "protocol_name": body.get("protocol_name"),
        "assignment": write_assignment(by_topic),
    }


@_by_coordinator
def heartbeat(gateway: Gateway, _caller: Caller, body: Body) -> Body:
    """Say whether a member is to join again."""
    member = body["group_id"], body["member_id"], body.get("group_instance_id")
    return {"error_code": gateway.coordinator.heartbeat(*member, body["generation_id"])}


@_by_coordinator
def leave_group(gateway: Gateway, _caller: Caller, body: Body) -> Body:
    """Let members leave."""
    group = body["group_id"]
    if "members" not in body:
        return {"error_code": gateway.coordinator.leave(group, body["member_id"], None)}
    answers = []
    for member in body["members"]:
        member_id, instance_id = member["member_id"], member["group_instance_id"]
        error = gateway.coordinator.leave(group, member_id, instance_id)
        answers.append({"member_id": member_id, "group_instance_id": instance_id, "error_code": error})
    return {"members": answers}


def _is_topic(topic: str) -> bool:
    try:
        validate_topic(topic)
    except InvalidTopicError:
        return False
    return True


def _partitions(gateway: Gateway, owned: Mapping[str, Iterable[int]]) -> Iterable[TopicPartition]:
    for topic, numbers in owned.items():
        for number in numbers:
            where = gateway.catalogue.partition(topic, number)
            if where is not None:
                yield where
