"""What a broker says of itself: numbers of logs, counts and states, bounded however many partitions there are."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from kafka2011.broker.memory.memory_budget import MemoryBudget
from kafka2011.broker.monitoring.metrics import BROKER_METRICS, broker_samples, disk_samples
from kafka2011.broker.monitoring.replica_metrics import ReplicaFacts
from kafka2011.broker.requests.request_times import EVERY, RequestTimes
from kafka2011.log.log_settings import LogSettings
from kafka2011.message.message_set import MessageSet
from tests.support.clocks import ManualClock
from tests.support.logs import new_log_manager

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kafka2011.log.log_manager import LogManager

SET = bytes(MessageSet([b"one", b"two"]))


@dataclass
class Broker:
    """A broker by what is read of it; its logs are real."""

    logs: LogManager
    budget: MemoryBudget = field(default_factory=lambda: MemoryBudget(1000))
    request_times: RequestTimes = field(default_factory=RequestTimes)
    obstacle: str | None = None
    is_connected: bool | None = True
    open_connections: int = 3
    replica: ReplicaFacts | None = None
    counted: dict[str, int] = field(default_factory=dict)

    def counts(self) -> dict[str, int]:
        return self.counted


@pytest.fixture
def logs(tmp_path: Path) -> Iterator[LogManager]:
    with new_log_manager(
        tmp_path / "logs", num_partitions=10, of=lambda _: LogSettings(max_segment_bytes=len(SET))
    ) as manager:
        yield manager


def values(broker: Broker, max_partitions: int = 100) -> dict[tuple[str, ...], Any]:
    """Return the numbers by name without its prefix, and values of labels."""
    samples = broker_samples(broker, 7, max_partitions)
    assert set(samples) <= set(BROKER_METRICS)
    for metric, numbers in samples.items():
        assert all(len(labels) == len(metric.labels) for labels in numbers), metric.name
    return {
        (metric.name.removeprefix("kafka2011_broker_"), *labels): value
        for metric, numbers in samples.items()
        for labels, value in numbers.items()
    }


def test_logs_by_partition_and_topic(logs: LogManager) -> None:
    """What can be read and what was appended are told apart; a restart begins to count anew, offsets go on."""
    log = logs.get_or_create("views", 2)
    for _ in range(3):
        log.append(SET, 2)
    log.flush()
    log.append(SET, 2)
    log.fetched_bytes += 10
    size = len(SET)
    found = values(Broker(logs))
    where = ("7", "views", "2")
    assert found["log_start_offset_bytes", *where] == 0
    assert found["log_appended_end_offset_bytes", *where] == 4 * size
    assert found["log_size_bytes", *where] == found["log_end_offset_bytes", *where]
    assert found["log_segments", *where] == len(log.segment_offsets)
    assert found["topic_appended_bytes_total", "7", "views"] == 4 * size
    assert found["topic_appended_messages_total", "7", "views"] == 8
    assert found["topic_fetched_bytes_total", "7", "views"] == 10
    assert found["unflushed_messages",] == log.unflushed_messages
    assert found["topics",] == found["partitions",] == 1
    logs.close()
    logs.open()
    found = values(Broker(logs))
    assert found["topic_appended_bytes_total", "7", "views"] == 0
    assert found["log_appended_end_offset_bytes", *where] == found["log_end_offset_bytes", *where] == 4 * size


def test_how_long_things_take(logs: LogManager) -> None:
    """A flush counts once, and so does the wait of the first append that it covers; requests by their type."""
    broker = Broker(logs)
    log = logs.get_or_create("views", 0)
    for _ in range(3):
        log.append(SET, 2)
    log.flush()
    log.flush()  # nothing is left to flush
    log.append(SET, 2)
    log.flush()
    broker.request_times.note(1, 0.2)
    broker.request_times.note(0, 0.0002, 5)
    found = values(broker)
    flush, readable = found["flush_seconds",], found["append_to_readable_seconds",]
    assert flush.at_most[-1] == readable.at_most[-1] == log.flushes >= 2
    assert readable.total >= flush.total > 0
    fetch, produce = found["request_seconds", "fetch"], found["request_seconds", "produce"]
    assert (fetch.at_most[-1], fetch.total) == (1, 0.2)
    assert (produce.at_most[-1], produce.total) == (5, 0.001)
    assert found["request_seconds", "offsets"].at_most[-1] == 0


def test_many_partitions_are_only_added_up(logs: LogManager) -> None:
    """Beyond the limit there is none by partition, and it is said how many are left out; topics have the same limit."""
    for topic in ("a", "b"):
        for partition in range(2):
            logs.get_or_create(topic, partition).append(SET, 2)
    assert values(Broker(logs), 4)["partitions_left_out",] == 0
    found = values(Broker(logs), 3)
    assert not [name for name in found if name[0].startswith("log_")]
    assert found["partitions_left_out",] == found["partitions",] == 4
    assert found["topic_appended_messages_total", "7", "b"] == 4
    found = values(Broker(logs), 1)
    assert not [name for name in found if name[0].startswith("topic_")]
    assert found["topics",] == 2


def test_a_deleted_topic_takes_no_counts_with_it(logs: LogManager) -> None:
    """What only grows does not fall: a fall would be taken for a restart. The topic's own numbers end."""
    log = logs.get_or_create("views", 0)
    log.append(SET, 2)
    log.flush()
    flushes = logs.flushes
    assert flushes > 0
    logs.delete_topic("views")
    assert logs.flushes >= flushes
    assert ("topic_appended_bytes_total", "7", "views") not in values(Broker(logs))


def test_what_retention_goes_by(tmp_path: Path) -> None:
    """Whether it goes by age, which only a broker that deletes says, and how far the clock is from ZooKeeper's."""
    clock = ManualClock(now_s=1000, wall_lead_s=1.7e9)
    with new_log_manager(tmp_path / "logs", clock=clock, is_clock_compared=True) as logs:
        found = values(Broker(logs))
        assert found["retention_by_age",] == 0
        assert ("clock_ahead_seconds",) not in found
        logs.retention_clock.compare(clock.wall_s() * 1000 + 500)
        found = values(Broker(logs))
        assert (found["retention_by_age",], found["clock_ahead_seconds",]) == (1, -0.5)
        log = logs.get_or_create("views", 0)
        os.utime(log.directory / f"{0:020}.kafka", (0, 0))
        logs.clean_up()
        follower = ReplicaFacts("b", 1, 0, 0, followers=None)
        found = values(Broker(logs, replica=follower))
        assert found["segments_with_wrong_times",] == 1
        assert ("retention_by_age",) not in found
        found = values(Broker(logs, replica=follower._replace(followers={})))
        assert found["retention_by_age",] == 1


def test_counts_by_their_names(logs: LogManager) -> None:
    """Counts of one kind are one metric with labels; times are in seconds; parked is who has not ended."""
    counted = {"connections": 9, "produce": 5, "multifetch": 2, "bytes_in": 100, "refused": 1, "refused_idle": 2}
    counted |= {"fetch_error_1": 4, "fetch_error_-1": 1, "throttled_ms_produce": 1500, "not_allowed_consume": 6}
    counted |= {"parked": 10, "parked_ready": 4, "parked_late": 3, "parked_refused": 1, "memory_peak_bytes": 70}
    found = values(Broker(logs, counted=counted))
    assert found["connections_accepted_total",] == 9
    assert found["connections",] == 3
    assert found["requests_total", "produce"] == 5
    assert found["requests_total", "fetch"] == 0
    assert found["received_bytes_total",] == 100
    assert found["connections_closed_total", "refused"] == 1
    assert found["connections_closed_total", "idle"] == 2
    assert found["fetch_errors_total", "1"] == 4
    assert found["fetch_errors_total", "-1"] == 1
    assert found["throttled_seconds_total", "produce"] == 1.5
    assert found["not_allowed_total", "consume"] == 6
    assert found["parked_requests",] == 3
    assert found["parked_ended_total", "late"] == 3
    assert found["request_memory_peak_bytes",] == 70
    assert found["request_memory_limit_bytes",] == 1000
    assert found["zookeeper_sessions_total",] == 0


def test_states(logs: LogManager) -> None:
    """Well or not, connected or not, and nothing of ZooKeeper where there is to be none."""
    found = values(Broker(logs))
    assert (found["serving",], found["zookeeper_connected",]) == (1, 1)
    found = values(Broker(logs, obstacle="starting", is_connected=False))
    assert (found["serving",], found["zookeeper_connected",]) == (0, 0)
    assert ("zookeeper_connected",) not in values(Broker(logs, is_connected=None))


def test_a_log_that_failed(logs: LogManager) -> None:
    """It is told by a number of its own."""
    broker = Broker(logs)
    assert values(broker)["failed_logs",] == 0
    logs.get_or_create("views", 0).failure = SimpleNamespace()  # type: ignore[assignment]
    assert values(broker)["failed_logs",] == 1
    logs.get_or_create("views", 0).failure = None


def test_the_disk(tmp_path: Path) -> None:
    """Free is at most the size; a directory that cannot be asked is no reason to show nothing else."""
    free, size = (numbers[()] for numbers in disk_samples(tmp_path).values())
    assert isinstance(free, float)
    assert isinstance(size, float)
    assert 0 < free < size
    assert disk_samples(tmp_path / "absent") == {}


def test_one_request_in_a_few_is_measured() -> None:
    """The first, and then each fifteenth: of pairs both kinds come to be measured."""
    times = RequestTimes()
    measured = [number for number in range(4 * EVERY) if times.is_next()]
    assert measured == [0, EVERY, 2 * EVERY, 3 * EVERY]
    assert {number % 2 for number in measured} == {0, 1}
