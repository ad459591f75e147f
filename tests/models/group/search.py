"""Tries the orders of a group's events: all of them to a depth, remembering positions met before; or random ones."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafka2011.consumer import stream
from tests.models.group.group import Action, GroupModel, Scenario
from tests.models.group.referee import Violation

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from random import Random

_OF_MEMBERS = {"serve", "try", "call back"}


class Failure(AssertionError):  # noqa: N818 - it is named for what it is
    """An order of events that ends in a violation."""

    def __init__(self, order: Sequence[Action], why: BaseException) -> None:
        super().__init__(f"{why}\nafter {list(order)}")
        self.order = list(order)
        self.why = why


@dataclass
class Found:
    """What a search has seen. `is_whole`: there was nothing left to try."""

    positions: dict[int, int] = field(default_factory=dict)  # with how many steps were left there
    runs: int = 0
    rests: int = 0
    is_whole: bool = False


@contextmanager
def without_breath() -> Iterator[None]:
    """Have streams never pause for the sake of other threads: there are none."""
    before, stream.BREATH_S = stream.BREATH_S, 0.0
    try:
        yield
    finally:
        stream.BREATH_S = before


def replay(scenario: Scenario, order: Sequence[Action]) -> GroupModel:
    """Take a group through an order of events."""
    group = GroupModel(scenario)
    for action in order:
        group.do(action)
    return group


def search(scenario: Scenario, depth: int = 1000, longest_s: float = float("inf")) -> Found:
    """Try every order of events up to so many steps; raises Failure. Without time for all, returns what was tried.

    Every group that has nothing more to do by itself is brought to rest, and what must hold then is looked at.
    """
    found = Found()
    end_s = time.monotonic() + longest_s
    pending: list[list[Action]] = [[]]
    with without_breath():
        while pending and time.monotonic() < end_s:
            order = pending.pop()
            found.runs += 1
            try:
                _follow(scenario, order, depth, pending, found)
            except Exception as why:
                raise Failure(order, why) from why
    found.is_whole = not pending
    return found


def _follow(scenario: Scenario, order: list[Action], depth: int, pending: list[list[Action]], found: Found) -> None:
    """Go on from the end of an order for as long as the positions are new, and note the other ways to go."""
    group = replay(scenario, order)
    while True:
        position, left = group.position(), depth - len(order)
        if found.positions.get(position, -1) >= left:
            return
        found.positions[position] = left
        actions = group.actions() if left else []
        if not any(action[0] in _OF_MEMBERS for action in actions):
            found.rests += 1
            group.settle()
            pending.extend([*order, action] for action in actions)
            return
        pending.extend([*order, action] for action in actions[1:])
        order.append(actions[0])
        group.do(actions[0])


def wander(scenario: Scenario, random: Random, steps: int) -> GroupModel:
    """Take random steps, and bring the group to rest; raises Failure."""
    order: list[Action] = []
    with without_breath():
        try:
            group = GroupModel(scenario)
            for _ in range(steps):
                actions = group.actions()
                if not actions:
                    break
                order.append(random.choice(actions))
                group.do(order[-1])
            group.settle()
        except Exception as why:
            raise Failure(order, why) from why
    return group
