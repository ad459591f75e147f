"""The error codes that each response may carry, and the code of each for a state that passes.

A code is right only if clients survive it: Java's consumer throws out of `poll` at most codes of Fetch, and KafkaJS
ends at some codes of OffsetCommit. docs/reference/gateway-codes.md shows what each client does with each code. A state
that passes (a broker that is away, an index that is being opened, a takeover, ZooKeeper away) is answered only with
codes that all clients retry.
"""

from __future__ import annotations

import logging
import os
from collections import Counter
from typing import NamedTuple

from kafka2011.gateway.protocol.errors import ErrorCode
from kafka2011.gateway.protocol.fields import Api

logger = logging.getLogger(__name__)

STRICT_VARIABLE = "STRICT_GATEWAY_CODES"
"""The environment variable that makes a forbidden code an exception, for tests."""

forbidden: Counter[tuple[Api, int]] = Counter()
"""How often each code was replaced in responses to each request since the start."""


class ForbiddenCodeError(Exception):
    """Means that a response was to carry a code that its clients cannot bear."""


class Level(NamedTuple):
    """The codes of one level of a response.

    `passing` is the code for a state that passes, `others` are all others but NONE.
    """

    passing: ErrorCode
    others: frozenset[ErrorCode]


def _level(passing: ErrorCode, *others: ErrorCode) -> Level:
    return Level(passing, frozenset(others))


_E = ErrorCode
_RIGHTS = (_E.INVALID_GROUP_ID, _E.GROUP_AUTHORIZATION_FAILED)
_TOPIC = (_E.UNKNOWN_TOPIC_OR_PARTITION, _E.TOPIC_AUTHORIZATION_FAILED)
_MEMBER = (*_RIGHTS, _E.UNKNOWN_MEMBER_ID, _E.FENCED_INSTANCE_ID)
_CHANGED_TOPIC = (
    *_TOPIC,
    _E.LEADER_NOT_AVAILABLE,
    _E.COORDINATOR_NOT_AVAILABLE,
    _E.INVALID_TOPIC_EXCEPTION,
    _E.INVALID_REQUEST,
    _E.INVALID_PARTITIONS,
    _E.UNKNOWN_TOPIC_ID,
)
_ROOT = ""

LEVELS: dict[tuple[Api, str], Level] = {
    (Api.API_VERSIONS, _ROOT): _level(_E.UNSUPPORTED_VERSION),
    (Api.METADATA, "topics"): _level(_E.LEADER_NOT_AVAILABLE, *_TOPIC, _E.INVALID_TOPIC_EXCEPTION, _E.UNKNOWN_TOPIC_ID),
    (Api.METADATA, "partitions"): _level(_E.LEADER_NOT_AVAILABLE),
    (Api.PRODUCE, "partition_responses"): _level(
        _E.NOT_LEADER_OR_FOLLOWER,
        *_TOPIC,
        _E.REQUEST_TIMED_OUT,  # where the batch was sent, and may be stored
        _E.CORRUPT_MESSAGE,
        _E.MESSAGE_TOO_LARGE,
        _E.INVALID_REQUIRED_ACKS,
        _E.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        _E.OUT_OF_ORDER_SEQUENCE_NUMBER,
        _E.DUPLICATE_SEQUENCE_NUMBER,
        _E.INVALID_PRODUCER_EPOCH,
        _E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        _E.UNSUPPORTED_COMPRESSION_TYPE,
        _E.INVALID_RECORD,
    ),
    (Api.FETCH, _ROOT): _level(_E.FETCH_SESSION_ID_NOT_FOUND),
    (Api.FETCH, "partitions"): _level(
        _E.NOT_LEADER_OR_FOLLOWER,
        *_TOPIC,
        _E.OFFSET_OUT_OF_RANGE,
        _E.CORRUPT_MESSAGE,  # of bytes that no retry makes readable
        _E.UNKNOWN_TOPIC_ID,
        _E.INCONSISTENT_TOPIC_ID,
    ),
    (Api.LIST_OFFSETS, "partitions"): _level(_E.NOT_LEADER_OR_FOLLOWER, *_TOPIC, _E.INVALID_REQUEST),
    (Api.OFFSET_FOR_LEADER_EPOCH, "partitions"): _level(_E.NOT_LEADER_OR_FOLLOWER, *_TOPIC),
    (Api.FIND_COORDINATOR, _ROOT): _level(
        _E.COORDINATOR_NOT_AVAILABLE, *_RIGHTS, _E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    ),
    (Api.FIND_COORDINATOR, "coordinators"): _level(
        _E.COORDINATOR_NOT_AVAILABLE, *_RIGHTS, _E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    ),
    (Api.JOIN_GROUP, _ROOT): _level(
        _E.NOT_COORDINATOR,
        *_MEMBER,
        _E.INCONSISTENT_GROUP_PROTOCOL,
        _E.INVALID_SESSION_TIMEOUT,
        _E.MEMBER_ID_REQUIRED,
        _E.GROUP_MAX_SIZE_REACHED,
    ),
    (Api.SYNC_GROUP, _ROOT): _level(_E.NOT_COORDINATOR, *_MEMBER, _E.ILLEGAL_GENERATION, _E.REBALANCE_IN_PROGRESS),
    (Api.HEARTBEAT, _ROOT): _level(_E.NOT_COORDINATOR, *_MEMBER, _E.ILLEGAL_GENERATION, _E.REBALANCE_IN_PROGRESS),
    (Api.LEAVE_GROUP, _ROOT): _level(_E.NOT_COORDINATOR, *_MEMBER),
    (Api.LEAVE_GROUP, "members"): _level(_E.NOT_COORDINATOR, *_MEMBER),
    (Api.OFFSET_COMMIT, "partitions"): _level(
        _E.COORDINATOR_NOT_AVAILABLE,
        *_MEMBER,
        _E.NOT_COORDINATOR,
        *_TOPIC,
        _E.COORDINATOR_LOAD_IN_PROGRESS,
        _E.ILLEGAL_GENERATION,
        _E.REBALANCE_IN_PROGRESS,
        _E.OFFSET_METADATA_TOO_LARGE,
    ),
    (Api.OFFSET_FETCH, _ROOT): _level(_E.COORDINATOR_LOAD_IN_PROGRESS, *_RIGHTS),
    (Api.OFFSET_FETCH, "groups"): _level(_E.COORDINATOR_LOAD_IN_PROGRESS, *_RIGHTS),
    (Api.OFFSET_FETCH, "partitions"): _level(
        _E.UNSTABLE_OFFSET_COMMIT,
        *_TOPIC,
        *_RIGHTS,  # of versions that have no error for the whole answer, as the next one
        _E.COORDINATOR_LOAD_IN_PROGRESS,
        _E.UNKNOWN_SERVER_ERROR,  # of an offset in ZooKeeper that nobody can read
    ),
    (Api.OFFSET_DELETE, _ROOT): _level(_E.COORDINATOR_NOT_AVAILABLE, *_RIGHTS, _E.GROUP_ID_NOT_FOUND),
    (Api.OFFSET_DELETE, "partitions"): _level(_E.COORDINATOR_NOT_AVAILABLE, *_TOPIC, _E.GROUP_SUBSCRIBED_TO_TOPIC),
    (Api.DESCRIBE_GROUPS, "groups"): _level(_E.COORDINATOR_NOT_AVAILABLE, *_RIGHTS),
    (Api.LIST_GROUPS, _ROOT): _level(_E.COORDINATOR_NOT_AVAILABLE),
    (Api.DELETE_GROUPS, "results"): _level(
        _E.COORDINATOR_NOT_AVAILABLE, *_RIGHTS, _E.NON_EMPTY_GROUP, _E.GROUP_ID_NOT_FOUND
    ),
    (Api.CREATE_TOPICS, "topics"): _level(
        _E.REQUEST_TIMED_OUT,
        *_CHANGED_TOPIC,
        _E.TOPIC_ALREADY_EXISTS,
        _E.INVALID_REPLICATION_FACTOR,
        _E.INVALID_CONFIG,
    ),
    (Api.DELETE_TOPICS, "responses"): _level(_E.REQUEST_TIMED_OUT, *_CHANGED_TOPIC, _E.TOPIC_DELETION_DISABLED),
    (Api.CREATE_PARTITIONS, "results"): _level(_E.REQUEST_TIMED_OUT, *_CHANGED_TOPIC),
    (Api.DELETE_RECORDS, "partitions"): _level(_E.POLICY_VIOLATION),
    (Api.INIT_PRODUCER_ID, _ROOT): _level(_E.COORDINATOR_LOAD_IN_PROGRESS, _E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
    (Api.DESCRIBE_CONFIGS, "results"): _level(_E.REQUEST_TIMED_OUT, *_TOPIC, _E.INVALID_REQUEST),
    (Api.ALTER_CONFIGS, "responses"): _level(_E.REQUEST_TIMED_OUT, _E.INVALID_REQUEST),
    (Api.INCREMENTAL_ALTER_CONFIGS, "responses"): _level(_E.REQUEST_TIMED_OUT, _E.INVALID_REQUEST),
    (Api.DESCRIBE_LOG_DIRS, _ROOT): _level(_E.REQUEST_TIMED_OUT),
    (Api.DESCRIBE_LOG_DIRS, "results"): _level(_E.KAFKA_STORAGE_ERROR),
    (Api.DESCRIBE_CLUSTER, _ROOT): _level(_E.REQUEST_TIMED_OUT),
    (Api.PLACES, "places"): _level(_E.COORDINATOR_LOAD_IN_PROGRESS, *_TOPIC),
}
"""By request and level: the name of the array whose elements have the code, "" for that of the whole response."""


class Codes(dict[int, int]):
    """The codes of one level by themselves; a forbidden code gives the passing one, logged and counted.

    Where `STRICT_GATEWAY_CODES` is set, it raises ForbiddenCodeError.
    """

    def __init__(self, api: Api, level: str) -> None:
        known = LEVELS[api, level]
        super().__init__({code: code for code in (ErrorCode.NONE, known.passing, *known.others)})
        self._key = api, level
        self._passing = known.passing

    def __missing__(self, code: int) -> int:
        """Replace a forbidden code."""
        api, level = self._key
        text = f"a response to {api.name} was to say {code}" + (f" of one of its {level}" if level else "")
        if os.environ.get(STRICT_VARIABLE):
            raise ForbiddenCodeError(text)
        forbidden[api, code] += 1
        logger.error("%s, which not all clients survive: it says %d instead", text, self._passing)
        return self._passing
