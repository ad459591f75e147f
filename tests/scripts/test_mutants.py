"""What `make mutants` changes, and how its list of changes that do not matter is read."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from scripts.mutants.changes import changes_of
from scripts.mutants.forks import succeeds_in_fork
from scripts.mutants.harmless import Harmless, read_harmless, without_match

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("line", "becomes"),
    [
        ("a <= b < c", ["a < b < c", "a <= b <= c"]),
        ("a  is  not (b)", ["a is (b)"]),
        ("a and b or c", ["a or b or c", "a and b and c"]),
        ("x = a + b // 2", ["x = a - b // 2", "x = a + b * 2", "x = a + b // 3"]),
        ("x += -1", ["x -= -1", "x += -2"]),
        ("size = 32 * 1024", ["size = 32 * 1024 + 1"]),
        ("x = not a", ["x = a"]),
        ("x = not (a and b)", ["x = (a and b)", "x = not (a or b)"]),
        ("x = True", ["x = False"]),
        ("x = a if b else c", ["x = a if not (b) else c"]),
        ("x = a if not b else c", ["x = a if b else c"]),
        ("x = [a for a in b if a]", ["x = [a for a in b if not (a)]"]),
        ("if a: b()", ["if not (a): b()", "if a: pass"]),
        ("self.a = b", ["pass"]),
        ("a[0] = b", ["pass", "a[1] = b"]),
        ("raise a", ["pass"]),
    ],
)
def test_each_change_is_a_small_one(line: str, becomes: list[str]) -> None:
    assert sorted(change.new_line for change in changes_of(line.encode())) == sorted(becomes)


@pytest.mark.parametrize(
    "source",
    [
        "assert a < 1",
        "x: Literal[1]",
        "def f(x: Literal[1]) -> Literal[2]: ...",
        "@dataclass(frozen=True)\nclass A: ...",
        "if TYPE_CHECKING:\n    import a",
        "logger.info('%d', 1)",
        "x = 'a' + b",
        "x = f'{1}'",
    ],
)
def test_what_no_test_could_hold_is_left_alone(source: str) -> None:
    """Annotations, decorators, assertions, texts and log lines."""
    assert changes_of(source.encode()) == []


def test_lines_keep_their_numbers() -> None:
    """Functions are found again by them, so what is left out over several lines leaves empty ones."""
    source = b"f(\n    a,\n    b,\n)\nx = 1\n"
    changed = changes_of(source)[0].apply(source)
    assert changed.splitlines()[-1] == b"x = 1"
    assert changed.count(b"\n") == source.count(b"\n")
    names: dict[str, object] = {}
    exec(compile(changed, "changed", "exec"), names)
    assert names["x"] == 1


def test_a_default_takes_effect_at_import() -> None:
    """Only what stands in a function's body can be changed by an exchange of its code."""
    changes = changes_of(b"def f(a=1):\n    return 2\n\nclass A:\n    x = 3\n")
    assert [(change.new_line, change.in_function) for change in changes] == [
        ("def f(a=2):", False),
        ("return 3", True),
        ("x = 4", False),
    ]


def test_the_list_is_found_again_by_the_text_of_lines(tmp_path: Path) -> None:
    """It outlives changes elsewhere in the module, but not one of its own line."""
    path = tmp_path / "list.toml"
    path.write_text('[[harmless]]\nmodule = "m"\nline = "a < 1"\nbecomes = ["a < 2", "a < 3"]\nwhy = "a is even"\n')
    entry, lost = read_harmless(path)
    assert entry == Harmless("m", "a < 1", "a < 2", "a is even")
    changes = {"m": changes_of(b"\n\na < 1")}
    assert [change.new_line for change in changes["m"] if entry.stands_for("m", change)] == ["a < 2"]
    assert without_match([entry, lost], changes) == [lost]
    assert without_match([entry], {"m": changes_of(b"b < 1")}) == [entry]
    second = replace(entry, after="b()")
    assert without_match([second], {"m": changes_of(b"c()\na < 1")}) == [second]
    assert without_match([second], {"m": changes_of(b"b()\na < 1")}) == []
    assert without_match([entry], {"other": []}) == []


def test_a_fork_that_fails_or_hangs_does_not_succeed() -> None:
    """An error, False, and work without an end; only True in time is success."""
    read_end, write_end = os.pipe()
    assert succeeds_in_fork(lambda: True, 60)
    assert not succeeds_in_fork(lambda: False, 60)
    assert not succeeds_in_fork(lambda: 1 // 0 == 0, 60)
    assert not succeeds_in_fork(lambda: os.read(read_end, 1) == b"", 0.05)
    os.close(read_end)
    os.close(write_end)
