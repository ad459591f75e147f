"""A member that commits only what was reported."""

from __future__ import annotations

import random
import threading
from typing import TYPE_CHECKING, Any

import pytest

from kafka2011.audit import consumer as consumer_module
from kafka2011.audit.consumer import AuditedConsumer
from kafka2011.audit.counter import AuditCounter
from kafka2011.errors import KafkaError
from tests.support.audit_counters import TOPIC, ReportsInMemory, messages_of, new_stamp, payload_of
from tests.support.waiting import eventually
from zk.cluster import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kafka2011.config import ConsumerConfig
    from kafka2011.message.message_set import Message

WHERE = TopicPartition(TOPIC, 0, 0)
HOUR_MS = 3_600_000


class ConnectorInMemory:
    """Notes what is committed, with the number of messages that were reported by then."""

    def __init__(self, config: ConsumerConfig, listener: AuditedConsumer, sink: ReportsInMemory) -> None:
        self.config = config
        self.consumer_id = "g_one"
        self.listener = listener
        self.sink = sink
        self.owned: list[TopicPartition] = []
        self.commits: list[tuple[dict[Any, int], int]] = []
        self.ended_by: list[type[BaseException] | None] = []

    def owned_partitions(self) -> list[TopicPartition]:
        return self.owned

    def commit_offsets(self, offsets: Mapping[tuple[str, int, int], int]) -> None:
        if any(where not in self.owned for where in offsets):
            raise KafkaError("not owned")
        self.commits.append((dict(offsets), self.sink.counted))

    def take(self, *partitions: TopicPartition) -> None:
        self.owned += partitions
        self.listener.on_assigned(partitions)

    def give_up(self, *partitions: TopicPartition, is_lost: bool = False) -> None:
        try:
            (self.listener.on_lost if is_lost else self.listener.on_revoked)(partitions)
        finally:
            self.owned = [where for where in self.owned if where not in partitions]

    def shutdown(self) -> None:
        self.ended_by.append(None)

    def __exit__(self, exc_type: type[BaseException] | None, *_: object) -> None:
        self.ended_by.append(exc_type)


class StreamInMemory:
    """Hands out lists, and ends when there are no more."""

    def __init__(self, *lists: list[Message]) -> None:
        self.lists = list(lists)

    def batches(self, max_messages: int) -> Iterator[list[Message]]:
        while self.lists:
            yield self.lists.pop(0)


@pytest.fixture
def sink() -> ReportsInMemory:
    return ReportsInMemory()


@pytest.fixture
def payloads() -> list[bytes]:
    chance = random.Random(5)
    return [payload_of(new_stamp(chance)) for _ in range(6)]


@pytest.fixture
def opened(sink: ReportsInMemory, monkeypatch: pytest.MonkeyPatch) -> Iterator[AuditedConsumer]:
    def connect(config: ConsumerConfig, listener: AuditedConsumer, *, explicit_commits: bool) -> ConnectorInMemory:
        assert explicit_commits
        return ConnectorInMemory(config, listener, sink)

    monkeypatch.setattr(consumer_module, "ConsumerConnector", connect)
    settings = {"zk.connect": "nowhere:1", "groupid": "g", "autocommit.interval.ms": HOUR_MS}
    with AuditCounter("live", sink) as counter:
        consumer = AuditedConsumer(settings, counter)
        connector_of(consumer).take(WHERE)
        yield consumer
        sink.is_away = False
        consumer.close()


def connector_of(consumer: AuditedConsumer) -> ConnectorInMemory:
    connector = consumer.connector
    assert isinstance(connector, ConnectorInMemory)
    return connector


def read(consumer: AuditedConsumer, *lists: list[Message]) -> Iterator[list[Message]]:
    return consumer.batches(StreamInMemory(*lists))  # type: ignore[arg-type]


def test_nothing_moves_offsets_but_its_own_commits(opened: AuditedConsumer, payloads: list[bytes]) -> None:
    """The connector commits nothing by itself; see also `opened`."""
    assert not opened.connector.config.autocommit_enable
    lists = read(opened, messages_of(payloads[:2], first_offset=40), messages_of(payloads[2:3], first_offset=60))
    next(lists)
    next(lists)
    assert connector_of(opened).commits == []


def test_what_is_committed_was_reported(opened: AuditedConsumer, sink: ReportsInMemory, payloads: list[bytes]) -> None:
    """The list in hand counts as done for a commit of the thread that has it, and for no other."""
    lists = read(opened, messages_of(payloads[:2]), messages_of(payloads[2:5], first_offset=20))
    next(lists)
    other = threading.Thread(target=opened.commit)
    other.start()
    other.join()
    assert sink.counted == 0
    next(lists)
    other = threading.Thread(target=opened.commit)
    other.start()
    other.join()
    opened.commit()
    opened.commit()
    assert connector_of(opened).commits == [({WHERE: 20}, 2), ({WHERE: 50}, 5)]


def test_what_cannot_be_reported_is_not_committed(
    opened: AuditedConsumer, sink: ReportsInMemory, payloads: list[bytes]
) -> None:
    """Neither when it is asked for nor when the partition goes; its next owner counts it again."""
    list(read(opened, messages_of(payloads)))
    sink.is_away = True
    with pytest.raises(KafkaError, match="the broker is away"):
        opened.commit()
    with pytest.raises(KafkaError, match="the broker is away"):
        connector_of(opened).give_up(WHERE)
    assert connector_of(opened).commits == []


def test_a_partition_is_committed_before_it_goes(
    opened: AuditedConsumer, sink: ReportsInMemory, payloads: list[bytes]
) -> None:
    """As far as the program has come back from it."""
    list(read(opened, messages_of(payloads)))
    connector_of(opened).give_up(WHERE)
    assert connector_of(opened).commits[-1] == ({WHERE: 60}, 6)


@pytest.mark.parametrize("is_lost", [False, True])
def test_a_list_of_a_former_ownership_commits_nothing(
    opened: AuditedConsumer, sink: ReportsInMemory, payloads: list[bytes], is_lost: bool
) -> None:
    """Another member may be further by then. It was read, though, and is counted."""
    lists = read(opened, messages_of(payloads[:2]))
    next(lists)
    connector_of(opened).give_up(WHERE, is_lost=is_lost)
    connector_of(opened).take(WHERE)
    assert list(lists) == []
    opened.commit()
    assert connector_of(opened).commits == []
    assert sink.counted == 2


def test_what_was_lost_while_it_was_reported_is_not_committed(
    opened: AuditedConsumer, sink: ReportsInMemory, payloads: list[bytes]
) -> None:
    """When it is owned again after that, another member may have been further."""
    list(read(opened, messages_of(payloads)))

    def lose_and_take() -> None:
        connector_of(opened).give_up(WHERE, is_lost=True)
        connector_of(opened).take(WHERE)

    sink.on_publish = lose_and_take
    opened.commit()
    assert connector_of(opened).commits == []


def test_it_commits_now_and_then(
    sink: ReportsInMemory, payloads: list[bytes], opened: AuditedConsumer, caplog: pytest.LogCaptureFixture
) -> None:
    """Also while nothing comes, and again after it could not."""
    settings = {"zk.connect": "nowhere:1", "groupid": "g", "autocommit.interval.ms": 5}
    with AuditCounter("live", sink) as counter, AuditedConsumer(settings, counter) as consumer:
        connector_of(consumer).take(WHERE)
        sink.is_away = True
        list(read(consumer, messages_of(payloads)))
        eventually(lambda: "offsets are not committed for now: the broker is away" in caplog.text)
        sink.is_away = False
        eventually(lambda: connector_of(consumer).commits == [({WHERE: 60}, 6)])
    assert connector_of(consumer).ended_by == [None]


def test_an_exception_leaves_the_list_in_hand_to_the_next_owner(
    opened: AuditedConsumer, sink: ReportsInMemory, payloads: list[bytes]
) -> None:
    """It was not done; what was done before is committed when the partition goes."""
    lists = read(opened, messages_of(payloads[:2]), messages_of(payloads[2:], first_offset=20))

    def fail_at_the_second() -> None:
        with opened:
            next(lists)
            next(lists)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_at_the_second()
    connector_of(opened).give_up(WHERE)
    assert connector_of(opened).commits[-1] == ({WHERE: 20}, 2)
    assert connector_of(opened).ended_by != [None]
    opened.in_hand.clear()
