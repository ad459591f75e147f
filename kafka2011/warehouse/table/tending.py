"""Keeps tables small while they are loaded: a little compaction and cleaning between loads, within a share of the time.

One piece of work rewrites at most about one file, so no load waits long for it. Who is late, since another one was
faster, has only wasted the work: nothing here stops a load.
"""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING, TypeVar

from kafka2011.errors import as_failure
from kafka2011.warehouse.errors import GivenUpError, OvertakenError
from kafka2011.warehouse.table.cleaning import clean
from kafka2011.warehouse.table.compaction import MANY, TARGET_BYTES, compact_some
from zk.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka2011.warehouse.table.topic_table import TopicTable
    from zk.clock import Clock

Result = TypeVar("Result")

logger = logging.getLogger(__name__)

SHARE = 0.1
"""How much of the time goes into it at most."""
CLEAN_EVERY_S = 3600.0
_MOST_SAVED_S = 15.0
"""So much time can be saved up, after which pieces of work may follow one another."""
_MOST_OWED_S = 60.0
"""So much at most is made up for: a process that was suspended meanwhile has not worked for as long as that took."""
_CLEAN_ENTRIES = 200
"""Entries of the log come with every commit, and are to be removed before there are very many."""


class Tending:
    """The upkeep of the tables that one loader loads: `tend` one after each of its loads."""

    def __init__(self, share: float = SHARE, target_bytes: int = TARGET_BYTES, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._share = share
        self._target_bytes = target_bytes
        self._clock = clock
        self._saved_s = 0.0
        self._counted_s = clock.monotonic_s()
        self._commits: dict[str, int] = {}  # since files were looked at
        self._cleaned: dict[str, tuple[float, int]] = {}  # when, and how many commits ago

    def tend(self, table: TopicTable, *, has_loaded: bool) -> None:
        """Do what is due, as long as there is time; failures are logged."""
        name = table.name
        self._commits[name] = self._commits.get(name, MANY - 1) + has_loaded
        cleaned_s, commits = self._cleaned.get(name, (-math.inf, 0))
        self._cleaned[name] = cleaned_s, commits + has_loaded
        try:
            now_s = self._clock.monotonic_s()
            if self._has_time() and (now_s - cleaned_s > CLEAN_EVERY_S or commits >= _CLEAN_ENTRIES):
                self._cleaned[name] = now_s, 0
                self._timed(lambda: clean(table))
            while self._has_time() and self._commits[name] >= MANY:
                if not self._timed(lambda: compact_some(table, self._target_bytes)).files_before:
                    self._commits[name] = 0
        except (OvertakenError, GivenUpError) as error:
            self._commits[name] = 0
            logger.info("%s", error)
        except BaseException as error:  # noqa: BLE001 (the load is committed, whatever this is)
            self._commits[name] = 0
            logger.warning("%s was not maintained: %s", table.where, as_failure(error))

    def _timed(self, work: Callable[[], Result]) -> Result:
        began_s = self._clock.monotonic_s()
        try:
            return work()
        finally:
            self._saved_s = max(self._saved_s - (self._clock.monotonic_s() - began_s), -_MOST_OWED_S)

    def _has_time(self) -> bool:
        now_s = self._clock.monotonic_s()
        self._saved_s = min(self._saved_s + (now_s - self._counted_s) * self._share, _MOST_SAVED_S)
        self._counted_s = now_s
        return self._saved_s > 0
