"""How long JoinGroup waits for a client's share, and what ends the wait. Time passes only while it waits."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from kafka2011.gateway.groups import coordinator as coordinators
from kafka2011.gateway.groups.coordinator import Coordinator, Joined, Joining
from kafka2011.gateway.groups.member import OTHERS_WAIT_S, Timeouts
from kafka2011.gateway.protocol.errors import ErrorCode
from tests.gateway.groups.test_coordinator import GROUP
from tests.planted.patches import Defect, read_defects
from tests.support.noticing import assert_noticed

if TYPE_CHECKING:
    from collections.abc import Callable

OURS, ANOTHER = 7, 8
REBALANCE_S = 300.0
FIRST = Joining("", None, "me", "here", Timeouts(60, REBALANCE_S), (), frozenset(), needs_id=False)


class Waits:
    """Threads and a clock: events happen when a wait has brought their time."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.events: dict[float, Callable[[], object]] = {}

    def monotonic_s(self) -> float:
        return self.now_s

    def new_event(self) -> Any:
        return SimpleNamespace(wait=self._wait, set=lambda: None)

    def new_lock(self) -> Any:
        return nullcontext()

    def _wait(self, timeout_s: float) -> None:
        next_s = min((at_s for at_s in self.events if at_s > self.now_s), default=float("inf"))
        self.now_s = min(self.now_s + timeout_s, next_s)
        self.events.pop(self.now_s, lambda: None)()


class World:
    """A coordinator with one member, whose rebalance does what a test says."""

    def __init__(self, waits: Waits) -> None:
        self.waits = waits
        client: Any = SimpleNamespace(clock=waits)
        self.coordinator = Coordinator(client, "h:1")
        self.joined = self.coordinator.join(GROUP, FIRST)
        [self.member] = self.coordinator.members()
        rebalancer = SimpleNamespace(session=SimpleNamespace(session_id=OURS), held={})
        self.membership = made = cast("Any", SimpleNamespace(is_settled=False, rebalancer=rebalancer))
        self.member.membership = made

    def hold(self, *session_ids: int) -> None:
        """Have partitions of the member's share owned in these sessions."""
        held = {number: SimpleNamespace(session_id=session_id) for number, session_id in enumerate(session_ids)}
        self.membership.rebalancer.held = held

    def settle(self) -> None:
        self.membership.is_settled = True

    def join(self) -> Joined:
        return self.coordinator.join(GROUP, FIRST._replace(member_id=self.joined.member_id))


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    waits = Waits()
    monkeypatch.setattr(coordinators, "Greenlets", lambda: waits)
    return World(waits)


def test_a_client_waits_until_others_have_given_up_its_share(world: World) -> None:
    """For as long as its own rebalance timeout: then its first assignment is its share."""
    world.hold(OURS)
    world.waits.events[45.0] = world.settle
    assert world.join() == Joined(ErrorCode.NONE, world.joined.member_id, 2)
    assert world.waits.now_s == 45.0


def test_a_client_does_not_wait_longer_than_its_rebalance_timeout(world: World) -> None:
    world.hold(OURS, ANOTHER)
    assert world.join().error is ErrorCode.NONE
    assert world.waits.now_s == REBALANCE_S


@pytest.mark.parametrize("sessions", [(), (ANOTHER,)])
def test_a_client_does_not_wait_long_for_members_of_07(world: World, sessions: tuple[int, ...]) -> None:
    """Nor where the share is not known: they may hang, and be told nothing."""
    world.hold(*sessions)
    assert world.join().error is ErrorCode.NONE
    assert world.waits.now_s == OTHERS_WAIT_S


def test_what_a_client_of_07_takes_meanwhile_is_not_waited_for_any_longer(world: World) -> None:
    world.hold(OURS)
    world.waits.events[45.5] = lambda: world.hold(ANOTHER)
    world.join()
    assert 44.5 + OTHERS_WAIT_S <= world.waits.now_s <= 45.5 + OTHERS_WAIT_S


def test_a_client_waits_until_what_others_have_given_up_late_is_claimed(world: World) -> None:
    """Without this wait, its first assignment would be empty, and its share would come with a second rebalance."""
    world.hold(OURS)
    world.waits.events[45.5] = world.hold
    world.waits.events[46.5] = world.settle
    assert world.join() == Joined(ErrorCode.NONE, world.joined.member_id, 2)
    assert world.waits.now_s == 46.5


def test_a_hand_over_ends_the_wait(world: World) -> None:
    world.hold(OURS)
    world.waits.events[5.5] = world.member.state.leave
    assert world.join().error is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.waits.now_s < 7


def test_the_end_of_the_gateway_ends_waits(world: World) -> None:
    """Then clients look for another one; so do those that ask after that."""
    world.hold(OURS)
    world.waits.events[5.5] = world.coordinator.end_joins
    assert world.join().error is ErrorCode.NOT_COORDINATOR
    assert world.join().error is ErrorCode.NOT_COORDINATOR
    assert world.waits.now_s < 7


def test_a_client_that_asks_again_ends_its_earlier_wait(world: World) -> None:
    """Else both answers would begin a generation, and the client would be in the older one."""
    world.hold(OURS)
    answers: list[Joined] = []

    def join_again() -> None:
        world.settle()
        answers.append(world.join())

    world.waits.events[5.5] = join_again
    assert world.join().error is ErrorCode.NOT_COORDINATOR
    assert answers == [Joined(ErrorCode.NONE, world.joined.member_id, 2)]


DEFECTS = [defect for defect in read_defects("gateway_groups").values() if defect.shows["file"] == "test_waiting"]


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_a_defect_is_noticed(defect: Defect, request: pytest.FixtureRequest) -> None:
    """The test that it names fails with it."""
    assert_noticed(defect, globals()[defect.shows["noticed_by"]], request)
