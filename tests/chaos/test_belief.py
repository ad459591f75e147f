"""Faults that go by whom the replicas believe, without processes."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

import pytest

from integration.chaos import belief
from integration.chaos.belief import BeliefFaults
from integration.chaos.faults import Begun
from integration.chaos.schedule import Fault

if TYPE_CHECKING:
    from collections.abc import Iterator

READABLE = 100


class Replica:
    """A replica that does as if, and whether the state names it in sync.

    `comes_in_sync` says whether it does so again when it has started, and what is held back of it has arrived.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.running = True
        self.is_named = True
        self.comes_in_sync = True
        self.is_held = False
        self.stays_named = False
        self.has_disk = True
        self.end = READABLE
        self.direct_port = 1

    def kill(self) -> None:
        self.running = False
        self.is_named = self.stays_named

    kill_with_watchdog = kill

    def launch(self) -> None:
        self.running = True
        self.is_named = self.comes_in_sync and not self.is_held

    def hold(self, is_held: bool) -> None:
        self.is_held = is_held
        self.is_named = self.comes_in_sync

    def pause(self) -> None:
        pass

    resume = pause

    def lose_disk(self) -> None:
        self.has_disk = False

    def ends(self) -> dict[int, int]:
        return {0: self.end}


class Replicas:
    """Three replicas that do as if, led by a."""

    def __init__(self) -> None:
        self.all = {name: Replica(name) for name in "abc"}
        self.gone_back: set[str] = set()
        self.leads = "a"

    def lead_by_state(self) -> tuple[int, str]:
        return (1 if self.leads == "a" else 2), self.leads

    def session_of(self, name: str) -> int | None:
        return id(self.all[name]) if self.all[name].running else None

    def read_in_sync(self) -> set[str]:
        return {each.name for each in self.all.values() if each.is_named}

    in_sync = sound = read_in_sync


class Copies:
    """Has every disk lose an end."""

    def put_back(self, _replica: Replica) -> bool:
        return False

    def lose_end(self, replica: Replica, _pick: float, *, must_be_told: bool = True) -> bool:
        del must_be_told
        replica.end -= 1
        return True


class Watch:
    """Has seen what clients could read."""

    def __init__(self) -> None:
        self.ends = {0: READABLE}


class Sender:
    """Counts how often it was told to be quiet."""

    def __init__(self) -> None:
        self.quiets = 0

    @contextmanager
    def quiet(self) -> Iterator[None]:
        self.quiets += 1
        yield


class Others:
    """What the other faults know."""

    leader = ""

    def __init__(self, replicas: Replicas) -> None:
        self._replicas = replicas

    def are_well(self) -> bool:
        return True

    def choose(self, _fault: Fault, leader_share: float) -> Replica:
        return self._replicas.all["a" if leader_share == 1 else "b"]

    def turn(self, *_: object, only: Replica) -> Begun:
        only.hold(True)
        return Begun((), lambda: only.hold(False))


@pytest.fixture
def replicas(monkeypatch: pytest.MonkeyPatch) -> Replicas:
    monkeypatch.setattr("time.sleep", lambda _: None)
    monkeypatch.setattr(belief, "wait_for", lambda condition, *_: condition())
    return Replicas()


def faults_of(replicas: Replicas, sender: Sender) -> BeliefFaults:
    known = (Others(replicas), replicas, Copies(), Watch())
    return BeliefFaults(*cast("tuple[Any, Any, Any, Any]", known), [sender])


@pytest.mark.parametrize("kind", ["believed again", "late request"])
def test_all_others_lose_their_disks_once_a_replica_is_in_sync_again(kind: str, replicas: Replicas) -> None:
    """And what it lacks of what clients could read is named."""
    faults = faults_of(replicas, Sender())
    begun = faults.kinds[kind](Fault(0, kind, 1, 0.25))
    assert begun is not None
    assert set(begun.whom) == {"a", "c"}
    assert [each.has_disk for each in replicas.all.values()] == [False, True, False]
    assert [text.partition(",")[0] for text in faults.lacking] == ["b is in sync"]
    begun.undo()
    assert all(each.running for each in replicas.all.values())


@pytest.mark.parametrize("kind", ["believed again", "late request"])
def test_nobody_else_loses_a_disk_while_a_replica_is_not_in_sync(kind: str, replicas: Replicas) -> None:
    """Its disk has gone back, and the others have everything."""
    faults = faults_of(replicas, Sender())
    replicas.all["b"].comes_in_sync = False
    begun = faults.kinds[kind](Fault(0, kind, 1, 0.25))
    assert begun is not None
    assert begun.whom == ("b",)
    assert all(each.has_disk for each in replicas.all.values())
    assert faults.lacking == []


def test_nobody_sends_while_a_request_is_late(replicas: Replicas) -> None:
    """What is sent meanwhile would tell that the follower lacks something."""
    sender = Sender()
    faults_of(replicas, sender).kinds["late request"](Fault(0, "late request", 1, 0.25))
    assert sender.quiets == 1


def test_one_that_has_gone_back_starts_before_the_others(replicas: Replicas) -> None:
    """They come when the fault is over."""
    for each in replicas.all.values():
        each.stays_named = True
    begun = faults_of(replicas, Sender()).kinds["put back alone"](Fault(0, "put back alone", 1, 0.25))
    assert begun is not None
    assert begun.whom == ("a", "b", "c")
    assert [each.running for each in replicas.all.values()] == [False, True, False]
    assert replicas.gone_back == {"b"}
    begun.undo()
    assert all(each.running for each in replicas.all.values())


@pytest.mark.parametrize(("leads", "says"), [("a", []), ("b", ["b leads"])])
def test_one_that_has_gone_back_must_not_lead(leads: str, says: list[str], replicas: Replicas) -> None:
    """While it is alone."""
    replicas.all["a"].stays_named = True
    faults = faults_of(replicas, Sender())
    begun = faults.kinds["put back alone"](Fault(0, "put back alone", 1, 0.25))
    assert begun is not None
    replicas.leads = leads
    begun.undo()
    assert [text.partition(",")[0] for text in faults.lacking] == says


def test_the_only_one_in_sync_keeps_its_disk(replicas: Replicas) -> None:
    """The last one that was killed may have put the others out of sync before."""
    replicas.all["b"].stays_named = True
    faults_of(replicas, Sender()).kinds["put back alone"](Fault(0, "put back alone", 1, 0.25))
    assert replicas.all["b"].end == READABLE
