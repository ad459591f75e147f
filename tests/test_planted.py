"""Patches, which quote syntax, and the exchange of code that plants them."""

from __future__ import annotations

import ast

import pytest

from kafka2011.producer.confirmation_window import ConfirmationWindow
from kafka2011.topic_pattern import TopicPattern
from tests.planted.patches import DIRECTORY, Patch, PatchError, function_named, read_defects
from tests.planted.planting import patched, planted
from zk import forks


def applied(text: str, old: str, new: str) -> str:
    """Return the body of a function with a change made."""
    function = ast.parse(f"def f():\n    {text.replace(chr(10), chr(10) + '    ')}").body[0]
    assert isinstance(function, ast.FunctionDef)
    return "\n".join(map(ast.unparse, Patch("f", old, new).apply(function).body))


@pytest.mark.parametrize(
    ("text", "old", "new", "becomes"),
    [
        ("x = a.b(  # a comment\n    c\n)", "a.b(c)", "d", "x = d"),
        ("if a < 1: b()", "a < 1", "False", "if False:\n    b()"),
        ("a()\nb()\nc()", "a()\nb()", "b()\na()", "b()\na()\nc()"),
        ("a()\nb()", "a()", "pass", "pass\nb()"),
        ("a()\nb()", "a()", "a()\na()", "a()\na()\nb()"),
        ("return a", "return a", "return b", "return b"),
        ("del a[0]", "0", "1", "del a[1]"),
    ],
)
def test_an_expression_or_statements_are_replaced(text: str, old: str, new: str, becomes: str) -> None:
    """However they are laid out."""
    assert applied(text, old, new) == becomes


@pytest.mark.parametrize(
    ("text", "old", "new", "becomes"),
    [
        ("x = a.b(c + 1)", "a.b(X)", "X", "x = c + 1"),
        ("x = a + a", "X + X", "2 * X", "x = 2 * a"),
        ("x = [a for a in b if a.c]", "[A for B in b if C]", "[A for B in ()]", "x = [a for a in ()]"),
        ("a = b()\nc()", "X = b()\nc()", "c()\nX = b()", "c()\na = b()"),
        ("while a:\n    b()\n    c()", "while a: ...", "if a: ...", "if a:\n    b()\n    c()"),
    ],
)
def test_a_letter_stands_for_any_expression_and_dots_for_any_statements(
    text: str, old: str, new: str, becomes: str
) -> None:
    assert applied(text, old, new) == becomes


@pytest.mark.parametrize(("old", "times"), [("a + b", 0), ("b", 2), ("X - X", 0)])
def test_what_does_not_stand_there_once_is_refused(old: str, times: int) -> None:
    """So a patch whose target was rewritten fails instead of testing nothing."""
    with pytest.raises(PatchError, match=rf"stands {times} times in f"):
        applied("x = a - b\ny = b", old, "c")


def test_a_function_is_found_by_the_end_of_its_name() -> None:
    """Wherever its module is."""
    assert function_named("ConfirmationWindow.lost").module == "kafka2011.producer.confirmation_window"
    assert function_named("recovery._recover").full_name == "kafka2011.log.recovery._recover"
    with pytest.raises(PatchError, match=r"is the name of 0 functions"):
        function_named("ConfirmationWindow.los")
    with pytest.raises(PatchError, match=r"is the name of \d+ functions \(.*, "):
        function_named("__init__")


def test_a_method_runs_changed_within_the_block_only() -> None:
    """Whoever holds the method from before runs the changed one too."""
    matches = TopicPattern("a|b").matches
    with patched(Patch("TopicPattern.matches", "return X", "return True")):
        assert matches("c")
        assert TopicPattern("a|b").matches("c")
    assert not matches("c")


def test_the_code_is_restored_after_an_error() -> None:
    code = ConfirmationWindow.lost.__code__
    defect = read_defects("producer")["an unanswered barrier outlives its connection"]
    with pytest.raises(ZeroDivisionError), planted(defect):
        1 // (ConfirmationWindow.lost.__code__ is code)
    assert ConfirmationWindow.lost.__code__ is code


def test_a_defect_may_take_two_patches() -> None:
    defect = read_defects("group")["who comes back does not register"]
    assert [patch.function for patch in defect.patches] == ["Rebalancer._enter", "Division._members"]
    assert defect.shows == {"scenario": "an application falls silent, and comes back"}


@pytest.mark.parametrize("name", sorted(path.stem for path in DIRECTORY.glob("*.toml")))
def test_each_patch_applies(name: str) -> None:
    """To the code that runs, too: no function has a closure."""
    for defect in read_defects(name).values():
        with planted(defect):
            pass


def test_a_decorated_function_keeps_its_decorator() -> None:
    entered: list[object] = []
    with patched(Patch("forks.held_back", "yield", "yield 1")), forks.held_back() as value:
        entered.append(value)
    assert entered == [1]
