"""Crashes at every change that a scenario makes to the disk, calls that fail, and what comes after them."""

from __future__ import annotations

import errno
import shutil
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from tests.models.log.disk import EVERYTHING, NAMES, NAMES_AND_SIZES, NOTHING, SIZES, SOME_SECTORS, Survival
from tests.models.log.file_layer import CALLS, ERRORS, Fault
from tests.models.log.life import Life

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator, Sequence
    from pathlib import Path

    from kafka2011.log.log_settings import LogSettings
    from tests.models.log.life import Crash

Ending: TypeAlias = "Survival | None"

KILL: Ending = None
"""The process ends, and the page cache stays: no power cut."""

ENDINGS: tuple[Ending, ...] = (KILL, NOTHING, EVERYTHING, NAMES, NAMES_AND_SIZES, SOME_SECTORS, SIZES)


def torn_survivals(count: int) -> tuple[Survival, ...]:
    """Return survivals that leave some changes and lose others."""
    return tuple(Survival(0.5, 0.7, 0.5, seed) for seed in range(count))


class Scenario(NamedTuple):
    """Something that happens to a broker, from its first start on."""

    name: str
    settings: LogSettings
    run: Callable[[Life], None]
    is_replica: bool = False


class ViolationError(AssertionError):
    """Something that must hold did not; the text says what, where, and after which fault and crash."""


class Explorer:
    """Runs scenarios below a directory, and looks once at each state that a crash can leave.

    After each crash the logs are recovered, and after a crash at each moment of that recovery with `inner_endings`.
    `counts` says how much was looked at.
    """

    def __init__(self, parent: Path, endings: Sequence[Ending], inner_endings: Sequence[Ending] = ()) -> None:
        self.counts: Counter[str] = Counter()
        self._parent = parent
        self._endings = endings
        self._inner_endings = inner_endings
        self._seen: set[object] = set()

    def crash_everywhere(self, scenario: Scenario) -> None:
        """Crash at each moment of a scenario that changes something, recover twice, and go on."""
        life = self._live(scenario)
        self._crash(life, scenario.name, self._recover_twice)
        _forget(life)

    def fail_everywhere(
        self, scenario: Scenario, *, only: Container[str] = CALLS, step: int = 1, twice: bool = True
    ) -> None:
        """Let each call of a scenario fail in each way, or some of them, and crash at each moment from then on."""
        calls = self._live(scenario).layer.calls
        for fault in [fault for fault in all_faults(calls) if calls[fault.at] in only][::step]:
            self.counts["faults"] += 1
            where = f"{scenario.name}, {fault} of {calls[fault.at]}"
            with _telling(where):
                life = self._live(scenario, fault)
                life.stop()
                life.crashes.append(life.crash_now())
            self._crash(life, where, self._recover_twice if twice else self._recover)
            _forget(life)

    def _live(self, scenario: Scenario, fault: Fault | None = None) -> Life:
        life = Life(self._parent, scenario.settings, is_replica=scenario.is_replica)
        life.notes_crashes = True
        life.layer.fault = fault
        with _telling(f"{scenario.name}, {fault}"):
            scenario.run(life)
        life.crashes.append(life.crash_now())
        return life

    def _crash(self, life: Life, where: str, recover: Callable[[Life, Crash, Ending], None]) -> None:
        for number, crash in enumerate(life.crashes):
            self.counts["crash points"] += 1
            for ending in self._endings:
                if self._is_new((recover, crash.state_after(ending))):
                    with _telling(f"{where}, crash {number} of {len(life.crashes)}, {ending or 'process ended'}"):
                        recover(life, crash, ending)

    def _is_new(self, state: object) -> bool:
        is_new = state not in self._seen
        self._seen.add(state)
        return is_new

    # What comes after a crash

    def _start_after(self, life: Life, crash: Crash, ending: Ending) -> Life:
        begun = life.after(crash, ending)
        begun.notes_crashes = True
        begun.start()
        begun.notes_crashes = False
        self.counts["recoveries"] += 1
        return begun

    def _recover(self, life: Life, crash: Crash, ending: Ending) -> None:
        """Recover, which finds all that must be there."""
        _forget(self._start_after(life, crash, ending))

    def _recover_twice(self, life: Life, crash: Crash, ending: Ending) -> None:
        """Recover: all is there. Again: nothing changes. Nor does a clean stop change anything, and the log goes on."""
        first = self._start_after(life, crash, ending)
        tree, ends = first.tree(), first.ends()
        recovered = first.crash_now()
        first.stop()

        again = self._start_after(first, recovered, KILL)
        assert again.tree() == tree, "a second recovery changed something"
        _forget(again)

        clean = self._start_after(first, first.crash_now(), NOTHING)
        assert not clean.recoveries, "the mark of a clean stop was lost"
        assert clean.ends() == ends, "something changed after a clean stop"
        _forget(clean)

        busy = self._start_after(life, crash, ending)
        for topic in busy.accounts:
            busy.append(topic, 20)
            busy.flush(topic)
            busy.append(topic, 20)
        for later in (NOTHING, SIZES):
            _forget(self._start_after(busy, busy.crash_now(), later))
        _forget(busy)

        self._crash_in_recovery(first, recovered)
        _forget(first)

    def _crash_in_recovery(self, first: Life, recovered: Crash) -> None:
        """Crash at each moment of a recovery: the next one finds the same, and what was cut is kept."""
        due: set[bytes] = set()
        for moment in (*first.crashes, recovered):
            self.counts["crash points in recoveries"] += 1
            due |= first.cuts_that_count(moment)
            for ending in self._inner_endings:
                if self._is_new((moment.state_after(ending), frozenset(due))):
                    again = self._start_after(first, moment, ending)
                    assert due <= again.cuts(), "what recovery cut is lost"
                    _forget(again)


def all_faults(calls: list[str]) -> list[Fault]:
    """Return every fault that these calls can have."""
    faults = []
    for at, call in enumerate(calls):
        for error, failing in ERRORS.items():
            if call in failing:
                faults += [Fault(at, error), Fault(at, error, lasts=True)]
        if call == "write":
            faults.append(Fault(at, errno.ENOSPC, short=True))
        if call in {"write", "fsync"}:
            faults.append(Fault(at, None))
    return faults


@contextmanager
def _telling(where: str) -> Iterator[None]:
    """Say where it was that something did not hold."""
    try:
        yield
    except ViolationError:
        raise
    except Exception as error:
        raise ViolationError(f"{where}: {type(error).__name__}: {error}") from error


def _forget(life: Life) -> None:
    life.end()
    shutil.rmtree(life.root)
