"""OffsetCommit, OffsetFetch and OffsetDelete: how far groups have come."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, TypeVar

from kafka2011.broker.security.access import CONSUME
from kafka2011.gateway.groups.directory import DEAD, STABLE
from kafka2011.gateway.groups.lookups import UNAVAILABLE
from kafka2011.gateway.groups.offsets import NOTHING, NumberedCommit
from kafka2011.gateway.protocol.errors import ErrorCode
from kafka2011.gateway.requests.context import group_error
from zk.errors import ZkError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from kafka2011.gateway.groups.lookups import TopicNumber
    from kafka2011.gateway.requests.context import Body, Caller, Gateway

T = TypeVar("T")

logger = logging.getLogger(__name__)

MOST_METADATA_BYTES = 4096
"""As in Kafka."""
_WITH_GROUP_ERROR = 2
_WITH_UNSTABLE = 7
"""From these versions on an answer may say that a group, or a partition, is to be asked for again."""


def offset_commit(gateway: Gateway, caller: Caller, body: Body) -> Body:
    """Commit numbers of messages for a member, or for a group without members."""
    refused = group_error(caller, body["group_id"])
    outcomes: dict[TopicNumber, ErrorCode] = {}
    commits: dict[TopicNumber, NumberedCommit] = {}
    for topic in body["topics"]:
        for partition in topic["partitions"]:
            name = topic["name"], partition["partition_index"]
            commit = NumberedCommit(partition["committed_offset"], partition["committed_metadata"] or "")
            error = refused or _fault_of(caller, topic["name"], commit)
            if error:
                outcomes[name] = error
            else:
                commits[name] = commit
    if commits:
        outcomes |= _or_unavailable(lambda: _commit(gateway, body, commits), commits)
    return {"topics": _by_topic(outcomes.items(), lambda error: {"error_code": error})}


def _fault_of(caller: Caller, topic: str, commit: NumberedCommit) -> ErrorCode:
    if not caller.may(CONSUME, topic):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if len(commit.metadata.encode()) > MOST_METADATA_BYTES:
        return ErrorCode.OFFSET_METADATA_TOO_LARGE
    return ErrorCode.NONE


def _commit(
    gateway: Gateway, body: Body, commits: Mapping[TopicNumber, NumberedCommit]
) -> Mapping[TopicNumber, ErrorCode]:
    group, member_id, generation = body["group_id"], body["member_id"], body["generation_id_or_member_epoch"]
    if generation < 0 and not member_id:
        if gateway.group_directory.has_members(group):
            return dict.fromkeys(commits, ErrorCode.UNKNOWN_MEMBER_ID)
        return gateway.group_offsets.write(group, commits)
    if not gateway.group_claims.coordinates(group):
        return dict.fromkeys(commits, ErrorCode.NOT_COORDINATOR)
    placed, errors = gateway.group_offsets.place(commits)
    outcome = gateway.coordinator.commit(group, member_id, body.get("group_instance_id"), generation, placed)
    if isinstance(outcome, ErrorCode):
        return dict.fromkeys(commits, outcome)
    named = {gateway.group_offsets.name_of(where): error for where, error in outcome.items()}
    return {name: errors.get(name, named.get(name, UNAVAILABLE)) for name in commits}


def offset_fetch(gateway: Gateway, caller: Caller, body: Body) -> Body:
    """Return what groups have committed, of partitions or of all; -1 where that is nothing."""
    if "groups" in body:
        return {
            "groups": [
                {"group_id": group["group_id"], **_fetched(gateway, caller, group["group_id"], group["topics"])}
                for group in body["groups"]
            ]
        }
    return _fetched(gateway, caller, body["group_id"], body["topics"])


def _fetched(gateway: Gateway, caller: Caller, group: str, topics: Sequence[Body] | None) -> Body:
    error = group_error(caller, group)
    answers: dict[TopicNumber, NumberedCommit | ErrorCode] = {}
    wanted = [(topic["name"], number) for topic in topics or () for number in topic["partition_indexes"]]
    if not error:
        try:
            if topics is None:
                wanted = [name for name in gateway.group_offsets.committed(group) if caller.may(CONSUME, name[0])]
            answers = dict(gateway.group_offsets.read(group, [name for name in wanted if caller.may(CONSUME, name[0])]))
        except ZkError as failure:
            logger.warning("group %s: its offsets cannot be read: %s", group, failure)
            error = UNAVAILABLE
    if topics is None:
        answers = {name: answer for name, answer in answers.items() if answer is not NOTHING}
        wanted = list(answers)
    if not error and caller.version < _WITH_UNSTABLE and UNAVAILABLE in answers.values():
        error = UNAVAILABLE  # of the whole group, since these clients do not ask again for some partitions only
    if error and caller.version >= _WITH_GROUP_ERROR:
        return {"topics": [], "error_code": error}
    refused = error or ErrorCode.TOPIC_AUTHORIZATION_FAILED
    told = {} if error else {name: _told(answer) for name, answer in answers.items()}
    return {"topics": _by_topic(((name, told.get(name, refused)) for name in wanted), _committed)}


def _told(answer: NumberedCommit | ErrorCode) -> NumberedCommit | ErrorCode:
    """Return the only error after which clients ask again for a partition, in place of another one that passes."""
    return ErrorCode.UNSTABLE_OFFSET_COMMIT if answer is UNAVAILABLE else answer


def _committed(answer: NumberedCommit | ErrorCode) -> Body:
    if isinstance(answer, ErrorCode):
        return {"committed_offset": NOTHING.number, "metadata": "", "error_code": answer}
    return {"committed_offset": answer.number, "metadata": answer.metadata}


def offset_delete(gateway: Gateway, caller: Caller, body: Body) -> Body:
    """Forget what a group has committed of partitions, unless a member subscribes to their topic."""
    group = body["group_id"]
    names = [(topic["name"], each["partition_index"]) for topic in body["topics"] for each in topic["partitions"]]
    error = group_error(caller, group)
    outcomes: dict[TopicNumber, ErrorCode] = {}
    if not error:
        try:
            error, outcomes = _deleted(gateway, caller, group, names)
        except ZkError as failure:
            logger.warning("group %s: its offsets cannot be deleted: %s", group, failure)
            error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    return {"error_code": error, "topics": _by_topic(outcomes.items(), lambda error: {"error_code": error})}


def _deleted(
    gateway: Gateway, caller: Caller, group: str, names: list[TopicNumber]
) -> tuple[ErrorCode, dict[TopicNumber, ErrorCode]]:
    state = gateway.group_directory.state(group)
    if state == DEAD:
        return ErrorCode.GROUP_ID_NOT_FOUND, {}
    subscribed = gateway.group_directory.subscribed_topics(group) if state == STABLE else set()
    outcomes: dict[TopicNumber, ErrorCode] = {}
    for name in names:
        if not caller.may(CONSUME, name[0]):
            outcomes[name] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif name[0] in subscribed:
            outcomes[name] = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    return ErrorCode.NONE, outcomes | gateway.group_offsets.delete(group, [n for n in names if n not in outcomes])


def _or_unavailable(
    carry_out: Callable[[], Mapping[TopicNumber, ErrorCode]], names: Iterable[TopicNumber]
) -> Mapping[TopicNumber, ErrorCode]:
    try:
        return carry_out()
    except ZkError as failure:
        logger.warning("offsets were not committed: %s", failure)
        return dict.fromkeys(names, ErrorCode.COORDINATOR_NOT_AVAILABLE)


def _by_topic(answers: Iterable[tuple[TopicNumber, T]], write: Callable[[T], Body]) -> list[Body]:
    by_topic: dict[str, list[Body]] = {}
    for (topic, number), answer in answers:
        by_topic.setdefault(topic, []).append({"partition_index": number, **write(answer)})
    return [{"name": topic, "partitions": partitions} for topic, partitions in by_topic.items()]
