"""Tries the orders of a group's events: all of them to a depth, remembering positions met before; or random ones."""

from __future__ import annotations

import gc
import time
from collections import deque
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING

from kafka2011.consumer import stream
from tests.models.group.group import OF_MEMBERS, Action, GroupModel, Scenario
from tests.models.group.position import position_of
from tests.models.group.rest import settle
from tests.models.group.scenarios import anything

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_MOST_STEPS = 200


class Failure(AssertionError):  # noqa: N818 - it is named for what it is
    """An order of events that ends in a violation."""

    def __init__(self, order: Sequence[Action], why: BaseException, prefix: str = "") -> None:
        super().__init__(f"{prefix}{why!r}\nafter {list(order)}")
        self.order = list(order)
        self.why = why


@dataclass
class Order:
    """Events so far, the member that went on last, and how often another may still interrupt one that could go on."""

    actions: list[Action]
    member: str
    switches: int

    def then(self, action: Action, busy: set[str]) -> Order | None:
        """Return the order with one more event; None when that would be an interruption too many."""
        member, switches = self.member, self.switches
        if action[0] in OF_MEMBERS:
            member = str(action[1])
            switches -= member != self.member and self.member in busy
        return None if switches < 0 else Order([*self.actions, action], member, switches)


@dataclass
class Found:
    """What a search has seen. `is_whole`: there was nothing left to try."""

    positions: dict[int, int] = field(default_factory=dict)  # how many interruptions were left there, at most
    runs: int = 0
    rests: int = 0
    is_whole: bool = False


@contextmanager
def _in_haste() -> Iterator[None]:
    """Have streams never pause for the sake of other threads, and garbage collection look at what is new only."""
    before, stream.BREATH_S = stream.BREATH_S, 0.0
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        stream.BREATH_S = before


def replay(scenario: Scenario, order: Sequence[Action]) -> GroupModel:
    """Take a group through an order of events."""
    group = GroupModel(scenario)
    for action in order:
        group.do(action)
    return group


def search(scenario: Scenario, switches: int, *, most_runs: int = 10**9, longest_s: float = float("inf")) -> Found:
    """Try every order of events in which members interrupt one another so many times; raises Failure.

    The first run lets members go on before anything else happens; each one after that deviates from one before it, so
    those with few deviations come first. Every group that has nothing more to do by itself is brought to rest, and what
    must hold then is looked at. Without time for all, or after so many runs, returns what was tried.
    """
    found = Found()
    end_s = time.process_time() + longest_s  # other processes take nothing from it
    pending = deque([Order([], "", switches)])
    with _in_haste():
        while pending and found.runs < most_runs and time.process_time() < end_s:
            order = pending.popleft()
            found.runs += 1
            try:
                _follow(scenario, order, pending, found)
            except Exception as why:
                raise Failure(order.actions, why) from why
    found.is_whole = not pending
    return found


def _follow(scenario: Scenario, order: Order, pending: deque[Order], found: Found) -> None:
    """Go on from the end of an order for as long as the positions are new, and note the other ways to go."""
    group = replay(scenario, order.actions)
    while True:
        position = hash((position_of(group), order.member))
        if found.positions.get(position, -1) >= order.switches:
            return
        found.positions[position] = order.switches
        actions = group.actions()
        busy = {str(action[1]) for action in actions if action[0] in OF_MEMBERS}
        ways = [way for action in actions if (way := order.then(action, busy)) is not None]
        if not ways or (not busy and not scenario.is_atomic):
            found.rests += 1
            settle(group)
            pending.extend(ways)
            return
        pending.extend(ways[1:])
        order.actions.append(ways[0].actions[-1])
        order.member, order.switches = ways[0].member, ways[0].switches
        group.do(order.actions[-1])


def wander(seed: int) -> GroupModel:
    """Take random steps in a random scenario, and bring the group to rest; raises Failure, with few steps left of them.

    The seed alone says which: nothing that is drawn from, nor any shipped code, goes by the order of a set.
    """
    random = Random(seed)
    scenario = anything(random)
    order: list[Action] = []
    with _in_haste():
        try:
            group = GroupModel(scenario)
            for _ in range(random.randrange(_MOST_STEPS)):
                actions = group.actions()
                if not actions:
                    break
                order.append(random.choice(actions))
                group.do(order[-1])
            settle(group)
        except Exception as why:
            raise Failure(shortened(scenario, order), why, f"seed {seed}: ") from why
    return group


def shortened(scenario: Scenario, order: Sequence[Action]) -> list[Action]:
    """Leave out of an order that fails, in the end by not coming to rest, the events without which it fails too."""
    left, before = list(order), 0
    while len(left) != before:
        before = len(left)
        for index in reversed(range(before)):
            fewer = left[:index] + left[index + 1 :]
            if _fails(scenario, fewer):
                left = fewer
    return left


def _fails(scenario: Scenario, order: Sequence[Action]) -> bool:
    """Say whether something does not hold; what has become impossible is passed over."""
    try:
        group = GroupModel(scenario)
        for action in order:
            if action in group.actions():
                group.do(action)
        settle(group)
    except Exception:  # noqa: BLE001 (a step that fails in any way)
        return True
    return False
