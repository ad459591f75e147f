"""A leader tells its watchdog that it goes on, until its process or its disk hangs.

A leader that hangs keeps its connections. The kernel takes what producers send until its session in ZooKeeper has
timed out, and nobody ever reads that. Its watchdog (`zk.watchdog`) kills it sooner, where another replica can lead.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import gevent

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka2011.broker.replication.leading import Leading
    from kafka2011.config import BrokerConfig

logger = logging.getLogger(__name__)

BEATS = 6
"""How many beats there are in the time after which the watchdog acts."""
NEVER_MS = 0


class HangWatch:
    """Beats while this replica leads and does not hang; `start` and `stop` may be called twice.

    `beat` is told within how many ms the next beat comes, or NEVER_MS for none. `leading` returns the term, if there is
    one, and `disk_waits_s` for how long the disk has not finished what it was asked for, 0 if nothing.
    """

    def __init__(
        self,
        config: BrokerConfig,
        beat: Callable[[int], None],
        leading: Callable[[], Leading | None],
        disk_waits_s: Callable[[], float],
    ) -> None:
        self._within_ms = config.replica_hang_timeout_ms
        self._max_disk_s = config.replica_lag_time_max_ms / 1000
        self._beat = beat
        self._leading = leading
        self._disk_waits_s = disk_waits_s
        self._is_watched = False
        self._greenlet: gevent.Greenlet[[], None] | None = None

    def start(self) -> None:
        """Begin, unless the setting says that nobody is to be killed."""
        if self._within_ms and self._greenlet is None:
            self._greenlet = gevent.spawn(self._run)

    def stop(self) -> None:
        """Have nobody killed from now on: a stop may take its time."""
        greenlet, self._greenlet = self._greenlet, None
        if greenlet is not None:
            greenlet.kill()
            self._beat(NEVER_MS)

    def look(self) -> None:
        """Beat, unless the disk hangs while another replica that is in sync could lead."""
        leading = self._leading()
        is_watched = leading is not None and leading.has_other_in_sync
        if not is_watched:
            self._beat(NEVER_MS)
        elif self._disk_waits_s() <= self._max_disk_s:
            self._beat(self._within_ms)
        if is_watched != self._is_watched:
            self._is_watched = is_watched
            does = "kills this process when it hangs for" if is_watched else "no longer kills this process after"
            logger.info("the watchdog %s %g s", does, self._within_ms / 1000)

    def _run(self) -> None:
        while True:
            self.look()
            gevent.sleep(self._within_ms / 1000 / BEATS)
