"""What `make mutants` changes, and how its list of changes that do not matter is read."""

from __future__ import annotations

import ast
import os
from typing import TYPE_CHECKING

import pytest

from scripts.mutants.changes import changes_of
from scripts.mutants.forks import succeeds_in_fork
from scripts.mutants.harmless import Harmless, read_harmless, stale
from scripts.mutants.parts import modules_by_part, problems, read_parts

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("line", "becomes"),
    [
        ("a <= b < c", ["a < b < c", "a <= b <= c"]),
        ("a  is  not (b)", ["a is b"]),
        ("a and b or c", ["(a or b) or c", "(a and b) and c"]),
        ("a and b and c", ["a or b and c", "a and b or c"]),
        ("a or b or c or d", ["a and b or c or d", "a or b and c or d", "a or b or c and d"]),
        ("x = a + b // 2", ["x = a - b // 2", "x = a + b * 2", "x = a + b // 3"]),
        ("x += -1", ["x -= -1", "x += -2"]),
        ("size = 32 * 1024", ["size = 32 * 1024 + 1"]),
        ("x = not a", ["x = a"]),
        ("x = not (a and b)", ["x = a and b", "x = not (a or b)"]),
        ("x = True", ["x = False"]),
        ("x = a if b else c", ["x = a if not b else c"]),
        ("x = a if not b else c", ["x = a if b else c"]),
        ("x = [a for a in b if a]", ["x = [a for a in b if not a]"]),
        ("if a: b()", ["if not a:\n    b()", "if a:\n    pass"]),
        ("self.a = b", ["pass"]),
        ("a[0] = b", ["pass", "a[1] = b"]),
        ("raise a", ["pass"]),
    ],
)
def test_each_change_is_a_small_one(line: str, becomes: list[str]) -> None:
    source = line.encode()
    made = [ast.unparse(change.apply(source)) for change in changes_of(source, "m")]
    assert sorted(made) == sorted(ast.unparse(ast.parse(text)) for text in becomes)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("x = a <= b", [("a <= b", "a < b")]),
        ("f(a, b=1)", [("f(a, b=1)", "pass"), ("f(a, b=1)", "f(a, b=2)")]),
        ("x = a[1:]", [("a[1:]", "a[2:]")]),
        ("return -1", [("return -1", "return -2")]),
        ("while True:\n    raise a", [("while True:", "while False:"), ("raise a", "pass")]),
        ("if a:\n    x = 1", [("a", "not a"), ("x = 1", "x = 2")]),
        ("def f(a, b=1, *, c, d=-2):\n    pass", [("b=1", "b=2"), ("d=-2", "d=-3")]),
    ],
)
def test_a_change_is_told_by_the_expression_around_it(line: str, told: list[tuple[str, str]]) -> None:
    """A number by itself would say too little; a whole statement may be long."""
    assert [(change.old, change.new) for change in changes_of(line.encode(), "m")] == told


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
    assert changes_of(source.encode(), "m") == []


def test_lines_keep_their_numbers() -> None:
    """Functions are found again by them, whatever is left out before."""
    source = b"f(\n    a,\n    b,\n)\nx = 1\n"
    tree = changes_of(source, "m")[0].apply(source)
    assert [node.lineno for node in tree.body] == [1, 5]
    names: dict[str, object] = {}
    exec(compile(tree, "changed", "exec"), names)
    assert names["x"] == 1


def test_a_default_takes_effect_at_import() -> None:
    """Only what stands in a function's body can be changed by an exchange of its code."""
    changes = changes_of(b"def f(a=1):\n    return 2\n\nclass A:\n    x = 3\n", "m")
    assert [(change.place, change.new, change.in_function) for change in changes] == [
        ("m", "a=2", False),
        ("m.f", "return 3", True),
        ("m.A", "x = 4", False),
    ]


def test_the_list_says_where_and_what(tmp_path: Path) -> None:
    """It outlives moves of the code and another layout, but not a change of what it quotes."""
    path = tmp_path / "list.toml"
    path.write_text('[[harmless]]\nin = "A.f"\nold = "a < 1"\nnew = ["a < 2", "a < 3"]\nwhy = "a is even"\n')
    entry, lost = read_harmless(path)
    assert entry == Harmless("A.f", "a < 1", "a < 2", "a is even")
    changes = changes_of(b"class A:\n    def f(a):\n        return (a\n            < 1)\n", "p.m")
    assert [change.new for change in changes if entry.stands_for(change)] == ["a < 2"]
    assert stale([entry, lost], changes) == [lost]
    assert stale([entry], changes_of(b"class A:\n    def f(a):\n        return a <= 1\n", "p.m")) == [entry]
    assert stale([entry], changes_of(b"class AA:\n    def f(a):\n        return a < 1\n", "p.m")) == [entry]


def test_an_entry_may_stand_for_one_of_several_changes() -> None:
    changes = changes_of(b"def f():\n    a()\n    a()\n", "m")
    every = Harmless("m.f", "a()", "pass", "a does nothing")
    assert [every.stands_for(change) for change in changes] == [True, True]
    assert [every._replace(number=2).stands_for(change) for change in changes] == [False, True]


def test_a_module_belongs_to_the_smallest_part_around_it() -> None:
    table = {"whole-share": 0.9, "whole": ["p.a", "p.b.c"], "samples": {"p.b": 0.5, "q": 0.5}}
    members = modules_by_part(read_parts(table), ["p.a", "p.a.d", "p.b", "p.b.c", "p.bb"])
    assert {part.name: modules for part, modules in members.items()} == {
        "p.a": ["p.a", "p.a.d"],
        "p.b.c": ["p.b.c"],
        "p.b": ["p.b"],
        "q": [],
    }
    assert list(problems(table, ["p.a", "p.b", "p.b.c", "p.bb"])) == [
        "p.bb is in no part of [tool.mutants], so no mutation of it is tried",
        "[tool.mutants] lists q, which has no modules",
    ]


def test_a_fork_that_fails_or_hangs_does_not_succeed() -> None:
    """An error, False, and work without an end; only True in time is success."""
    read_end, write_end = os.pipe()
    assert succeeds_in_fork(lambda: True, 60)
    assert not succeeds_in_fork(lambda: False, 60)
    assert not succeeds_in_fork(lambda: 1 // 0 == 0, 60)
    assert not succeeds_in_fork(lambda: os.read(read_end, 1) == b"", 0.05)
    os.close(read_end)
    os.close(write_end)
