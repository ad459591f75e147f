"""Which gateway serves a broker, and when a claim counts no more."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import gevent
import gevent.event
import pytest
from kazoo import exceptions as kazoo_errors

from kafka2011.gateway.claims import Claims
from tests.planted.patches import Defect, read_defects
from tests.support.clocks import ManualClock
from tests.support.noticing import assert_noticed
from tests.support.zk_in_memory import ZkClientInMemory
from zk import paths
from zk.gateways import GatewayAddress, GatewayRegistry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DEADLINE_S = 20.0
SESSION_S = 0.06


def stand_in(thing: object) -> Any:
    return thing


class Gateway:
    """A gateway's claims on broker 0, in a session that a test ends by hand."""

    def __init__(self, node_id: int, other: Gateway | None = None) -> None:
        self.clock = ManualClock()
        self.client = stand_in(ZkClientInMemory())
        if other is not None:
            self.client.tree = other.client.tree
        self.client.clock = self.clock
        self.client.session_timeout_ms = SESSION_S * 1000
        self.begin_session(node_id + 1)
        registry = GatewayRegistry(self.client)
        registry.ensure_parents()
        self.catalogue = stand_in(SimpleNamespace(registry=registry, brokers={0: None}, claims={}))
        self.lost: list[int] = []
        self.address = GatewayAddress(node_id, "here", 9092 + node_id)
        self.claims = Claims(self.client, self.catalogue, self.address, self.lost.append, self.clock)

    @property
    def served(self) -> list[int]:
        return [broker_id for broker_id in range(3) if self.claims.holds(broker_id)]

    @property
    def holds(self) -> bool:
        return self.claims.holds(0)

    def begin_session(self, session_id: int) -> None:
        self.client.session_id = session_id
        self.client.connect_asked = session_id, self.clock.now_s


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    made = Gateway(0)
    yield made
    made.claims.stop()


def await_that(condition: Callable[[], bool]) -> None:
    with gevent.Timeout(DEADLINE_S, AssertionError("it did not happen in time")):
        while not condition():
            gevent.sleep(0.001)


def end_session(gateway: Gateway) -> None:
    """Remove what the session owned, as ZooKeeper does."""
    del gateway.client.tree[paths.gateway_claim(0)]


def fail_sync(call: str, _path: str) -> None:
    if call == "sync":
        raise kazoo_errors.ConnectionLoss


def test_one_gateway_serves_a_broker_and_another_one_takes_over(gateway: Gateway) -> None:
    other = Gateway(1, gateway)
    gateway.claims.start()
    other.claims.start()
    other.catalogue.claims = other.catalogue.registry.claims()
    assert (gateway.holds, other.holds) == (True, False)
    leader = gateway.claims.leader(0)
    assert leader is not None
    assert leader == other.claims.leader(0)
    assert leader.of_gateway == gateway.address

    gateway.claims.stop()
    await_that(lambda: other.holds)
    assert not gateway.holds
    other.claims.stop()


def test_gateways_divide_the_brokers(gateway: Gateway) -> None:
    """Each serves a run of them; one that joins gets its share from the other, and one that goes leaves its own."""
    gateway.catalogue.brokers = dict.fromkeys(range(3))
    gateway.claims.start()
    assert gateway.served == [0, 1, 2]
    other = Gateway(1, gateway)
    other.catalogue.brokers = dict.fromkeys(range(3))
    other.claims.start()
    await_that(lambda: (gateway.served, other.served) == ([0, 1], [2]))
    assert gateway.lost == [2]
    gateway.claims.stop()
    await_that(lambda: other.served == [0, 1, 2])
    other.claims.stop()


def test_each_broker_has_a_node_id_at_each_gateway(gateway: Gateway) -> None:
    """Clients then open a connection for each. A broker that moves to another gateway does not keep its id."""
    other = Gateway(1, gateway)
    for each in (gateway, other):
        each.catalogue.brokers = dict.fromkeys(range(2))
        address = each.address
        assert each.catalogue.registry.node_id(address.host, address.port) == address.node_id
    gateway.claims.start()
    before = [gateway.claims.leader(broker_id) for broker_id in range(2)]
    gateway.claims.stop()
    other.claims.start()
    after = [other.claims.leader(broker_id) for broker_id in range(2)]
    other.claims.stop()
    ids = [each.node_id for each in (gateway.address, other.address, *before, *after) if each is not None]
    assert sorted(ids) == list(range(6))
    assert [each.of_gateway for each in (*before, *after) if each is not None] == [gateway.address] * 2 + [
        other.address
    ] * 2


def test_a_broker_that_is_away_stays_with_its_gateway(gateway: Gateway) -> None:
    """It comes back in a moment, and clients would have to look for it twice."""
    gateway.catalogue.brokers = dict.fromkeys(range(3))
    gateway.claims.start()
    del gateway.catalogue.brokers[1]
    looked = len(gateway.client.calls)
    await_that(lambda: len(gateway.client.calls) > looked + 4)
    assert gateway.served == [0, 1, 2]


def test_a_broker_that_is_away_moves_no_other_one(gateway: Gateway) -> None:
    """Clients of the others would have to look for another gateway, and again when it is back."""
    other = Gateway(1, gateway)
    for each in (gateway, other):
        each.catalogue.brokers = dict.fromkeys(range(2))
    gateway.claims.start()
    other.claims.start()
    await_that(lambda: (gateway.served, other.served) == ([0], [1]))
    for each in (gateway, other):
        each.catalogue.claims = each.catalogue.registry.claims()
        del each.catalogue.brokers[0]
    looked = len(gateway.client.calls), len(other.client.calls)
    await_that(lambda: len(gateway.client.calls) > looked[0] + 4 and len(other.client.calls) > looked[1] + 4)
    assert (gateway.served, other.served) == ([0], [1])
    other.claims.stop()


def test_a_claim_counts_only_as_long_as_its_session_certainly_lives(gateway: Gateway) -> None:
    """A gateway that was stopped for a while wakes up before it hears of anything."""
    gateway.claims.start()
    gateway.client.before = fail_sync
    gateway.clock.now_s += SESSION_S
    assert not gateway.holds
    gateway.client.before = lambda _call, _path: None

    def is_held_later() -> bool:
        gateway.clock.now_s += SESSION_S / 10
        return gateway.holds

    await_that(is_held_later)  # the session lives
    assert gateway.lost == []


def test_a_claim_counts_while_zookeeper_takes_long_for_what_else_is_asked(gateway: Gateway) -> None:
    """That happens while the members of many groups share their partitions out."""
    gateway.claims.start()
    answered = gevent.event.Event()
    calls = gateway.client.calls

    def answer_only_syncs(call: str, _path: str) -> None:
        if call != "sync":
            answered.wait()

    def is_answered(expected: int) -> bool:
        return len(calls) >= expected

    gateway.client.before = answer_only_syncs
    try:
        for _ in range(20):
            expected = len(calls) + 2
            gateway.clock.now_s += SESSION_S / 10
            await_that(partial(is_answered, expected))
            assert gateway.holds
    finally:
        answered.set()


def test_what_was_claimed_in_a_session_that_is_over_is_lost(gateway: Gateway) -> None:
    """It may be claimed again, once ZooKeeper has ended the old session."""
    gateway.claims.start()
    gateway.begin_session(7)
    await_that(lambda: gateway.lost == [0])
    assert not gateway.holds
    end_session(gateway)
    await_that(lambda: gateway.holds)


@pytest.mark.parametrize("call", ["create", "delete"])
def test_a_claim_goes_to_another_gateway_also_if_an_answer_of_zookeeper_was_lost(gateway: Gateway, call: str) -> None:
    """Clients would be sent to a gateway that serves nothing, for as long as its session lives."""
    path = paths.gateway_claim(0)
    other = Gateway(1, gateway)
    registry = other.catalogue.registry

    def lose_answer(called: str, at: str) -> None:
        if (called, at) == (call, path):
            other.client.before = lambda _call, _path: None
            if call == "create":
                registry.claim(0, other.address)  # it is done, and the share is the first gateway's by then
                gateway.claims.start()
            raise kazoo_errors.ConnectionLoss

    other.client.before = lose_answer
    other.claims.start()
    if call == "delete":
        assert other.holds
        gateway.claims.start()
    await_that(lambda: gateway.holds)
    assert not other.holds
    other.claims.stop()


def test_a_gateway_is_announced_in_each_session(gateway: Gateway) -> None:
    """Others divide the brokers among those that they know of."""
    path = paths.gateway_id(0)
    gateway.claims.start()
    assert path in gateway.client.tree
    failed: list[str] = []

    def fail_once(call: str, at: str) -> None:
        if (call, at) == ("create", path) and not failed:
            failed.append(at)
            raise kazoo_errors.ConnectionLoss

    gateway.client.before = fail_once
    del gateway.client.tree[path]
    gateway.begin_session(7)
    await_that(lambda: bool(failed) and path in gateway.client.tree)


def test_claims_are_looked_after_whatever_happens(gateway: Gateway) -> None:
    gateway.claims.start()
    gateway.catalogue.brokers = None
    looked = len(gateway.client.calls)
    await_that(lambda: len(gateway.client.calls) > looked + 1)
    gateway.catalogue.brokers = {0: None, 1: None}
    await_that(lambda: gateway.claims.holds(1))


DEFECTS = [defect for defect in read_defects("gateway_server").values() if defect.shows.get("file") == "test_claims"]


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_a_defect_is_noticed(defect: Defect, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test that it names fails with it."""
    monkeypatch.setitem(globals(), "DEADLINE_S", 0.7)
    assert_noticed(defect, globals()[defect.shows["noticed_by"]], request)
