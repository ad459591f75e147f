"""The exchange of code that the models' tests rely on."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.mutation import mutated

if TYPE_CHECKING:
    from collections.abc import Callable


class Counter:
    def __init__(self) -> None:
        self.count = 0

    def add(self, number: int) -> int:
        if number > 0:
            self.count += number
        return self.count


def plus_one(call: Callable[..., int]) -> Callable[..., int]:
    @functools.wraps(call)
    def wrapped(*arguments: Any) -> int:
        return call(*arguments) + 1

    return wrapped


@plus_one
def double(number: int) -> int:
    return number * 2


def test_a_method_runs_changed_within_the_block_only() -> None:
    """Whoever holds the method from before runs the changed one too."""
    counter = Counter()
    add = counter.add
    with mutated(Counter.add, "number > 0", "number > 10"):
        assert add(5) == 0
        assert add(11) == 11
    assert add(5) == 16


def test_a_decorated_function_keeps_its_decorator() -> None:
    with mutated(double, "* 2", "* 3"):
        assert double(10) == 31
    assert double(10) == 21


def test_the_code_is_restored_after_an_error() -> None:
    with pytest.raises(ZeroDivisionError), mutated(double, "number * 2", "number // 0"):
        double(1)
    assert double(1) == 3


@pytest.mark.parametrize("old", ["count -= number", "number"])
def test_text_that_is_not_there_exactly_once_is_refused(old: str) -> None:
    """So a mutation whose target was rewritten fails instead of testing nothing."""
    with pytest.raises(AssertionError, match=r"times in Counter\.add"), mutated(Counter.add, old, "pass"):
        pass
