"""CreateTopics, DeleteTopics, CreatePartitions, and DeleteRecords."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka2011.broker.security.access import CREATE_TOPICS, DELETE_TOPICS, GROW_TOPICS
from kafka2011.errors import KafkaError
from kafka2011.gateway.protocol.errors import ErrorCode
from kafka2011.gateway.requests.configs import unmet_config
from kafka2011.gateway.topic_changes import DONE
from kafka2011.message.topic import validate_topic

if TYPE_CHECKING:
    from kafka2011.gateway.requests.context import Body, Caller, Gateway
    from kafka2011.gateway.topic_changes import Outcome

_NAMED_TWICE = ErrorCode.INVALID_REQUEST, "the request names this topic more than once"


def create_topics(gateway: Gateway, caller: Caller, body: Body) -> Body:
    """Create topics, each with exactly the partitions that are asked for, or not at all."""
    answers = []
    for topic, is_unique in _each_once(body["topics"]):
        name, wanted = topic["name"], topic["num_partitions"]
        error, text = _may_change(caller, CREATE_TOPICS, name) if is_unique else _NAMED_TWICE
        if not error and topic.get("assignments"):
            error, text = ErrorCode.INVALID_REQUEST, "brokers are not chosen by a client here"
        if not error and topic["replication_factor"] not in {-1, 1}:
            error, text = ErrorCode.INVALID_REPLICATION_FACTOR, "replicas are of brokers here, not of topics: ask for 1"
        is_new = name not in gateway.catalogue.lists
        if not error and is_new and (unmet := unmet_config(gateway, name, topic["configs"])):
            error, text = ErrorCode.INVALID_CONFIG, unmet
        if not error:
            partitions = None if wanted == -1 else wanted
            error, text = gateway.topic_changes.create(name, partitions, only_check=body["validate_only"])
        known = gateway.catalogue.lists.get(name)
        answer = {"name": name, "error_code": error, "error_message": text or None, "configs": []}
        if known is not None and not error:
            made = len(known.partitions)
            answer |= {"topic_id": known.topic_id.bytes, "num_partitions": made, "replication_factor": 1}
        answers.append(answer)
    return {"topics": answers}


def delete_topics(gateway: Gateway, caller: Caller, body: Body) -> Body:
    """Delete topics by name or id."""
    names = {known.topic_id.bytes: known.topic for known in gateway.catalogue.lists.values()}
    asked = [*(body.get("topics") or ()), *({"name": name} for name in body.get("topic_names") or ())]
    for topic in asked:
        topic["name"] = topic["name"] or names.get(topic.get("topic_id"))
    answers = []
    for topic, is_unique in _each_once(asked):
        name = topic["name"]
        if not is_unique:
            error, text = _NAMED_TWICE
        elif name is None:
            error, text = ErrorCode.UNKNOWN_TOPIC_ID, ""
        else:
            error, text = _may_change(caller, DELETE_TOPICS, name)
        if not error:
            error, text = gateway.topic_changes.delete(name)
        answers.append({**topic, "error_code": error, "error_message": text or None})
    return {"responses": answers}


def create_partitions(gateway: Gateway, caller: Caller, body: Body) -> Body:
    """Let topics grow."""
    answers = []
    for topic, is_unique in _each_once(body["topics"]):
        name = topic["name"]
        error, text = _may_change(caller, GROW_TOPICS, name) if is_unique else _NAMED_TWICE
        if not error and topic.get("assignments"):
            error, text = ErrorCode.INVALID_REQUEST, "brokers are not chosen by a client here"
        if not error:
            error, text = gateway.topic_changes.grow(name, topic["count"], only_check=body["validate_only"])
        answers.append({"name": name, "error_code": error, "error_message": text or None})
    return {"results": answers}


def refuse_deletion(_gateway: Gateway, _caller: Caller, body: Body) -> Body:
    """Refuse DeleteRecords: only retention deletes messages of 0.7."""
    return {
        "topics": [
            {
                "name": topic["name"],
                "partitions": [
                    {
                        "partition_index": part["partition_index"],
                        "low_watermark": -1,
                        "error_code": ErrorCode.POLICY_VIOLATION,
                    }
                    for part in topic["partitions"]
                ],
            }
            for topic in body["topics"]
        ]
    }


def _each_once(topics: list[Body]) -> list[tuple[Body, bool]]:
    """Return each topic that a request names once, by its name or its id, and whether the request does so, too."""
    same: dict[object, list[Body]] = {}
    for topic in topics:
        same.setdefault(topic["name"] or topic.get("topic_id"), []).append(topic)
    return [(found[0], len(found) == 1) for found in same.values()]


def _may_change(caller: Caller, what: str, topic: str) -> Outcome:
    try:
        validate_topic(topic)
    except KafkaError as error:
        return ErrorCode.INVALID_TOPIC_EXCEPTION, str(error)
    if not caller.may(what, topic):
        text = f"no line of [{what}] in allow.file allows topic {topic} to {caller.principal}"
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED, text
    return DONE
