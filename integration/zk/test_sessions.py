"""Session events and the session lease on a real ZooKeeper."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from integration.chaos.ensemble import Ensemble, Pace, names_of_links
from integration.chaos.links import Links, Mode
from tests.support.sessions import expire_session
from tests.support.waiting import eventually
from zk.clock import SYSTEM_CLOCK
from zk.cluster import TopicPartition
from zk.connecting import connect
from zk.errors import NodeHeld, NotConnected, ZkUnavailable
from zk.nodes import Nodes
from zk.offsets import OffsetRegistry
from zk.owners import OwnerRegistry
from zk.sessions import SessionEvents, SessionLease

if TYPE_CHECKING:
    from pathlib import Path

    from zk.client import ZkClient
    from zk.local_zookeeper import LocalZooKeeper

# Servers, so that a follower that was cut off serves on for as long as a session lives.
PATIENT = Pace(tick_ms=300, init_limit=100, sync_limit=30)


def lease_of(client: ZkClient) -> SessionLease:
    assert client.session_id is not None
    return SessionLease(client, client.session_id)


def is_held(lease: SessionLease) -> bool:
    return SYSTEM_CLOCK.monotonic_s() < lease.until_s


def test_a_lease_counts_from_the_connect(client: ZkClient) -> None:
    """It does not hold before the first answer, and not after its end."""
    lease = lease_of(client)
    assert lease.until_s == 0
    lease.renew()
    session_id, asked_s = client.connect_asked
    assert session_id == client.session_id
    assert lease.until_s == asked_s + 2.0
    lease.end()
    lease.renew()
    assert lease.until_s == 0


def test_a_lease_does_not_pass_to_the_next_session(client: ZkClient) -> None:
    """An answer in another session says nothing about the one before."""
    lease = lease_of(client)
    events = SessionEvents(client)
    expire_session(client)
    while events.session_id in (None, lease.session_id):
        assert events.wait(20)
    with pytest.raises(NotConnected):
        lease.renew()
    assert lease.until_s == 0
    second = lease_of(client)
    second.renew()
    assert is_held(second)


def test_a_lease_runs_out_while_zookeeper_does_not_answer(own_zookeeper: LocalZooKeeper) -> None:
    """And comes back in the same session if that lived."""
    with connect(own_zookeeper.connect_string, 2000) as client:
        lease = lease_of(client)
        lease.renew()
        own_zookeeper.pause()
        try:
            with pytest.raises(ZkUnavailable):
                lease.renew()
            eventually(lambda: not is_held(lease))
        finally:
            own_zookeeper.resume()
        eventually(lambda: client.session_id is not None)
        if client.session_id == lease.session_id:
            lease.renew()
            assert is_held(lease)


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


SLEEPER = """
import sys, threading
from zk.clock import SYSTEM_CLOCK
from zk import OffsetRegistry, OwnerRegistry, SessionLease, TopicPartition, VersionConflict, ZkUnavailable, connect

partition = TopicPartition("t", 0, 0)
client = connect(sys.argv[1], 2000, 20_000)
lease = SessionLease(client, client.session_id)
offsets, owners = OffsetRegistry(client, lease.session_id), OwnerRegistry(client, lease.session_id)

def renew():
    while not stopped.wait(lease.renew_interval_s):
        try:
            lease.renew()
        except ZkUnavailable:
            pass

lease.renew()
stopped = threading.Event()
threading.Thread(target=renew, daemon=True).start()
owners.claim("g", partition, "sleeper-0")
version = offsets.write("g", partition, 0)
print("owner", flush=True)
handed_out = 0
while SYSTEM_CLOCK.monotonic_s() < lease.until_s:
    handed_out += 1
    try:
        version = offsets.commit("g", partition, handed_out, version)
    except (VersionConflict, ZkUnavailable) as error:
        print(type(error).__name__, flush=True)
print("over", flush=True)
"""


def test_a_process_stopped_past_its_session_commits_no_more(zk_connect: str, client: ZkClient) -> None:
    """When it wakes, its lease is over, and what it was about to commit does not get past the new owner's write."""
    partition = TopicPartition("t", 0, 0)
    owners, offsets = OwnerRegistry(client), OffsetRegistry(client)
    command = [sys.executable, "-c", SLEEPER, zk_connect]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as sleeper:
        try:
            assert sleeper.stdout is not None
            assert sleeper.stdout.readline() == "owner\n"
            sleeper.send_signal(signal.SIGSTOP)
            await_claim(owners, partition, "taker-0")
            assert offsets.write("g", partition, 10**9) > 0
            sleeper.send_signal(signal.SIGCONT)
            said = sleeper.stdout.read().split()
        finally:
            sleeper.kill()
    assert said[-1] == "over"
    assert set(said) <= {"VersionConflict", "ConnectionLost", "NotConnected", "SessionExpired", "over"}
    committed = offsets.read("g", partition)
    assert committed is not None
    assert committed.offset == 10**9


def await_claim(owners: OwnerRegistry, partition: TopicPartition, stream_id: str) -> None:
    """Claim a partition as soon as the session of its owner has timed out."""
    deadline = time.monotonic() + 30
    while True:
        try:
            return owners.claim("g", partition, stream_id)
        except NodeHeld:
            assert time.monotonic() < deadline
            time.sleep(0.05)


@pytest.mark.slow
def test_a_lease_ends_before_the_leader_gives_the_session_up(tmp_path: Path) -> None:
    """The follower is cut off from the leader just after it has answered: the leader has not heard of that answer."""
    with Links() as links, Ensemble(tmp_path, links, PATIENT) as ensemble:
        leader = ensemble.leader()
        assert leader is not None
        follower = next(server for server in ensemble.servers.values() if server is not leader)
        link = links.every[names_of_links(follower.number, leader.number)[0]]
        with connect(follower.address, 5000) as member, connect(leader.address, 5000) as other:
            Nodes(member).create("/mine", b"", ephemeral=True)
            lease = lease_of(member)
            for _ in range(3):
                lease.renew()
                time.sleep(1.2)  # the longest before kazoo asks something by itself
            lease.renew()
            link.turn(Mode.FROZEN)
            assert is_held(lease)
            eventually(lambda: not Nodes(other).exists("/mine"))
            assert not is_held(lease)
