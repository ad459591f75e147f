"""Run as a program: which tests notice a planted defect.

    python -m tests.planted.noticing order "a follower flushes nothing" tests/broker tests/replica

prints, in lines of JSON, which of the tests fail without a defect, and then which fail with each defect that is named.
Without names all defects of the file are tried. Without paths each is tried on the test that it names as `noticed_by`,
and only with the defect: the test is one of `tests`, whose run shows that it passes otherwise.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.planted.patches import read_defects
from tests.planted.planting import planted

if TYPE_CHECKING:
    from collections.abc import Sequence

_OPTIONS = ("-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-W", "ignore::pytest.PytestAssertRewriteWarning")


class _Failures:
    """Notes what fails, in a run of pytest."""

    def __init__(self) -> None:
        self.by_test: dict[str, str] = {}
        self.tests = 0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note the last line of a failure."""
        self.tests += report.when == "call"
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            self.by_test.setdefault(report.nodeid, str(report.longrepr) if crash is None else crash.message)


def failures_of(paths: Sequence[str], *options: str) -> dict[str, str]:
    """Run tests in this process and return the failures, by node id. Raises ValueError if there are no tests."""
    failures = _Failures()
    with contextlib.redirect_stdout(io.StringIO()) as output:
        pytest.main([*_OPTIONS, *options, *paths], plugins=[failures])
    if not failures.tests:
        raise ValueError(f"no test of {', '.join(paths)} was run: {output.getvalue()[-2000:]}")
    return failures.by_test


def main(file: str, names: Sequence[str], paths: Sequence[str], *options: str) -> None:
    """Print who notices each of the defects."""
    defects = read_defects(file)
    tests = {name: list(paths) or [defects[name].shows["noticed_by"]] for name in names or defects}
    if paths:
        _say({"before": failures_of(paths, *options)})
    for name, of_one in tests.items():
        with planted(defects[name]):
            _say({"defect": name, "failures": failures_of(of_one, *options)})


def _say(document: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(document) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    _, _file, *_rest = sys.argv
    _paths = [word for word in _rest if word.startswith("tests/")]
    _options = [word for word in _rest if word.startswith("-")]
    main(_file, [word for word in _rest if word not in {*_paths, *_options}], _paths, *_options)
