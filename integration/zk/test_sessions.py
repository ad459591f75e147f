"""Session events and the session lease on a real ZooKeeper."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from zk.client import connect
from zk.errors import NotConnected, ZkUnavailable
from zk.nodes import Nodes
from zk.sessions import SessionEvents, SessionLease, lease_clock
from zk.testing import expire_session

if TYPE_CHECKING:
    from collections.abc import Callable

    from zk.client import ZkClient
    from zk.local import LocalZooKeeper

    Eventually = Callable[..., None]


def lease_of(client: ZkClient, clock: Callable[[], float] = lease_clock) -> SessionLease:
    assert client.session_id is not None
    return SessionLease(client, client.session_id, clock)


def test_a_lease_counts_from_before_the_question(client: ZkClient) -> None:
    """It holds for less than the session timeout from then, and not before the first answer."""
    now = [100.0]
    lease = lease_of(client, lambda: now[0])
    assert not lease.held
    lease.renew()
    assert lease.remaining_s == pytest.approx(2.0)
    now[0] = 101.999
    assert lease.held
    now[0] = 102.0
    assert not lease.held
    lease.renew()
    assert lease.held
    lease.end()
    lease.renew()
    assert not lease.held
    assert lease.renew_interval_s < 2 / 2


def test_a_lease_does_not_pass_to_the_next_session(client: ZkClient) -> None:
    """An answer in another session says nothing about the one before."""
    lease = lease_of(client)
    events = SessionEvents(client)
    expire_session(client)
    while events.session_id in (None, lease.session_id):
        assert events.wait(20)
    with pytest.raises(NotConnected):
        lease.renew()
    assert not lease.held
    second = lease_of(client)
    second.renew()
    assert second.held


def test_a_lease_runs_out_while_zookeeper_does_not_answer(
    own_zookeeper: LocalZooKeeper, eventually: Eventually
) -> None:
    """And comes back in the same session if that lived."""
    with connect(own_zookeeper.connect_string, 2000) as client:
        lease = lease_of(client)
        lease.renew()
        own_zookeeper.pause()
        try:
            with pytest.raises(ZkUnavailable):
                lease.renew()
            eventually(lambda: not lease.held)
        finally:
            own_zookeeper.resume()
        eventually(lambda: client.session_id is not None)
        if client.session_id == lease.session_id:
            lease.renew()
            assert lease.held


def test_a_session_survives_a_restart_of_zookeeper(own_zookeeper: LocalZooKeeper) -> None:
    """Away for less than the session: the same session, its nodes, and no reason to register again."""
    with connect(own_zookeeper.connect_string, 30_000) as client:
        Nodes(client).create("/mine", b"", ephemeral=True)
        events, before = SessionEvents(client), client.session_id
        own_zookeeper.kill()
        while events.session_id is not None:
            assert events.wait(30)
        own_zookeeper.start()
        while events.session_id is None:
            assert events.wait(30)
        assert client.session_id == before
        node = Nodes(client).get("/mine")
        assert node is not None
        assert node.owner == before


def test_closed_events_wake_who_waits_and_listen_no_more(client: ZkClient) -> None:
    """So that a loop can end."""
    events = SessionEvents(client)
    assert events.wait(0) is False
    events.close()
    assert events.wait(10) is True
    expire_session(client)
    assert events.wait(0) is False
