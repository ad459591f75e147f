"""The budget that all connections share, with real greenlets."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING

import gevent
import pytest
from gevent.event import Event

from kafka2011.broker.memory.memory_budget import MemoryBudget, MemoryClaim, MemoryRefusedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SHORT_S = 0.02
FOREVER_S = 3600.0


@pytest.fixture(autouse=True)
def deadline() -> Iterator[None]:
    """Fail where greenlets wait for one another for ever."""
    with gevent.Timeout(60):
        yield


def until(condition: Callable[[], bool]) -> None:
    """Let the others run until something is so; the deadline ends it."""
    while not condition():
        gevent.sleep(0.001)


def until_later_than(claim: MemoryClaim) -> None:
    """Let time pass, so that what moves now has moved after this claim."""
    until(lambda: time.monotonic() > claim.changed_at_s)


class CountedRounds(Event):
    """Knows how often a claim began to wait for it: it clears it each time."""

    def __init__(self) -> None:
        super().__init__()
        self.rounds = 0

    def clear(self) -> None:
        self.rounds += 1
        super().clear()


class Client:
    """A connection as the budget sees it: claims, and an end that comes when it is evicted."""

    def __init__(self, budget: MemoryBudget, name: str, claims: int = 1) -> None:
        self.name = name
        self.evictions = 0
        self.evicted = Event()
        self.claims = [budget.claim(name, self._evict) for _ in range(claims)]

    @property
    def claim(self) -> MemoryClaim:
        return self.claims[0]

    def _evict(self) -> None:
        self.evictions += 1
        self.evicted.set()

    def close(self) -> None:
        for claim in self.claims:
            claim.resize(0)


def assert_empty(budget: MemoryBudget) -> None:
    assert (budget.held_bytes, budget.claims, budget.waiting) == (0, set(), [])
    assert budget.peak_bytes <= budget.max_bytes


def test_what_fits_is_given_at_once() -> None:
    """Growing and shrinking within the budget neither waits nor switches to another greenlet."""
    budget = MemoryBudget(100)
    first, second = Client(budget, "first"), Client(budget, "second")
    other = gevent.spawn(lambda: None)
    first.claim.resize(60)
    second.claim.resize(40)
    first.claim.resize(10)
    second.claim.resize(90)
    assert (budget.held_bytes, budget.peak_bytes) == (100, 100)
    assert not other.ready()
    first.close()
    second.close()
    second.close()
    assert_empty(budget)
    assert budget.refused == 0


def test_who_finds_no_room_waits_for_it() -> None:
    """The waiting claim goes on as soon as another gives back enough."""
    budget = MemoryBudget(100, FOREVER_S)
    first, second = Client(budget, "first"), Client(budget, "second")
    first.claim.resize(80)
    waiting = gevent.spawn(second.claim.resize, 50)
    until(lambda: second.claim.waiting_for_bytes == 50)
    first.claim.resize(60)
    gevent.idle()
    assert second.claim.held_bytes == 0
    first.claim.resize(50)
    waiting.get()
    assert (second.claim.held_bytes, second.claim.waiting_for_bytes, budget.held_bytes) == (50, 0, 100)


def test_those_that_wait_come_in_order() -> None:
    """First come, first served; a small one does not overtake a large one."""
    budget = MemoryBudget(100, FOREVER_S)
    holder = Client(budget, "holder")
    holder.claim.resize(100)
    served: list[int] = []

    def take(number: int, held_bytes: int) -> None:
        client = Client(budget, str(number))
        client.claim.resize(held_bytes)
        served.append(number)
        client.close()

    greenlets = []
    for number, held_bytes in enumerate([50, 1, 100, 2, 30]):
        greenlets.append(gevent.spawn(take, number, held_bytes))
        until(lambda: len(budget.waiting) == len(greenlets))
    holder.claim.resize(99)
    gevent.idle()
    assert served == []  # although a byte would do for the second
    holder.close()
    gevent.joinall(greenlets, raise_error=True)
    assert served == [0, 1, 2, 3, 4]
    assert_empty(budget)


def test_a_newcomer_does_not_overtake_those_that_wait() -> None:
    """There may be room for it, but others were here before."""
    budget = MemoryBudget(100, FOREVER_S)
    holder, large, small = Client(budget, "holder"), Client(budget, "large"), Client(budget, "small")
    holder.claim.resize(60)
    first = gevent.spawn(large.claim.resize, 80)
    until(lambda: large.claim.waiting_for_bytes > 0)
    second = gevent.spawn(small.claim.resize, 10)
    until(lambda: small.claim.waiting_for_bytes > 0)
    holder.close()
    gevent.joinall([first, second], raise_error=True)
    assert budget.held_bytes == 90


def test_a_connection_that_stands_still_is_closed_for_others() -> None:
    """The one that has not moved for longest goes; the one that moves stays; the count tells."""
    budget = MemoryBudget(100, SHORT_S)
    stalled, moving, wants = Client(budget, "stalled"), Client(budget, "moving"), Client(budget, "wants")
    stalled.claim.resize(50)
    moving.claim.resize(49)

    def move() -> None:
        while not stalled.evicted.wait(SHORT_S / 10):
            moving.claim.resize(49 + (moving.claim.held_bytes + 1) % 2)

    def leave() -> None:
        stalled.evicted.wait()
        stalled.close()

    greenlets = [gevent.spawn(move), gevent.spawn(leave)]
    wants.claim.resize(40)
    gevent.joinall(greenlets, raise_error=True)
    assert (stalled.evictions, moving.evictions, wants.evictions) == (1, 0, 0)
    assert (stalled.claim.refused, budget.refused) == (True, 1)
    assert budget.held_bytes == moving.claim.held_bytes + 40


def test_nobody_is_closed_while_there_is_room() -> None:
    """Standing still is no crime as long as nobody waits."""
    budget = MemoryBudget(100, patience_s=0)
    stalled, other = Client(budget, "stalled"), Client(budget, "other")
    stalled.claim.resize(50)
    until_later_than(stalled.claim)
    other.claim.resize(50)
    assert (stalled.evictions, budget.refused) == (0, 0)


def test_one_that_was_closed_takes_nothing_more() -> None:
    """Bytes that it had sent before are not read on; it gives back what it holds."""
    budget = MemoryBudget(100, SHORT_S)
    stalled, wants = Client(budget, "stalled"), Client(budget, "wants")
    stalled.claim.resize(50)
    greenlet = gevent.spawn(wants.claim.resize, 60)
    stalled.evicted.wait()
    with pytest.raises(MemoryRefusedError, match="stalled"):
        stalled.claim.resize(51)
    stalled.close()
    greenlet.get()
    assert budget.held_bytes == 60


def test_one_that_does_not_go_is_closed_only_once() -> None:
    """Its greenlet may be busy elsewhere for a while; then the next one is looked for, and no one is counted twice."""
    budget = MemoryBudget(100, SHORT_S)
    stuck, next_one, wants = Client(budget, "stuck"), Client(budget, "next"), Client(budget, "wants")
    stuck.claim.resize(50)
    until_later_than(stuck.claim)
    next_one.claim.resize(50)
    released = wants.claim.released = CountedRounds()
    greenlet = gevent.spawn(wants.claim.resize, 80)
    next_one.evicted.wait()
    rounds = released.rounds
    until(lambda: released.rounds >= rounds + 3)  # in each it might have closed one
    assert (stuck.evictions, next_one.evictions, wants.evictions, budget.refused) == (1, 1, 0, 2)
    stuck.close()
    next_one.close()
    greenlet.get()
    wants.close()
    assert_empty(budget)


def test_when_all_wait_for_one_another_the_newest_goes() -> None:
    """Three half requests that all need more than is left: the last to ask goes, then the first two are completed."""
    budget = MemoryBudget(100, FOREVER_S)
    clients = [Client(budget, name) for name in ("first", "second", "third")]

    def grow(client: Client) -> None:
        try:
            client.claim.resize(60)
        finally:
            client.close()

    for client in clients:
        client.claim.resize(30)
    greenlets = []
    for client in clients:
        greenlets.append(gevent.spawn(grow, client))
        until(lambda: len(budget.waiting) == len(greenlets))
    budget.patience_s = SHORT_S  # not before all of them wait, however busy the machine is
    for claim in budget.waiting:
        claim.released.set()
    gevent.joinall(greenlets)
    assert [type(greenlet.exception) for greenlet in greenlets] == [type(None), type(None), MemoryRefusedError]
    assert [client.claim.refused for client in clients] == [False, False, True]
    assert budget.refused == 1
    assert_empty(budget)


def test_what_can_never_be_had_is_refused_at_once() -> None:
    """A connection that alone needs more than the whole budget does not wait for itself, whatever it holds already."""
    budget = MemoryBudget(100, FOREVER_S)
    greedy = Client(budget, "greedy", claims=2)
    with pytest.raises(MemoryRefusedError, match="101 more cannot be allocated"):
        greedy.claim.resize(101)
    greedy.claims[0].resize(60)
    with pytest.raises(MemoryRefusedError, match="holds 60 bytes: 41 more cannot be allocated"):
        greedy.claims[1].resize(41)
    greedy.claims[1].resize(40)
    greedy.close()
    assert budget.refused == 2
    assert_empty(budget)


def test_a_connection_is_not_closed_for_its_own_sake() -> None:
    """While one of its claims waits, the other cannot move: that is no standing still."""
    budget = MemoryBudget(100, SHORT_S)
    opener, other = Client(budget, "opener", claims=2), Client(budget, "other")
    opener.claims[0].resize(40)
    until_later_than(opener.claims[0])
    other.claim.resize(60)
    greenlet = gevent.spawn(opener.claims[1].resize, 30)
    other.evicted.wait()
    other.close()
    greenlet.get()
    assert (opener.evictions, other.evictions) == (0, 1)
    opener.close()
    assert_empty(budget)


def test_the_newest_that_waits_ends_as_a_whole() -> None:
    """All claims of a connection that must go are marked, so that its other half knows why it ended."""
    budget = MemoryBudget(100, SHORT_S)
    first, second = Client(budget, "first"), Client(budget, "second", claims=2)
    first.claim.resize(50)
    second.claims[0].resize(50)
    greenlets = [gevent.spawn(first.claim.resize, 60)]
    until(lambda: first.claim.waiting_for_bytes > 0)
    greenlets.append(gevent.spawn(second.claims[1].resize, 10))
    greenlets[1].join()
    assert isinstance(greenlets[1].exception, MemoryRefusedError)
    assert [claim.refused for claim in second.claims] == [True, True]
    assert second.evictions >= 1  # the first may have run out of patience, too
    second.close()
    greenlets[0].get()


def test_a_greenlet_that_is_stopped_while_it_waits_leaves_the_line() -> None:
    """A connection that is cut off does not hold up those behind it."""
    budget = MemoryBudget(100, FOREVER_S)
    holder, stopped, behind = Client(budget, "holder"), Client(budget, "stopped"), Client(budget, "behind")
    holder.claim.resize(90)
    first = gevent.spawn(stopped.claim.resize, 50)
    until(lambda: stopped.claim.waiting_for_bytes > 0)
    second = gevent.spawn(behind.claim.resize, 10)
    until(lambda: behind.claim.waiting_for_bytes > 0)
    first.kill()
    second.get()
    assert (stopped.claim.waiting_for_bytes, stopped.claim.held_bytes) == (0, 0)
    holder.close()
    behind.close()
    assert_empty(budget)


def test_one_that_holds_nothing_is_not_closed_for_room() -> None:
    """Its end would free no byte; it keeps its place in the line until its turn comes."""
    budget = MemoryBudget(100, FOREVER_S)
    first, second, empty = Client(budget, "first"), Client(budget, "second"), Client(budget, "empty")
    first.claim.resize(50)
    second.claim.resize(50)
    greenlets = []
    for client in (first, second, empty):
        greenlets.append(gevent.spawn(client.claim.resize, 60))
        until(lambda: len(budget.waiting) == len(greenlets))
    budget.patience_s = SHORT_S  # not earlier, as all must stand in line before anyone runs out of patience
    first.claim.released.set()
    greenlets[1].join()
    budget.patience_s = FOREVER_S
    assert isinstance(greenlets[1].exception, MemoryRefusedError)
    second.close()
    greenlets[0].get()
    first.close()
    greenlets[2].get()
    assert [client.evictions for client in (first, second, empty)] == [0, 1, 0]


def serve(client: Client, plan: list[tuple[int, int, float]]) -> None:
    """Do what a connection does: hold (which claim, so many bytes, for so long) one after the other, then go."""
    budget = client.claim.budget
    try:
        for which, held_bytes, pause_s in plan:
            client.claims[which].resize(held_bytes)
            assert budget.held_bytes <= budget.max_bytes
            if client.evicted.wait(pause_s):
                return
    except MemoryRefusedError:
        return
    finally:
        client.close()


def random_plan(rng: random.Random) -> list[tuple[int, int, float]]:
    kind = rng.choice(["growing", "random", "stalling"])
    steps: list[tuple[int, int, float]] = []
    for step in range(rng.randint(1, 12)):
        held_bytes = (step + 1) * rng.randint(1, 120) if kind == "growing" else rng.randint(0, 700)
        pause_s = rng.choice([0, 0.02]) if kind == "stalling" else rng.choice([0, 0, 0.0005])
        steps.append((rng.randint(0, 1), held_bytes, pause_s))
    if kind == "stalling":
        steps.append((0, rng.randint(1, 700), FOREVER_S))  # until somebody needs what it holds
    return steps


@pytest.mark.parametrize("seed", range(12))
def test_many_connections_never_lock_one_another(seed: int) -> None:
    """Connections of every kind, growing, stalling, vanishing: all end, the cap holds, and all memory comes back."""
    rng = random.Random(seed)
    budget = MemoryBudget(1000, 0.003)
    greenlets = []
    for number in range(25):
        greenlets.append(gevent.spawn(serve, Client(budget, f"client {number}", claims=2), random_plan(rng)))
        gevent.sleep(rng.choice([0, 0.0005]))
    for greenlet in rng.sample(greenlets, 5):
        greenlet.kill()
    pressure = Client(budget, "pressure")  # has those closed at last that stall because there was room for them
    while not all(greenlet.ready() for greenlet in greenlets):
        pressure.claim.resize(0)
        pressure.claim.resize(1000)
    gevent.joinall(greenlets, raise_error=True)
    pressure.close()
    assert pressure.evictions == 0
    assert_empty(budget)
