"""ListOffsets: where logs begin and end, and where they were at a time; OffsetForLeaderEpoch."""

from __future__ import annotations

import logging
import time
from collections import Counter
from typing import TYPE_CHECKING

from kafka2011.errors import BrokerConnectionError, KafkaError
from kafka2011.gateway.partitions import await_current
from kafka2011.gateway.protocol.errors import ErrorCode
from kafka2011.gateway.requests.context import find_readable
from kafka2011.gateway.time_search import UnfinishedSearchError, largest_time, number_at_time

if TYPE_CHECKING:
    from kafka2011.gateway.partitions import Served
    from kafka2011.gateway.requests.context import Body, Caller, Gateway

logger = logging.getLogger(__name__)

LATEST = -1
EARLIEST = -2
LARGEST_TIME = -3
SEARCH_S = 5.0
"""The time that a request spends on an older gateway's index. The client asks again, and the next request goes on."""


def list_offsets(gateway: Gateway, caller: Caller, body: Body) -> Body:
    """Return a number for each partition: the first, the one after the last, or that of a time or the largest time."""
    topics = []
    ends_s = time.monotonic() + SEARCH_S
    times = Counter(
        (topic["name"], each["partition_index"]) for topic in body["topics"] for each in topic["partitions"]
    )
    for topic in body["topics"]:
        answers = []
        for partition in topic["partitions"]:
            number = partition["partition_index"]
            is_unique = times[topic["name"], number] == 1
            found = find_readable(gateway, caller, topic["name"], number) if is_unique else ErrorCode.INVALID_REQUEST
            answer = (
                {"error_code": found} if isinstance(found, ErrorCode) else _of(found, partition["timestamp"], ends_s)
            )
            answers.append({"partition_index": number, "timestamp": -1, "offset": -1, "leader_epoch": 0, **answer})
        topics.append({"name": topic["name"], "partitions": answers})
    return {"topics": topics}


def offset_for_leader_epoch(gateway: Gateway, caller: Caller, body: Body) -> Body:
    """Return the end of each log: there is one epoch, 0."""
    topics = []
    for topic in body["topics"]:
        answers = []
        for partition in topic["partitions"]:
            number = partition["partition"]
            found = find_readable(gateway, caller, topic["topic"], number)
            answer = {"error_code": found} if isinstance(found, ErrorCode) else _of(found, LATEST, 0)
            error, end = answer.get("error_code", ErrorCode.NONE), answer.get("offset", -1)
            answers.append({"error_code": error, "partition": number, "leader_epoch": 0, "end_offset": end})
        topics.append({"topic": topic["topic"], "partitions": answers})
    return {"topics": topics}


def _of(served: Served, timestamp: int, ends_s: float) -> Body:
    try:
        return _at(served, timestamp, ends_s)
    except (BrokerConnectionError, UnfinishedSearchError):
        return {"error_code": ErrorCode.NOT_LEADER_OR_FOLLOWER}
    except (KafkaError, OSError) as error:
        logger.warning("%s: its offsets cannot be told: %s", served.log.where, error)
        return {"error_code": ErrorCode.NOT_LEADER_OR_FOLLOWER}


def _at(served: Served, timestamp: int, ends_s: float) -> Body:
    if timestamp == EARLIEST:
        served.log.refresh_start()
        return {"offset": served.log.index().log_start().number}
    if not await_current(served):
        return {"error_code": ErrorCode.NOT_LEADER_OR_FOLLOWER}
    if timestamp == LATEST:
        end = served.log.index().end
        is_known = served.log.is_current  # else the index has just been opened again
        return {"offset": end.number} if is_known else {"error_code": ErrorCode.NOT_LEADER_OR_FOLLOWER}
    if timestamp < LARGEST_TIME:
        return {"error_code": ErrorCode.INVALID_REQUEST}
    if timestamp == LARGEST_TIME:
        found = largest_time(served.log, ends_s)
    else:
        found = number_at_time(served.log, timestamp, ends_s)
    if found is None:
        return {}
    # A message of 0.7 has no timestamp, and Java ends at a negative one.
    return {"offset": found.number, "timestamp": timestamp if found.timestamp < 0 <= timestamp else found.timestamp}
