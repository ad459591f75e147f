"""Which gateway coordinates a group, when that is claimed, and when a claim counts no more."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kafka2011.gateway.groups.claims import IDLE_S, GroupClaims
from tests.planted.patches import Defect, read_defects
from tests.support.clocks import ManualClock
from tests.support.noticing import assert_noticed
from tests.support.zk_in_memory import ZkClientInMemory
from zk import paths
from zk.errors import NotConnected
from zk.gateways import GatewayAddress, GatewayRegistry

GROUP = "readers"


def _stand_in(thing: object) -> Any:
    return thing


class Gateway:
    """One gateway's claims on groups, in a session that a test says is certain or not."""

    def __init__(self, node_id: int, other: Gateway | None = None) -> None:
        self.clock = ManualClock()
        self.client = _stand_in(ZkClientInMemory())
        if other is not None:
            self.client.tree = other.client.tree
        self.client.session_id = node_id + 1
        self.is_certain = True
        registry = GatewayRegistry(self.client)
        registry.ensure_parents()
        self.address = GatewayAddress(node_id, "here", 9092 + node_id)
        self.lost: list[str] = []
        session: Any = SimpleNamespace(
            certain_session_id=lambda: self.client.session_id if self.is_certain else None,
        )
        self.claims = GroupClaims(registry, session, self.address, self.lost.append, self.clock)

    def begin_session(self, session_id: int) -> None:
        """Be in another session; what the old one had is there until `end_session`."""
        self.client.session_id = session_id


def end_session(gateway: Gateway) -> None:
    """Remove what an old session had, as ZooKeeper does."""
    del gateway.client.tree[paths.gateway_group(GROUP)]


@pytest.fixture
def gateway() -> Gateway:
    return Gateway(0)


@pytest.fixture
def other(gateway: Gateway) -> Gateway:
    return Gateway(1, gateway)


def test_the_first_gateway_that_is_asked_coordinates_a_group(gateway: Gateway, other: Gateway) -> None:
    assert gateway.claims.find(GROUP) == gateway.address
    assert other.claims.find(GROUP) == gateway.address
    assert (gateway.claims.coordinates(GROUP), other.claims.coordinates(GROUP)) == (True, False)
    gateway.claims.stop()
    assert other.claims.find(GROUP) == other.address


def test_a_gateway_to_which_another_has_sent_a_client_coordinates_its_group(gateway: Gateway) -> None:
    """It may have claimed the group, and not have heard so."""
    assert gateway.claims.coordinates(GROUP)


def test_nothing_is_claimed_while_the_session_may_have_ended(gateway: Gateway) -> None:
    """Nobody would know in which session it was."""
    gateway.is_certain = False
    with pytest.raises(NotConnected):
        gateway.claims.find(GROUP)
    assert paths.gateway_group(GROUP) not in gateway.client.tree


def test_who_coordinates_a_group_is_told_while_the_session_may_have_ended(gateway: Gateway, other: Gateway) -> None:
    """Clients ask again then, and are sent elsewhere once another gateway has the group."""
    gateway.claims.find(GROUP)
    gateway.is_certain = False
    assert gateway.claims.find(GROUP) == gateway.address
    with pytest.raises(NotConnected):
        gateway.claims.coordinates(GROUP)
    gateway.begin_session(7)
    end_session(gateway)
    other.claims.find(GROUP)
    gateway.is_certain = True
    assert gateway.claims.find(GROUP) == other.address


def test_a_claim_counts_only_while_its_session_is_certain(gateway: Gateway) -> None:
    gateway.claims.find(GROUP)
    gateway.is_certain = False
    assert not gateway.claims.holds(GROUP)
    gateway.is_certain = True
    assert gateway.claims.holds(GROUP)


def test_what_an_earlier_process_at_this_address_has_claimed_is_not_its_own(gateway: Gateway) -> None:
    """That ends with its session, and then another gateway may claim it."""
    gateway.claims.find(GROUP)
    again = Gateway(0, gateway)
    again.begin_session(7)
    assert again.claims.find(GROUP) == again.address
    assert not again.claims.coordinates(GROUP)
    end_session(gateway)
    assert again.claims.coordinates(GROUP)


def test_in_a_new_session_groups_are_claimed_again(gateway: Gateway) -> None:
    gateway.claims.find(GROUP)
    gateway.begin_session(7)
    end_session(gateway)
    assert not gateway.claims.holds(GROUP)
    gateway.claims.look()
    assert gateway.claims.holds(GROUP)
    assert gateway.lost == []


def test_a_group_that_another_gateway_has_got_is_lost(gateway: Gateway, other: Gateway) -> None:
    gateway.claims.find(GROUP)
    gateway.begin_session(7)
    end_session(gateway)
    other.claims.find(GROUP)
    gateway.claims.look()
    assert gateway.lost == [GROUP]
    assert not gateway.claims.holds(GROUP)


def test_a_group_without_requests_may_go_elsewhere(gateway: Gateway, other: Gateway) -> None:
    """As long as its members ask for something, it stays."""
    gateway.claims.find(GROUP)
    for _ in range(3):
        gateway.clock.now_s += IDLE_S * 0.9
        assert gateway.claims.holds(GROUP)
        gateway.claims.look()
    gateway.clock.now_s += IDLE_S * 1.1
    gateway.claims.look()
    assert other.claims.find(GROUP) == other.address


DEFECTS = [defect for defect in read_defects("gateway_groups").values() if defect.shows["file"] == "test_group_claims"]


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_a_defect_is_noticed(defect: Defect, request: pytest.FixtureRequest) -> None:
    """The test that it names fails with it."""
    assert_noticed(defect, globals()[defect.shows["noticed_by"]], request)
