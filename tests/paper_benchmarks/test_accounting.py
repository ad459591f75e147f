"""No figure counts before every message of it was found in the log."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from kafka2011.consumer.simple_consumer import FetchedSet
from kafka2011.message.message_set import MessageSet
from kafka2011.wire.protocol import FetchRequest
from paper_benchmarks.measuring.accounting import check_landed
from paper_benchmarks.measuring.errors import BenchmarkError

if TYPE_CHECKING:
    from kafka2011.consumer.simple_consumer import SimpleConsumer

MESSAGE = bytes(MessageSet([b"x" * 200]))


class Log:
    """Partition 0 of a topic, of which more becomes readable with each fetch that found nothing."""

    def __init__(self, data: bytes, *flushes: bytes) -> None:
        self._data = data
        self._flushes = list(flushes)

    def fetch(self, topic: str, partition: int, offset: int, max_bytes: int) -> FetchedSet:
        data = self._data[offset : offset + max_bytes]
        if not data and self._flushes:
            self._data += self._flushes.pop(0)
        return FetchedSet(FetchRequest(topic, partition, offset, max_bytes), None, data)


def check(log: Log, messages: int, timeout_s: float = 60.0) -> int:
    return check_landed(cast("SimpleConsumer", log), "views", messages, timeout_s)


def test_all_that_was_sent_is_waited_for() -> None:
    """The end of the log is told once every message can be read."""
    assert check(Log(MESSAGE * 2, MESSAGE, MESSAGE * 2), 5) == 5 * len(MESSAGE)


def test_more_than_one_fetch_is_counted() -> None:
    """A fetch that cuts a message off counts it with the next one."""
    messages = 2 * 1024 * 1024 // len(MESSAGE)
    assert check(Log(MESSAGE * messages), messages) == messages * len(MESSAGE)


@pytest.mark.parametrize("landed", [4, 6])
def test_one_too_few_or_too_many_is_an_error(landed: int) -> None:
    """It names both numbers and the partition."""
    with pytest.raises(BenchmarkError, match=f"5 messages were sent to views-0, but {landed} are there"):
        check(Log(MESSAGE * landed), 5, 0.0 if landed < 5 else 60.0)


def test_what_is_no_message_is_an_error() -> None:
    """Bytes alone are not enough."""
    broken = bytearray(MESSAGE * 3)
    broken[-1] ^= 1
    with pytest.raises(BenchmarkError, match=f"views-0 at offset {2 * len(MESSAGE)}: .*CRC"):
        check(Log(bytes(broken)), 3)
