"""ListOffsets by time: what clients are told of the message that was found."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kafka2011.errors import LogError
from kafka2011.gateway.numbering.partition_index import PartitionIndex
from kafka2011.gateway.protocol.errors import ErrorCode
from kafka2011.gateway.requests import offsets
from kafka2011.gateway.requests.context import Caller
from kafka2011.gateway.requests.offsets import list_offsets
from kafka2011.message.message_set import MessageSet
from tests.gateway.test_appends import Partition, eventually


def told(partition: Partition, timestamp: int) -> tuple[ErrorCode, int, int]:
    served = SimpleNamespace(log=partition.log, want=lambda: partition.tail.want(partition.log))
    gateway: Any = SimpleNamespace(partitions=SimpleNamespace(find=lambda *_: served))
    body = {"topics": [{"name": "views", "partitions": [{"partition_index": 0, "timestamp": timestamp}]}]}
    (topic,) = list_offsets(gateway, Caller("anonymous", "here", False, None), body)["topics"]
    (answer,) = topic["partitions"]
    return answer.get("error_code", ErrorCode.NONE), answer["offset"], answer["timestamp"]


def test_a_message_of_0_7_is_told_with_the_time_that_was_asked_for(partition: Partition) -> None:
    """Java's consumer ends at a negative timestamp."""
    partition.sent(b"one", timestamp=1_500)
    partition.broker.append(bytes(MessageSet([b"2011"])))
    assert told(partition, 1_000) == (ErrorCode.NONE, 0, 1_500)
    eventually(lambda: told(partition, 2_000) == (ErrorCode.NONE, 1, 2_000))
    assert told(partition, 2**62) == (ErrorCode.NONE, -1, -1)
    assert told(partition, offsets.LARGEST_TIME) == (ErrorCode.NONE, 0, 1_500)


def test_an_end_that_is_not_known_yet_is_not_told(partition: Partition, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients would take the log for shorter, or for empty."""
    assert partition.sent(b"one") == (ErrorCode.NONE, 0)
    partition.log.store()
    eventually(lambda: told(partition, offsets.LATEST) == (ErrorCode.NONE, 1, -1))
    index = partition.log.index
    assert partition.anchors.text is not None
    partition.anchors.text = partition.anchors.text.replace('"senders"', '"other"')
    partition.file.stored = partition.file.tail = None

    def fail(*_: object) -> None:
        raise LogError("another gateway has written the anchors")

    def open_again() -> PartitionIndex:
        monkeypatch.undo()
        with monkeypatch.context() as patch:
            patch.setattr(partition.log, "earliest", lambda: 1)
            patch.setattr(PartitionIndex, "note_log_start", fail)
            with pytest.raises(LogError):
                partition.log.refresh_start()
        return index()

    monkeypatch.setattr(partition.log, "index", open_again)
    assert told(partition, offsets.LATEST) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1, -1)
    eventually(lambda: told(partition, offsets.LATEST) == (ErrorCode.NONE, 1, -1))


def test_a_search_that_is_not_finished_is_asked_again(partition: Partition, monkeypatch: pytest.MonkeyPatch) -> None:
    """It reads what an older gateway has indexed."""
    monkeypatch.setattr(offsets, "SEARCH_S", -1)
    for timestamp in range(40):
        partition.sent(b"v" * 200_000, timestamp=timestamp)
    partition.log.store()
    assert partition.file.stored is not None
    partition.file.stored = partition.file.stored._replace(times=None)
    partition.restart()
    answers = [told(partition, 39) for _ in range(10)]
    assert answers[0] == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1, -1)
    assert answers[-1] == (ErrorCode.NONE, 39, 39)
