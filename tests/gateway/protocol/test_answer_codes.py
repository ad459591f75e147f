"""Which error codes responses may carry."""

from __future__ import annotations

import logging
import struct
from typing import TYPE_CHECKING

import pytest

from kafka2011.gateway.protocol.answer_codes import LEVELS, STRICT_VARIABLE, Codes, ForbiddenCodeError, forbidden
from kafka2011.gateway.protocol.errors import ErrorCode
from kafka2011.gateway.protocol.fields import Api
from kafka2011.gateway.protocol.frames import TABLES, write_response
from scripts.answer_codes import CLIENTS, RETRIES, measured

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafka2011.gateway.protocol.fields import MessageField

FIRST_WITH_UNSTABLE = 7
END_A_JAVA_CONSUMER = {ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.INVALID_REQUEST}


def _levels(fields: tuple[MessageField, ...], level: str = "") -> Iterator[str]:
    for field in fields:
        if field.name == "error_code":
            yield level
        yield from _levels(field.fields, field.name)


def test_each_level_of_each_response_has_its_codes() -> None:
    """A new response, or a new array with error codes, needs a line in LEVELS; a line without a response is dead."""
    assert {(api, level) for api, tables in TABLES.items() for level in _levels(tables.response)} == {*LEVELS}


def test_a_fetch_says_nothing_that_ends_a_java_consumer() -> None:
    level = LEVELS[Api.FETCH, "partitions"]
    assert not END_A_JAVA_CONSUMER & {level.passing, *level.others}
    assert level.passing is ErrorCode.NOT_LEADER_OR_FOLLOWER


def _fetched(code: int) -> int:
    """Return the code of a partition in an encoded response to a Fetch of version 4."""
    partition = {"partition_index": 0, "error_code": code}
    body = {"responses": [{"topic": "t", "partitions": [partition]}]}
    data = b"".join(bytes(part) for part in write_response(Api.FETCH, 4, 1, body))
    at = 4 + 4 + 4 + 4 + (2 + 1) + 4 + 4  # size, correlation id, throttle time, topics, a name, partitions, index
    return int(struct.unpack_from(">h", data, at)[0])


def test_the_encoder_replaces_a_forbidden_code(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged and counted; a gateway goes on, and so do its clients."""
    monkeypatch.delenv(STRICT_VARIABLE)
    before = forbidden[Api.FETCH, 5]
    with caplog.at_level(logging.ERROR):
        assert _fetched(ErrorCode.LEADER_NOT_AVAILABLE) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert forbidden[Api.FETCH, 5] == before + 1
    assert "FETCH was to say 5 of one of its partitions" in caplog.text


def test_in_tests_the_encoder_raises() -> None:
    with pytest.raises(ForbiddenCodeError, match="FETCH was to say 5"):
        _fetched(ErrorCode.LEADER_NOT_AVAILABLE)


@pytest.mark.parametrize("code", [ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.NOT_LEADER_OR_FOLLOWER])
def test_codes_that_clients_survive_stay(code: ErrorCode) -> None:
    assert _fetched(code) == code


def test_codes_are_numbers_too() -> None:
    """A handler may give a code as it came from another gateway."""
    assert Codes(Api.FETCH, "partitions")[6] == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_every_client_retries_what_is_answered_for_a_state_that_passes() -> None:
    """The proof measured it. librdkafka's consumer shows a topic without a leader as an event, and reads it later."""
    seen = {
        (row.way, row.api, row.level, client): did
        for row in measured()
        for client, (did, version) in row.results.items()
        if row.code is LEVELS[row.api, row.level].passing
        and (row.code is not ErrorCode.UNSTABLE_OFFSET_COMMIT or version >= FIRST_WITH_UNSTABLE)
    }
    others = {key: did for key, did in seen.items() if did != RETRIES}
    assert others == {("consume", Api.METADATA, "topics", "librdkafka"): "tells"}
    assert {client for *_, client in seen} == {*CLIENTS}
