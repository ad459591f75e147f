"""A broker's flushes of the logs that ask for one: none is forgotten, whenever it asks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import gevent
import pytest

from kafka2011.broker.background import BackgroundTasks
from kafka2011.broker.flushing.flush_scheduler import FLUSHERS, FlushScheduler
from kafka2011.log.log_manager import LogManager, TopicSettings
from tests.support.waiting import eventually
from zk.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from pathlib import Path

    from kafka2011.log.log import Log


def test_a_log_that_asks_when_all_flushers_have_just_ended_is_flushed(tmp_path: Path) -> None:
    """They are done, though gevent has not told anybody yet."""
    flushed: list[Log] = []
    failures: list[BaseException] = []
    with LogManager(tmp_path / "others", TopicSettings(num_partitions=FLUSHERS + 1)) as logs:
        every = [logs.get_or_create("t", number) for number in range(FLUSHERS + 1)]
        tasks = BackgroundTasks(failures.append)
        flushes = FlushScheduler(flushed.extend, lambda _log: False, 10, tasks, SYSTEM_CLOCK)
        for log in every[:-1]:
            flushes.request(log)
        gevent.spawn(flushes.request, every[-1])  # runs right after them
        gevent.sleep(0.01)
        assert flushed == every


def scheduler(
    flushed: list[Log], *, is_read: bool = True, awaited_ms: float = 0
) -> tuple[FlushScheduler, BackgroundTasks]:
    failures: list[BaseException] = []
    tasks = BackgroundTasks(failures.append)
    return FlushScheduler(flushed.extend, lambda _log: is_read, awaited_ms, tasks, SYSTEM_CLOCK), tasks


def test_a_log_is_flushed_for_a_reader_once_however_often_it_is_appended_to(tmp_path: Path) -> None:
    flushed: list[Log] = []
    flushes, tasks = scheduler(flushed)
    with LogManager(tmp_path) as logs:
        log = logs.get_or_create("t", 0)
        flushes.start(3600, lambda: None)
        assert flushes.note_appended(log)
        assert flushes.note_appended(log)
        eventually(lambda: flushed == [log], sleep=gevent.sleep)
        assert log.is_flush_requested
        tasks.stop()
        flushes.wake()
        tasks.join()
    assert flushed == [log]


@pytest.mark.parametrize(("is_read", "awaited_ms"), [(False, 0), (True, -1)])
def test_a_log_is_not_flushed_where_nobody_reads_or_none_are_flushed_for(
    tmp_path: Path, is_read: bool, awaited_ms: float
) -> None:
    """So that it stops telling of its appends."""
    flushes, _ = scheduler([], is_read=is_read, awaited_ms=awaited_ms)
    with LogManager(tmp_path) as logs:
        assert not flushes.note_appended(logs.get_or_create("t", 0))


def test_logs_are_flushed_by_time_until_the_broker_stops() -> None:
    rounds: list[int] = []
    flushes, tasks = scheduler([])
    flushes.start(0.001, lambda: rounds.append(1))
    eventually(lambda: len(rounds) > 2, sleep=gevent.sleep)
    tasks.stop()
    flushes.wake()
    tasks.join()
    ended = len(rounds)
    gevent.sleep(0.01)
    assert len(rounds) == ended


def test_a_task_that_fails_stops_the_broker() -> None:
    failures: list[BaseException] = []
    tasks = BackgroundTasks(failures.append)
    error = OSError("disk")

    def fail() -> None:
        raise error

    tasks.spawn(fail)
    tasks.join()
    assert failures == [error]
