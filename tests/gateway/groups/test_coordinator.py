"""How clients become members of a group and cease to be: ids, silence, static members, limits. None wants a topic."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import gevent
import pytest

from kafka2011.gateway.groups import coordinator as coordinators
from kafka2011.gateway.groups.coordinator import Coordinator, Joined, Joining
from kafka2011.gateway.groups.member import Timeouts
from kafka2011.gateway.protocol.errors import ErrorCode
from tests.planted.patches import Defect, read_defects
from tests.support.noticing import assert_noticed
from zk.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

GROUP = "readers"
DEADLINE_S = 10.0
FIRST = Joining("", None, "me", "here", Timeouts(60, 60), (), frozenset(), needs_id=True)


@pytest.fixture
def coordinator() -> Iterator[Coordinator]:
    client: Any = SimpleNamespace(clock=SYSTEM_CLOCK)
    made = Coordinator(client, "h:1")
    made.start()
    yield made
    made.stop()


def joined(coordinator: Coordinator, joining: Joining = FIRST) -> Joined:
    """Join, with the id that the first answer gives."""
    answer = coordinator.join(GROUP, joining)
    if answer.error is ErrorCode.MEMBER_ID_REQUIRED:
        answer = coordinator.join(GROUP, joining._replace(member_id=answer.member_id))
    return answer


def synced(coordinator: Coordinator, member: Joined) -> object:
    return coordinator.sync(GROUP, member.member_id, None, member.generation, lambda _: True)


def await_that(condition: Callable[[], bool]) -> None:
    with gevent.Timeout(DEADLINE_S, AssertionError("it did not happen in time")):
        while not condition():
            gevent.sleep(0.005)


def test_a_client_comes_with_the_id_that_it_was_given(coordinator: Coordinator) -> None:
    """So one that gives up before leaves no member; older clients are members at once."""
    told = coordinator.join(GROUP, FIRST)
    assert told.error is ErrorCode.MEMBER_ID_REQUIRED
    assert told.member_id.startswith("me-")
    assert coordinator.members() == []
    assert joined(coordinator, FIRST._replace(member_id=told.member_id)).error is ErrorCode.NONE
    older = coordinator.join(GROUP, FIRST._replace(needs_id=False))
    assert (older.error, older.generation) == (ErrorCode.NONE, 1)
    assert len(coordinator.members(GROUP)) == 2


def test_an_id_that_nobody_was_given_is_unknown(coordinator: Coordinator) -> None:
    """Nor is one of another group's."""
    unknown = FIRST._replace(member_id="me-1")
    assert coordinator.join(GROUP, unknown).error is ErrorCode.UNKNOWN_MEMBER_ID
    member = joined(coordinator)
    assert coordinator.heartbeat("others", member.member_id, None, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_client_that_joins_again_is_the_same_member(coordinator: Coordinator) -> None:
    member = joined(coordinator)
    again = joined(coordinator, FIRST._replace(member_id=member.member_id))
    assert (again.member_id, again.generation) == (member.member_id, 2)
    assert len(coordinator.members()) == 1
    assert coordinator.heartbeat(GROUP, member.member_id, None, 1) is ErrorCode.ILLEGAL_GENERATION
    assert synced(coordinator, again) == frozenset()


def test_a_silent_client_counts_as_gone(coordinator: Coordinator) -> None:
    """One that sends heartbeats does not, however long it takes."""
    silent = joined(coordinator, FIRST._replace(timeouts=Timeouts(0.3, 60)))
    living = joined(coordinator, FIRST._replace(timeouts=Timeouts(0.3, 60)))

    def is_gone() -> bool:
        assert coordinator.heartbeat(GROUP, living.member_id, None, 1) is ErrorCode.NONE
        return len(coordinator.members()) == 1

    await_that(is_gone)
    assert coordinator.heartbeat(GROUP, silent.member_id, None, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_client_that_leaves_is_gone(coordinator: Coordinator) -> None:
    member = joined(coordinator)
    assert coordinator.leave(GROUP, member.member_id, None) is ErrorCode.NONE
    assert coordinator.leave(GROUP, member.member_id, None) is ErrorCode.UNKNOWN_MEMBER_ID
    assert coordinator.members() == []


def test_another_process_of_a_static_member_takes_its_place(coordinator: Coordinator) -> None:
    """And the former one is told so, whatever it asks."""
    static = FIRST._replace(instance_id="one")
    former, latter = joined(coordinator, static), joined(coordinator, static)
    assert len(coordinator.members()) == 1
    assert coordinator.heartbeat(GROUP, former.member_id, "one", 1) is ErrorCode.FENCED_INSTANCE_ID
    assert coordinator.commit(GROUP, former.member_id, "one", 1, {}) is ErrorCode.FENCED_INSTANCE_ID
    assert coordinator.heartbeat(GROUP, latter.member_id, "one", latter.generation) is ErrorCode.NONE
    assert coordinator.leave(GROUP, "", "one") is ErrorCode.NONE
    assert coordinator.members() == []


def test_there_is_a_limit_of_members(coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of those that were told an id and have not come yet."""
    monkeypatch.setattr(coordinators, "MOST_MEMBERS", 2)
    for _ in range(2):
        assert joined(coordinator).error is ErrorCode.NONE
    assert joined(coordinator).error is ErrorCode.GROUP_MAX_SIZE_REACHED
    for _ in range(2):
        coordinator.join(GROUP, FIRST)
    assert coordinator.join(GROUP, FIRST).error is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_a_group_that_another_gateway_coordinates_has_no_members_here(coordinator: Coordinator) -> None:
    member = joined(coordinator)
    coordinator.drop(GROUP)
    assert coordinator.heartbeat(GROUP, member.member_id, None, 1) is ErrorCode.UNKNOWN_MEMBER_ID


DEFECTS = [defect for defect in read_defects("gateway_groups").values() if defect.shows["file"] == "test_coordinator"]


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_a_defect_is_noticed(defect: Defect, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test that it names fails with it."""
    monkeypatch.setitem(globals(), "DEADLINE_S", 2.0)
    assert_noticed(defect, globals()[defect.shows["noticed_by"]], request)
