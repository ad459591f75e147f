"""Requests of groups' members: refused, so that a client says so at once. Offsets are not kept, and read as unknown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka2011.gateway.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from kafka2011.gateway.requests.context import Body, Caller, Gateway

_REFUSED = ErrorCode.GROUP_AUTHORIZATION_FAILED
_UNKNOWN = -1


def refuse_member(_gateway: Gateway, _caller: Caller, body: Body) -> Body:
    """Refuse JoinGroup, SyncGroup, Heartbeat and LeaveGroup."""
    answer = {"error_code": _REFUSED}
    return {**answer, "member_id": body["member_id"]} if "protocols" in body else answer


def refuse_commit(_gateway: Gateway, _caller: Caller, body: Body) -> Body:
    """Refuse OffsetCommit."""
    return {
        "topics": [
            {
                "name": topic["name"],
                "partitions": [
                    {"partition_index": partition["partition_index"], "error_code": _REFUSED}
                    for partition in topic["partitions"]
                ],
            }
            for topic in body["topics"]
        ]
    }


def offset_fetch(_gateway: Gateway, _caller: Caller, body: Body) -> Body:
    """Answer that no offset was committed: a client that assigns partitions itself begins where it is set to."""
    if "groups" in body:
        return {
            "groups": [{"group_id": group["group_id"], "topics": _unknown(group["topics"])} for group in body["groups"]]
        }
    return {"topics": _unknown(body["topics"])}


def _unknown(topics: list[Body] | None) -> list[Body]:
    return [
        {
            "name": topic["name"],
            "partitions": [
                {"partition_index": number, "committed_offset": _UNKNOWN, "metadata": ""}
                for number in topic["partition_indexes"]
            ],
        }
        for topic in topics or ()
    ]
