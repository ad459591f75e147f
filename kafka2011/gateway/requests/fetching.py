"""Fetch: records from numbers on, and a wait at the ends of logs."""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import gevent
from gevent.pool import Pool

from kafka2011.broker.memory.memory_budget import MemoryRefusedError
from kafka2011.errors import BrokerConnectionError, KafkaError
from kafka2011.gateway.partition_log import CorruptLogError
from kafka2011.gateway.protocol.errors import ErrorCode
from kafka2011.gateway.records.errors import InvalidRecordsError, LostBoundaryError
from kafka2011.gateway.requests.context import find_readable
from zk.errors import ZkError

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka2011.gateway.partition_log import PartitionLog
    from kafka2011.gateway.partitions import Served
    from kafka2011.gateway.requests.context import Body, Caller, Gateway

logger = logging.getLogger(__name__)

MAX_WAIT_S = 60.0
LEAST_BYTES = 1
_WITH_TOPIC_ID = 13
"""From this version on, clients name topics by their ids."""
OPENED_AT_ONCE = 8
"""How many indexes one request opens at once."""
MOST_BYTES = 16 * 1024 * 1024
"""The most that an answer has, whatever a client asks for, beside a first batch that is larger."""
_UNKNOWN_ANSWER = {"high_watermark": -1, "last_stable_offset": -1, "log_start_offset": -1, "records": b""}


class _Room:
    """The room of one answer: memory is taken for it once there is something to read."""

    def __init__(self, reserve: Callable[[int], int], most_bytes: int) -> None:
        self._reserve = reserve
        self._most_bytes = most_bytes
        self._is_reserved = False
        self.size = 0

    def left(self, most_bytes: int) -> int:
        """Return how many bytes more may be read, `most_bytes` at most. Raises MemoryRefusedError."""
        if not self._is_reserved:
            self._is_reserved = True
            self._most_bytes = self._reserve(self._most_bytes)
        return max(0, min(most_bytes, self._most_bytes - self.size))


class _Asked(NamedTuple):
    topic: bytes | str  # by its id from version 13 on
    number: int
    offset: int
    max_bytes: int
    served: Served | ErrorCode


def fetch(gateway: Gateway, caller: Caller, body: Body) -> Body:
    """Return records of partitions, once there are `min_bytes` of them, or an error, or the time is over."""
    key = "topic" if caller.version < _WITH_TOPIC_ID else "topic_id"
    asked = [
        _Asked(
            topic[key],
            partition["partition"],
            partition["fetch_offset"],
            partition["partition_max_bytes"],
            _find(gateway, caller, topic[key], partition["partition"]),
        )
        for topic in body["topics"]
        for partition in topic["partitions"]
    ]
    logs = [item.served.log for item in asked if not isinstance(item.served, ErrorCode)]
    _open_indexes(logs)
    ends_s = time.monotonic() + min(body["max_wait_ms"] / 1000, MAX_WAIT_S)
    least_bytes = max(LEAST_BYTES, body["min_bytes"]) if body["max_wait_ms"] > 0 else 0
    most_bytes = min(body.get("max_bytes", MOST_BYTES), MOST_BYTES, sum([max(item.max_bytes, 0) for item in asked]))
    while True:
        events = [log.changes for log in logs]
        room = _Room(caller.reserve, max(most_bytes, 0))
        answers = [_read(item, room) for item in asked]
        left_s = ends_s - time.monotonic()
        if room.size >= least_bytes or left_s <= 0 or any(answer.get("error_code") for answer in answers):
            break
        answers.clear()  # they are read again: who waits holds no memory
        caller.reserve(0)
        if len(events) == 1:  # which costs a third of waiting for one of several
            events[0].wait(left_s)
        else:
            gevent.wait(events, count=1, timeout=left_s)
    by_topic: dict[bytes | str, list[Body]] = {}
    for item, answer in zip(asked, answers, strict=True):
        by_topic.setdefault(item.topic, []).append({**_UNKNOWN_ANSWER, "partition_index": item.number, **answer})
    gateway.counts["record_bytes_out"] += room.size
    return {"responses": [{key: topic, "partitions": parts} for topic, parts in by_topic.items()]}


def _find(gateway: Gateway, caller: Caller, topic: bytes | str, number: int) -> Served | ErrorCode:
    """Return a partition by its topic's name, or by the id that a topic of that name has since it was created."""
    name = topic if isinstance(topic, str) else gateway.catalogue.topic_of(topic)
    return ErrorCode.UNKNOWN_TOPIC_ID if name is None else find_readable(gateway, caller, name, number)


def _open_indexes(logs: list[PartitionLog]) -> None:
    """Open those that are not open, several at once: each waits for the broker and for ZooKeeper."""
    unopened = [log for log in logs if log.known_index is None]
    if len(unopened) > 1:
        Pool(OPENED_AT_ONCE).map(_open_index, unopened)


def _open_index(log: PartitionLog) -> None:
    with suppress(KafkaError, OSError, ZkError):  # whoever reads it finds out
        log.index()


def _read(item: _Asked, room: _Room) -> Body:
    served = item.served
    if isinstance(served, ErrorCode):
        return {"error_code": served}
    served.want()
    try:
        return _records(item, served.log, room)
    except MemoryRefusedError:
        raise
    except (CorruptLogError, LostBoundaryError, InvalidRecordsError):
        return {"error_code": ErrorCode.CORRUPT_MESSAGE}
    except BrokerConnectionError:
        return {"error_code": ErrorCode.NOT_LEADER_OR_FOLLOWER}
    except (KafkaError, OSError) as error:
        logger.warning("%s cannot be read at %d: %s", served.log.where, item.offset, error)
        return {"error_code": ErrorCode.NOT_LEADER_OR_FOLLOWER}


def _records(item: _Asked, log: PartitionLog, room: _Room) -> Body:
    index = log.index()
    (start_position, start), end = index.log_start(), index.end.number
    answer = {"high_watermark": end, "last_stable_offset": end, "log_start_offset": start}
    if log.fault:
        return {"error_code": ErrorCode.NOT_LEADER_OR_FOLLOWER}
    offset = item.offset
    if 0 <= offset < start and start_position == 0:  # the numbers before the first message were never in this log
        offset = start
    if offset < start or (offset > end and log.is_current):
        return {**answer, "error_code": ErrorCode.OFFSET_OUT_OF_RANGE}
    if offset >= end:
        return answer
    max_bytes = room.left(item.max_bytes)
    if not max_bytes and room.size:
        return answer
    records = log.records(offset, max_bytes)
    room.size += len(records)
    return {**answer, "records": records}
