"""A broker's flushes of the logs that ask for one: none is forgotten, whenever it asks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import gevent

from kafka2011.broker.background import BackgroundTasks
from kafka2011.broker.flushing.flush_scheduler import FLUSHERS, FlushScheduler
from kafka2011.log.log_manager import LogManager, TopicSettings
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
