"""ListGroups, DescribeGroups and DeleteGroups: what administrators ask of groups."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from kafka2011.broker.security.access import GROUPS
from kafka2011.gateway.groups.directory import DEAD, STABLE
from kafka2011.gateway.groups.protocols import protocol_of
from kafka2011.gateway.protocol.consumer_protocol import PROTOCOL_TYPE, write_assignment, write_subscription
from kafka2011.gateway.protocol.errors import ErrorCode
from kafka2011.gateway.requests.context import group_error
from zk.errors import GroupInUse, NodeNotEmpty, ZkError

if TYPE_CHECKING:
    from kafka2011.gateway.groups.directory import DescribedGroup, DescribedMember
    from kafka2011.gateway.requests.context import Body, Caller, Gateway

logger = logging.getLogger(__name__)

_CLASSIC = "classic"
"""The type of all groups: those of 0.7 and of the classic protocol."""
_CLIENT_OF_07 = "kafka-0.7"
"""What is shown as the client id of members of 0.7, who have none."""


def list_groups(gateway: Gateway, caller: Caller, body: Body) -> Body:
    """List the groups that a caller may use, of some states and types or of any."""
    wanted = {state.lower() for state in body.get("states_filter", ())}
    types = {name.lower() for name in body.get("types_filter", ())}
    if types and _CLASSIC not in types:
        return {"groups": []}
    try:
        states = gateway.group_directory.states()
    except ZkError as failure:
        logger.warning("groups cannot be listed: %s", failure)
        return {"error_code": ErrorCode.COORDINATOR_NOT_AVAILABLE}
    return {
        "groups": [
            {"group_id": group, "protocol_type": PROTOCOL_TYPE, "group_state": state, "group_type": _CLASSIC}
            for group, state in states.items()
            if caller.may(GROUPS, group) and (not wanted or state.lower() in wanted)
        ]
    }


def describe_groups(gateway: Gateway, caller: Caller, body: Body) -> Body:
    """Describe groups: their members, what these subscribe to, and what they own."""
    refused = {group: group_error(caller, group) for group in body["groups"]}
    allowed = [group for group, error in refused.items() if not error]
    try:
        described = gateway.group_directory.describe(allowed) if allowed else {}
    except ZkError as failure:
        logger.warning("groups cannot be described: %s", failure)
        refused |= dict.fromkeys(allowed, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        described = {}
    return {
        "groups": [
            {"error_code": error, "group_id": group} if error else _group(gateway, group, described[group])
            for group, error in refused.items()
        ]
    }


def _group(gateway: Gateway, name: str, group: DescribedGroup) -> Body:
    return {
        "group_id": name,
        "group_state": group.state,
        "protocol_type": "" if group.state == DEAD else PROTOCOL_TYPE,
        "protocol_data": protocol_of(member.client for member in group.members) if group.state == STABLE else "",
        "members": [_member(gateway, member) for member in group.members],
    }


def _member(gateway: Gateway, member: DescribedMember) -> Body:
    partitions: dict[str, list[int]] = {}
    for topic, number in filter(None, map(gateway.group_offsets.name_of, member.partitions)):
        partitions.setdefault(topic, []).append(number)
    metadata = {
        "member_metadata": write_subscription(member.topics),
        "member_assignment": write_assignment(partitions),
    }
    client = member.client
    if client is None:
        return {"member_id": member.consumer_id, "client_id": _CLIENT_OF_07, **metadata}
    return {
        "member_id": client.member_id,
        "group_instance_id": client.instance_id,
        "client_id": client.client_id,
        "client_host": client.host,
        **metadata,
    }


def delete_groups(gateway: Gateway, caller: Caller, body: Body) -> Body:
    """Delete groups with their offsets, those without members."""
    return {
        "results": [
            {"group_id": group, "error_code": group_error(caller, group) or _delete(gateway, group)}
            for group in body["groups_names"]
        ]
    }


def _delete(gateway: Gateway, group: str) -> ErrorCode:
    try:
        if gateway.group_directory.state(group) == DEAD:
            return ErrorCode.GROUP_ID_NOT_FOUND
        gateway.group_directory.delete(group)
    except (GroupInUse, NodeNotEmpty) as failure:
        logger.info("group %s is not deleted: %s", group, failure)
        return ErrorCode.NON_EMPTY_GROUP
    except ZkError as failure:
        logger.warning("group %s cannot be deleted: %s", group, failure)
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return ErrorCode.NONE
