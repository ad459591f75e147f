"""Produce and InitProducerId: record batches become 0.7's sets, and are appended by their partition's appender."""

from __future__ import annotations

import logging
import os
import secrets
from typing import TYPE_CHECKING

from kafka2011.broker.security.access import PRODUCE
from kafka2011.gateway.appends import Append
from kafka2011.gateway.protocol.errors import ErrorCode
from kafka2011.gateway.records.batches import open_batches
from kafka2011.gateway.records.errors import InvalidRecordsError
from kafka2011.gateway.records.found import Origin
from kafka2011.gateway.records.wrappers import plain_set_of, wrappers_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka2011.gateway.partitions import Served
    from kafka2011.gateway.requests.context import Body, Caller, Gateway

logger = logging.getLogger(__name__)

_ALL = -1
_NONE = 0
_LEADER = 1


def begin_produce(gateway: Gateway, caller: Caller, body: Body) -> Callable[[Callable[[], object]], Body | None]:
    """Begin to append what a request carries; call what is returned for the answer, None if none is wanted.

    That calls what it is given before it waits.
    """
    acks = body["acks"]
    begun: list[tuple[str, int, Append]] = []
    for topic in body["topic_data"]:
        for partition in topic["partition_data"]:
            append = _begin(gateway, caller, topic["name"], partition, acks, body.get("transactional_id"))
            begun.append((topic["name"], partition["index"], append))

    def finish(before_wait: Callable[[], object]) -> Body | None:
        if acks == _NONE:
            return None
        responses: dict[str, list[Body]] = {}
        for name, number, append in begun:
            if not append.done.is_set():
                before_wait()
                append.done.wait()
            if append.error is ErrorCode.MESSAGE_TOO_LARGE and append.is_sent:
                gateway.counts["invalid_records"] += 1
            response: Body = {"index": number, "error_code": append.error, "base_offset": append.first_number}
            index = None if append.log is None or append.error else append.log.known_index
            if index is not None:
                response["log_start_offset"] = index.log_start().number
            if append.text:
                response["error_message"] = append.text
            responses.setdefault(name, []).append(response)
        return {"responses": [{"name": name, "partition_responses": answers} for name, answers in responses.items()]}

    return finish


def init_producer_id(_gateway: Gateway, _caller: Caller, body: Body) -> Body:
    """Give a producer a random id; one that has an id keeps it, in the next epoch."""
    if body["transactional_id"] is not None:
        return {
            "error_code": ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            "producer_id": -1,
            "producer_epoch": -1,
        }
    producer_id, epoch = body.get("producer_id", -1), body.get("producer_epoch", -1)
    if producer_id >= 0 and 0 <= epoch < 2**15 - 1:
        return {"producer_id": producer_id, "producer_epoch": epoch + 1}
    return {"producer_id": secrets.randbits(62), "producer_epoch": 0}


def _begin(
    gateway: Gateway, caller: Caller, topic: str, partition: Body, acks: int, transactional_id: str | None
) -> Append:
    append = Append(is_acknowledged=acks != _NONE)
    found = gateway.partitions.find(topic, partition["index"])
    if acks not in {_ALL, _NONE, _LEADER}:
        append.finish(ErrorCode.INVALID_REQUIRED_ACKS)
    elif transactional_id is not None:
        append.finish(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    elif not caller.may(PRODUCE, topic):
        append.finish(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    elif isinstance(found, ErrorCode):
        append.finish(found)
    else:
        try:
            _fill(gateway, append, found, partition["records"])
        except InvalidRecordsError as error:
            gateway.counts["invalid_records"] += 1
            logger.warning("%s at %s, for %s: %s", caller.principal, caller.name, found.log.where, error)
            append.text = str(error)
            append.finish(ErrorCode(error.code))
        else:
            gateway.counts["records_in"] += append.records
            append.log = found.log
            found.appender.append(append)
    return append


def _fill(gateway: Gateway, append: Append, served: Served, records: bytes | memoryview | None) -> None:
    config, log = gateway.config, served.log
    batch, *others = open_batches(records or b"", config.max_socket_request_bytes)
    if others:
        raise InvalidRecordsError(ErrorCode.INVALID_RECORD, "a request has one record batch for a partition")
    append.records = batch.records
    if log.where.topic in config.plain_topics:
        if batch.producer_id >= 0:
            raise InvalidRecordsError(
                ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
                f"topic {log.where.topic} stores plain messages, which know no idempotence: set"
                " enable.idempotence=false",
            )
        append.sets = [(plain_set_of(batch, config.max_message_size), None)]
        return
    append.sets = [
        *wrappers_of(batch, log.wrapper_id.bytes, log.number, _new_mark, config.max_set_bytes, config.max_message_size)
    ]
    if batch.producer_id >= 0:
        append.batch = Origin(batch.producer_id, batch.producer_epoch, batch.first_sequence, batch.records, _new_mark())


def _new_mark() -> bytes:
    return os.urandom(8)
