"""Hostile cases, the same in each run, and what makes and watches them; proof/test_fuzz.py draws ten million others."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kafka2011.message import runs
from tests.fuzz import driver
from tests.fuzz.__main__ import MILLION, keeping_cases, last_case
from tests.fuzz.driver import EndlessError, Target, fuzz
from tests.fuzz.inputs import DIRECTORY, read_corpus, read_line, to_line
from tests.fuzz.messages import with_right_checksums
from tests.fuzz.targets import IN_C, MODULES, chosen

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 240
SEED = "2011"
CASES = MILLION // 4
NEEDS_C = {"responses", "sets", "events", "records"}


@pytest.mark.slow
@pytest.mark.timeout(TIMEOUT_S + 30)
@pytest.mark.parametrize("module", MODULES)
def test_hostile_bytes_are_taken_or_refused(module: str, tmp_path: Path) -> None:
    """Nothing else is raised, nothing ends the process, no case is endless, and memory stays as it was."""
    if module in NEEDS_C and runs.compiled is None:
        pytest.skip("no C code: scripts/setup.sh builds it where there is a compiler, KAFKA2011_PURE leaves it out")
    last = tmp_path / "last"
    command = [sys.executable, "-m", "tests.fuzz", module, "--of", str(CASES), "--seed", SEED, "--last", str(last)]
    done = subprocess.run(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=TIMEOUT_S, check=False
    )
    assert done.returncode == 0, f"{done.stdout[-5000:]}\nthe last case: {to_line(last_case(last))}"


def test_a_million_cases_are_divided_among_targets_with_a_corpus() -> None:
    """No target is without one, and no corpus without a target."""
    every = chosen([])
    assert sum(target.cases for target in every) >= MILLION
    names = [target.name for target in every]
    assert sorted(names) == sorted(path.stem for path in DIRECTORY.iterdir())
    assert set(IN_C) < set(names)
    assert [target.name for target in chosen(["runs", "lines"])] == ["runs", "lines"]


def test_lines_of_a_corpus_stand_for_bytes() -> None:
    """Text where it can be read, hex where not; comments count for nothing."""
    for data in (b"", b"text", b'a "quoted"\n\0text', b"\xff\0", "é".encode(), b"\x01\x02"):
        assert read_line(to_line(data)) == data
        assert read_line(f'{to_line(data)}  # a comment with " and 00') == data
    assert all(read_corpus(target.name) for target in chosen([]))


# What runs cases -----------------------------------------------------------------------------------------------------


class RefusedError(Exception):
    pass


def target_of(run: Callable[[bytes], Hashable], *tokens: bytes) -> Target:
    @contextmanager
    def opened() -> Iterator[Callable[[bytes], Hashable]]:
        yield run

    return Target("made", 1, opened, (RefusedError,), tokens)


def test_what_is_neither_taken_nor_refused_is_found_once() -> None:
    """With the case that shows it; whoever names the seed gets the same cases."""

    def run(data: bytes) -> Hashable:
        if len(data) % 3 == 0:
            raise RefusedError
        if b"\xff" in data:
            raise KeyError(1)
        return len(data) % 3

    first, again, other = (fuzz(target_of(run), [b"abcd", b"ab"], seed, 3000) for seed in (1, 1, 2))
    assert first.cases == 3000
    assert [type(finding.error) for finding in first.findings] == [KeyError]
    assert b"\xff" in first.findings[0].case
    assert 0 < first.refused < 3000
    assert first.kinds == again.kinds != other.kinds


def test_new_outcomes_lead_to_newer_ones() -> None:
    """A case that is taken in a new way is what later cases are made from."""

    def run(data: bytes) -> Hashable:
        depth = next(size for size in range(3, -1, -1) if b"KAF"[:size] == data[:size])
        assert depth < 3
        return depth

    result = fuzz(target_of(run, b"K", b"A", b"F"), [b"..."], 1, 300_000)
    assert [type(finding.error) for finding in result.findings] == [AssertionError]


def test_an_endless_case_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the CPU that it uses."""
    monkeypatch.setattr(driver, "LONGEST_CPU_S", 0.05)

    def run(data: bytes) -> Hashable:
        while data == b"endless":
            pass
        return None

    result = fuzz(target_of(run), [b"ends", b"endless"], 1, 2)
    [finding] = result.findings
    assert isinstance(finding.error, EndlessError)
    assert finding.case == b"endless"


def test_what_a_target_finds_in_the_end_counts() -> None:
    @contextmanager
    def opened() -> Iterator[Callable[[bytes], Hashable]]:
        yield len
        raise ValueError("not whole")

    result = fuzz(Target("made", 1, opened, (ValueError,)), [b"a"], 1, 10)
    assert [str(finding.error) for finding in result.findings] == ["not whole"]


def test_the_case_that_runs_is_kept_for_whoever_comes_after_a_crash(tmp_path: Path) -> None:
    keep = keeping_cases(tmp_path / "last")
    for case in (b"first", b"the second"):
        keep(case)
    assert last_case(tmp_path / "last") == b"the second"


def test_checksums_are_put_right_as_far_as_lengths_lead() -> None:
    """So that cases come behind them."""
    good = bytes.fromhex("0000000b 01 00 3610a686") + b"hello" + bytes.fromhex("0000000a 00 3610a686") + b"hello"
    wrong = good.replace(b"\x36\x10", b"\0\0")
    assert with_right_checksums(wrong) == good
    assert with_right_checksums(wrong + b"\xff\xff\xff\xff rest") == good + b"\xff\xff\xff\xff rest"
    assert with_right_checksums(b"\0\0\0") == b"\0\0\0"
