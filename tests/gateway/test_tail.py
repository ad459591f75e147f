"""Following the ends of logs, as long as they are wanted."""

from __future__ import annotations

import ssl
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import gevent
import pytest

from kafka2011.gateway import tail
from kafka2011.gateway.numbering.partition_index import PartitionIndex
from kafka2011.gateway.partition_log import PartitionLog
from kafka2011.gateway.partitions import await_current
from kafka2011.gateway.tail import JUDGED_WAITS, BrokerTail
from kafka2011.message.message_set import MessageSet
from tests.gateway.test_appends import TOPIC_ID
from tests.models.gateway.toys import Steps, ToyAnchors, ToyFile
from tests.planted.patches import Defect, read_defects
from tests.support.broker_in_memory import BrokerInMemory
from tests.support.noticing import assert_noticed
from zk.cluster import TopicPartition
from zk.number_floors import NumberFloors

if TYPE_CHECKING:
    from collections.abc import Iterator

DEADLINE_S = 20.0


class Followed:
    """A log that is followed: what `await_current` needs of a partition in service."""

    def __init__(self) -> None:
        self.broker = BrokerInMemory()
        links: Any = self.broker
        self.log = PartitionLog(
            TopicPartition("views", 0, 0), 0, TOPIC_ID, NumberFloors(), lambda: links, self._new_index, 1024 * 1024
        )
        self.tail = BrokerTail(links)

    def _new_index(self, log: PartitionLog) -> PartitionIndex:
        steps = Steps()
        return PartitionIndex(log, log.find_pieces, ToyFile(steps), ToyAnchors(steps))

    def want(self) -> None:
        self.tail.want(self.log)

    def end(self) -> int:
        followed: Any = self
        assert await_current(followed, DEADLINE_S)
        return self.log.index().end.number


@pytest.fixture
def followed() -> Iterator[Followed]:
    made = Followed()
    yield made
    made.tail.stop()


def appended(followed: Followed, messages: int) -> None:
    followed.broker.append(bytes(MessageSet([b"one"] * messages)))


def test_the_end_is_known_once_all_is_read(followed: Followed) -> None:
    appended(followed, 10)
    assert followed.end() == 10
    appended(followed, 5)
    with gevent.Timeout(DEADLINE_S):
        while followed.log.index().end.number < 15:
            followed.log.changes.wait(0.1)


def test_the_end_of_a_log_that_nobody_has_followed_is_looked_up_again(followed: Followed) -> None:
    assert followed.end() == 0
    followed.log.wanted_until_s = 0.0
    appended(followed, 1)  # which ends the wait, and then nobody wants more
    with gevent.Timeout(DEADLINE_S):
        while followed.log.is_current:
            gevent.sleep(0)
    appended(followed, 2)

    assert followed.end() == 3


def test_an_outage_is_told_and_over_when_the_broker_answers(followed: Followed) -> None:
    assert followed.end() == 0
    followed.broker.crash()
    appended(followed, 3)
    with gevent.Timeout(DEADLINE_S):
        while followed.log.index().end.number < 3 or not followed.log.is_current:
            followed.want()
            followed.log.changes.wait(0.1)
    assert followed.end() == 3


def test_a_partition_whose_index_cannot_be_written_leaves_others_alone(followed: Followed) -> None:
    def fail(_log: PartitionLog) -> PartitionIndex:
        raise OSError("no space left on device")

    links: Any = followed.broker
    full = PartitionLog(TopicPartition("clicks", 0, 0), 0, TOPIC_ID, NumberFloors(), lambda: links, fail, 1024 * 1024)
    followed.tail.want(full)
    appended(followed, 2)
    assert followed.end() == 2
    assert "no space" in full.fault


def test_a_partition_that_failed_is_tried_again_after_a_pause(
    followed: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until then it keeps its fault, whoever asks for it."""
    monkeypatch.setattr(tail, "PAUSES_S", (3600.0, 3600.0))
    attempts = 0
    is_full = True

    def make(log: PartitionLog) -> PartitionIndex:
        nonlocal attempts
        attempts += 1
        if is_full:
            raise OSError("no space left on device")
        return followed._new_index(log)

    other = Followed()
    other.tail.stop()
    other.tail, other.broker = followed.tail, followed.broker
    other.log._new_index = make
    for _ in range(5):
        other.want()
        assert not await_current(cast("Any", other), DEADLINE_S)
        assert followed.end() == 0
        followed.log.is_current = False  # so that the tail looks at all that it follows
    assert attempts == 1
    is_full = False
    other.log.paused_until_s = 0.0
    with gevent.Timeout(DEADLINE_S):
        while not other.log.is_current:
            other.want()
            other.log.changes.wait(0.1)
    assert other.log.pause_s == 0.0


def test_more_partitions_than_one_request_holds_take_turns(followed: Followed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail, "MOST_PARTS", 1)
    other = Followed()
    other.tail.stop()
    other.tail = followed.tail
    followed.want()
    assert other.end() == 0
    assert followed.end() == 0


DEFECTS = [defect for defect in read_defects("gateway_server").values() if defect.shows.get("file") == "test_tail"]


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_a_defect_is_noticed(defect: Defect, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test that it names fails with it."""
    monkeypatch.setitem(globals(), "DEADLINE_S", 0.7)
    assert_noticed(defect, globals()[defect.shows["noticed_by"]], request)


def test_a_broker_is_slow_if_most_of_many_sends_wait_long() -> None:
    """One that waits long, as after a restart, says nothing."""
    links: Any = SimpleNamespace(new=lambda: None)
    follower = BrokerTail(links)
    for wait_s in [9.0] * (JUDGED_WAITS - 1):
        follower.note_wait(wait_s)
    assert follower.usual_wait_s == 0.0
    follower.note_wait(9.0)
    assert follower.usual_wait_s == 9.0
    for wait_s in [0.01] * (JUDGED_WAITS // 2 + 1):
        follower.note_wait(wait_s)
    assert follower.usual_wait_s == 0.01


@pytest.mark.parametrize(
    ("reason", "is_refusal"),
    [
        ("TLSV13_ALERT_CERTIFICATE_REQUIRED", True),
        ("TLSV1_ALERT_UNKNOWN_CA", True),
        ("SSLV3_ALERT_CERTIFICATE_EXPIRED", False),  # as long as a clock is off
        ("UNEXPECTED_EOF_WHILE_READING", False),
    ],
)
def test_only_a_lasting_refusal_of_the_certificate_is_told_to_clients(reason: str, is_refusal: bool) -> None:
    """A broker that restarts over TLS passes: an authorization error would end clients."""
    error = ssl.SSLError(1, reason)
    error.reason = reason
    assert tail.is_refusal(error) is is_refusal
    assert not tail.is_refusal(ConnectionResetError())
