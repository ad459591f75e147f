"""Runs the unit tests for one change after another, in forks of a process that has imported and collected all of them.

Which tests reach which lines is found out first, in a fork that traces them. Only these are run for a change, the fast
ones first, up to the first that fails. A change inside functions is made by exchanging their code, one that takes
effect at import by importing everything anew.
"""

from __future__ import annotations

import gc
import os
import pickle
import random
import signal
import sys
import threading
import time
from collections import defaultdict
from dataclasses import dataclass, field
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, FunctionType
from typing import TYPE_CHECKING

import pytest

from scripts.mutants.forks import succeeds_in_fork

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from types import FrameType
    from typing import Any

    from scripts.mutants.changes import Change

    _Measured = tuple[dict[str, float], set[str], dict[str, set[tuple[str, int]]]]

ALL_TESTS_TIMEOUT_S = 1800.0
_LEAST_TEST_TIMEOUT_S = 5
"""A test that takes this long, and twenty times as long as without a change, counts as one that noticed it."""


@dataclass
class Baseline:
    """What the tests do without a change."""

    durations_s: dict[str, float] = field(default_factory=dict)
    failed: set[str] = field(default_factory=set)
    reached: dict[tuple[str, int], set[str]] = field(default_factory=lambda: defaultdict(set))
    """The tests that reach a line of a file."""

    def tests_for(self, path: str, change: Change) -> list[str]:
        """Return the tests that may notice a change, the fast ones first."""
        if change.in_function:
            places = [(path, line) for line in change.statement]
        else:
            places = [place for place in self.reached if place[0] == path]
        reached = set().union(*(self.reached.get(place, ()) for place in places)) - self.failed
        return sorted(reached, key=lambda test: (self.durations_s[test], test))


class UnitTests:
    """The plugin that runs in place of pytest's loop over the tests: it calls `work` with itself."""

    def __init__(self, work: Callable[[UnitTests], None]) -> None:
        self.baseline = Baseline()
        self._work = work
        self._functions: dict[str, list[FunctionType]] = defaultdict(list)
        self._items: dict[str, pytest.Item] = {}
        self._failed = False

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self) -> None:
        """Have hypothesis try the same examples for every change, and not look for the smallest."""
        import hypothesis  # noqa: PLC0415 (pytest wants to import its plugin itself)

        hypothesis.settings.register_profile(
            "mutants",
            hypothesis.settings.get_profile("kafka2011"),
            database=None,
            derandomize=True,
            phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate],
        )
        hypothesis.settings.load_profile("mutants")

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Work with what was collected."""
        if session.testsfailed:
            raise session.Interrupted(f"{session.testsfailed} errors during collection")
        self._items = {item.nodeid: item for item in session.items}
        gc.collect()
        for function in gc.get_objects():
            if type(function) is FunctionType:
                self._functions[function.__code__.co_filename].append(function)
        gc.freeze()  # forks share what is never written
        self._work(self)
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take note of failures."""
        self._failed |= report.failed

    def measure(self, paths: Sequence[str], notes: Path) -> None:
        """Run all tests twice: for what they take and whether they pass in a fork, and for the lines they reach."""
        self.baseline.durations_s, self.baseline.failed, _ = self._measured([], notes)
        _, _, reached = self._measured(paths, notes)
        for test, places in reached.items():
            for place in places:
                self.baseline.reached[place].add(test)

    def _measured(self, traced: Sequence[str], notes: Path) -> _Measured:
        assert succeeds_in_fork(lambda: self._measure(traced, notes), ALL_TESTS_TIMEOUT_S), "the tests were not run"
        measured: _Measured = pickle.loads(notes.read_bytes())  # noqa: S301 (written by our fork)
        return measured

    def _measure(self, traced: Sequence[str], notes: Path) -> bool:
        tracer = _Tracer(traced) if traced else None
        durations_s: dict[str, float] = {}
        failed: set[str] = set()
        reached: dict[str, set[tuple[str, int]]] = {}
        for test, item, following in self._in_order(list(self._items)):
            self._failed = False
            started = time.monotonic()
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            durations_s[test] = time.monotonic() - started
            if self._failed:
                failed.add(test)
            if tracer is not None:
                reached[test] = tracer.take()
        notes.write_bytes(pickle.dumps((durations_s, failed, reached)))
        return True

    def notices(self, path: str, change: Change) -> bool | None:
        """Return whether a test notices the change of a file; None: no function holds it, so import it anew."""
        exchanged = list(self._exchanges(path, change)) if change.in_function else []
        if not exchanged:
            return None
        tests = self.baseline.tests_for(path, change)

        def run() -> bool:
            for function, code in exchanged:
                function.__code__ = code
            return self.pass_all(tests)

        return bool(tests) and not succeeds_in_fork(run, ALL_TESTS_TIMEOUT_S)

    def _exchanges(self, path: str, change: Change) -> Iterator[tuple[FunctionType, CodeType]]:
        source = Path(path).read_bytes()
        old = _functions_in(compile(source, path, "exec", dont_inherit=True))
        new = _functions_in(compile(change.apply(source), path, "exec", dont_inherit=True))
        changed = {place: code for place, code in new.items() if code != old.get(place)}
        for function in self._functions[path]:
            code = changed.get((function.__code__.co_qualname, function.__code__.co_firstlineno))
            if code is not None and len(code.co_freevars) == len(function.__code__.co_freevars):
                yield function, code

    def pass_all(self, tests: Sequence[str]) -> bool:
        """Return whether all of the tests pass, running them up to the first that does not."""
        random.seed(0)
        for test, item, following in self._in_order([test for test in tests if test in self._items]):
            signal.alarm(max(_LEAST_TEST_TIMEOUT_S, int(20 * self.baseline.durations_s[test])))
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if self._failed:
                return False
        return True

    def _in_order(self, tests: Sequence[str]) -> Iterator[tuple[str, pytest.Item, pytest.Item | None]]:
        following = [self._items[test] for test in tests[1:]]
        for test, next_item in zip(tests, [*following, None], strict=True):
            yield test, self._items[test], next_item


class _Tracer:
    """Notes which lines of some files are run, in any thread."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._paths = frozenset(paths)
        self._lines: set[tuple[str, int]] = set()
        threading.settrace(self._enter)
        sys.settrace(self._enter)

    def take(self) -> set[tuple[str, int]]:
        lines, self._lines = self._lines, set()
        return lines

    def _enter(self, frame: FrameType, _event: str, _argument: Any) -> Any:
        return self._run if frame.f_code.co_filename in self._paths else None

    def _run(self, frame: FrameType, _event: str, _argument: Any) -> Any:
        self._lines.add((frame.f_code.co_filename, frame.f_lineno))
        return self._run


def run_collected(work: Callable[[UnitTests], None], arguments: Sequence[str]) -> None:
    """Import and collect the tests, and call `work` with them."""
    status = pytest.main(["-p", "no:cacheprovider", "-o", "timeout=0", "-q", *arguments], plugins=[UnitTests(work)])
    if status not in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}:
        raise SystemExit(f"pytest ended with {status}")


def import_notices(path: str, module: str, change: Change, baseline: Baseline) -> bool:
    """Return whether a test notices a change that takes effect when everything is imported anew.

    Call it in a process that has not imported the module.
    """
    tests = baseline.tests_for(path, change) or [test for test in baseline.durations_s if test not in baseline.failed]
    files = sorted({test.partition("::")[0] for test in tests})
    passed = []

    def work(collected: UnitTests) -> None:
        collected.baseline = baseline
        passed.append(collected.pass_all(tests))

    def run() -> bool:
        _import_changed(module, compile(change.apply(Path(path).read_bytes()), path, "exec", dont_inherit=True))
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        run_collected(work, files)
        return all(passed)

    return not succeeds_in_fork(run, ALL_TESTS_TIMEOUT_S)


def _import_changed(module: str, code: CodeType) -> None:
    get_code = SourceFileLoader.get_code

    def get_changed_code(self: SourceFileLoader, fullname: str) -> CodeType | None:
        return code if fullname == module else get_code(self, fullname)

    SourceFileLoader.get_code = get_changed_code  # type: ignore[assignment,method-assign]


def _functions_in(code: CodeType) -> dict[tuple[str, int], CodeType]:
    found = {}
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found[constant.co_qualname, constant.co_firstlineno] = constant
            found.update(_functions_in(constant))
    return found
