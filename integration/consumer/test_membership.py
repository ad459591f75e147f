"""Members join, leave, die, sleep and lose their sessions; every message is handed out, by one member at a time."""

from __future__ import annotations

import os
import signal
import threading
from typing import TYPE_CHECKING

import pytest

from integration.consumer.reading import (
    MemberProcess,
    Reader,
    check_order,
    check_turns,
    everything,
    of_partition,
    produce,
    repeats,
)
from kafka2011.consumer import membership
from kafka2011.errors import KafkaError
from kafka2011.message.compression import Codec
from tests.support.sessions import expire_session
from tests.support.waiting import eventually
from zk.consumers import ConsumerRegistry
from zk.errors import NodeHeld

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka2011.consumer.connector import ConsumerConnector
    from kafka2011.local_cluster import LocalCluster

    NewCluster = Callable[..., LocalCluster]
    OpenMember = Callable[..., ConsumerConnector]
    OpenMemberProcess = Callable[..., MemberProcess]


def read(member: ConsumerConnector, topic: str, pause_s: float = 0.0, *, hold_at: int = 0) -> Reader:
    [stream] = member.create_message_streams({topic: 1})[topic]
    return Reader(stream, pause_s, hold_at=hold_at)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.SNAPPY])
def test_members_join_and_leave_in_order(
    shared_cluster: LocalCluster, topic: str, open_member: OpenMember, codec: Codec
) -> None:
    """Every message exactly once, in order, also when whole compressed sets have to be finished first."""
    broker = shared_cluster.brokers[0]
    produce(broker, topic, range(500), codec=codec)
    first = open_member(shared_cluster, topic)
    a = read(first, topic, 0.002)  # for several seconds: the second must find some left
    eventually(lambda: len(a.receipts) > 100)
    second = open_member(shared_cluster, topic)
    b = read(second, topic, 0.001)
    eventually(lambda: len(b.receipts) > 100)
    assert len(first.owned_partitions()) == len(second.owned_partitions()) == 2
    produce(broker, topic, range(500, 600), codec=codec)
    first.shutdown()
    a.join()
    assert len(a.receipts) < 2000
    eventually(lambda: set(a.payloads) | set(b.payloads) == everything(range(600)))
    assert repeats(a.receipts, b.receipts) == []
    check_order(a.receipts, b.receipts)
    assert all(turns in ([0], [1], [0, 1]) for turns in check_turns(a.receipts, b.receipts).values())
    assert first.counts()["unfinished_releases"] == second.counts()["unfinished_releases"] == 0


def test_watches_of_both_registries_bring_about_every_rebalance(
    new_cluster: NewCluster, topic: str, open_member: OpenMember, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Members and brokers come and go, and whoever is there divides what is there, though no timer ever runs out."""
    monkeypatch.setattr(membership, "AUDIT_INTERVAL_S", threading.TIMEOUT_MAX)
    # Nor does a try that found a partition still owned come again by itself, nor a session end while all is busy.
    settings = {"rebalance.backoff.ms": 3_600_000, "zk.sessiontimeout.ms": 20_000}
    cluster = new_cluster(1)
    produce(cluster.brokers[0], topic, range(1))
    first = open_member(cluster, topic, settings)
    first.create_message_streams({topic: 1})
    eventually(lambda: len(first.owned_partitions()) == 4)
    second = open_member(cluster, topic, settings)
    second.create_message_streams({topic: 1})
    eventually(lambda: len(first.owned_partitions()) == len(second.owned_partitions()) == 2)
    first.shutdown()
    eventually(lambda: len(second.owned_partitions()) == 4)
    other_broker = cluster.add_broker()
    produce(other_broker, topic, range(1))
    eventually(lambda: len(second.owned_partitions()) == 8)
    other_broker.stop()
    eventually(lambda: len(second.owned_partitions()) == 4)


def test_a_member_is_killed(
    shared_cluster: LocalCluster, topic: str, open_member: OpenMember, open_member_process: OpenMemberProcess
) -> None:
    """When its session ends the other takes over from its last commit; only what came after that comes again."""
    produce(shared_cluster.brokers[0], topic, range(500))
    killed = open_member_process(shared_cluster, topic, pause_ms=1)
    member = open_member(shared_cluster, topic)
    survivor = read(member, topic, 0.001)
    eventually(lambda: len(killed.receipts) > 300)
    eventually(lambda: len(member.owned_partitions()) == 2)
    killed.kill()
    eventually(lambda: len(member.owned_partitions()) == 4)
    eventually(lambda: set(survivor.payloads) | {r.payload for r in killed.receipts} == everything(range(500)))
    check_order(killed.receipts, survivor.receipts)
    check_turns(killed.receipts, survivor.receipts)
    assert set(repeats(survivor.receipts)) == set()
    # Auto-commit runs every 200 ms, so what the killed one read in its last seconds is all that can come again.
    assert len(repeats(killed.receipts, survivor.receipts)) < len(killed.receipts)


def test_a_session_expires(shared_cluster: LocalCluster, topic: str, open_member: OpenMember) -> None:
    """The member registers again and goes on; at most the message in hand comes again if nobody else took over."""
    broker = shared_cluster.brokers[0]
    produce(broker, topic, range(100))
    member = open_member(shared_cluster, topic)
    reader = read(member, topic, 0.002)
    eventually(lambda: len(reader.receipts) > 50)
    expire_session(member._client)
    eventually(lambda: member.counts().get("sessions_lost") == 1)
    produce(broker, topic, range(100, 150))
    eventually(lambda: set(reader.payloads) == everything(range(150)))
    assert len(repeats(reader.receipts)) <= 1
    check_order(reader.receipts)
    assert len(member.owned_partitions()) == 4


def test_a_member_that_was_stopped_neither_delivers_nor_commits_what_it_lost(
    shared_cluster: LocalCluster, topic: str, open_member: OpenMember, open_member_process: OpenMemberProcess
) -> None:
    """Stopped past its session and woken, it finds everything decoded and queued, and hands out none of it."""
    partition = (0, 0)
    produce(shared_cluster.brokers[0], topic, range(20_000), partitions=[0], set_size=500)
    # Of the two, the first by name has the first partitions.
    sleeper = open_member_process(shared_cluster, topic, {"consumerid": "a"}, pause_ms=1)
    eventually(lambda: len(sleeper.receipts) > 100)
    member = open_member(shared_cluster, topic, {"consumerid": "b"})
    reader = read(member, topic, 0.001)
    sleeper.pause()
    before = sleeper.receipts
    eventually(lambda: len(reader.receipts) > 500)
    sleeper.resume()
    eventually(lambda: len(sleeper.receipts) > len(before) + 100)
    turns = check_turns(sleeper.receipts, reader.receipts)
    assert turns[partition] == [0, 1, 0]
    theirs = of_partition(reader.receipts, partition)
    again = [r for r in of_partition(sleeper.receipts, partition) if r.stamp_s > theirs[0].stamp_s]
    # It goes on exactly where the other ended: no commit of what it had consumed before it was stopped moved that.
    assert int(again[0].payload[2:]) == int(theirs[-1].payload[2:]) + 1
    check_order(sleeper.receipts, reader.receipts)
    assert repeats(reader.receipts) == []


def test_a_slow_application_gets_no_more_than_it_may(
    shared_cluster: LocalCluster, topic: str, open_member: OpenMember
) -> None:
    """A release waits for it up to rebalance.backoff.ms; then its message comes again elsewhere, which is counted."""
    produce(shared_cluster.brokers[0], topic, range(20), partitions=[0])
    slow = open_member(shared_cluster, topic, {"consumerid": "b", "rebalance.backoff.ms": 300})
    a = read(slow, topic, hold_at=1)
    eventually(lambda: len(a.receipts) == 1)
    other = open_member(shared_cluster, topic, {"consumerid": "a"})
    b = read(other, topic)
    eventually(lambda: set(b.payloads) == everything(range(20), [0]))
    assert slow.counts()["unfinished_releases"] == 1
    a.gate.set()
    slow.shutdown()
    a.join()
    assert repeats(a.receipts, b.receipts) == a.payloads == ["0:0"]
    assert "dropped_commits" not in other.counts()


def test_a_silent_application_leaves_its_partitions_to_others_until_it_comes_back(
    shared_cluster: LocalCluster, topic: str, open_member: OpenMember, caplog: pytest.LogCaptureFixture
) -> None:
    """What it had consumed is committed, and what it has in hand comes again. Who waits for messages is not silent."""
    broker = shared_cluster.brokers[0]
    settings = {"max.poll.interval.ms": 500, "rebalance.backoff.ms": 300, "autocommit.interval.ms": 3_600_000}
    produce(broker, topic, range(20))
    silent = open_member(shared_cluster, topic, {"consumerid": "a", **settings})
    a = read(silent, topic, hold_at=31)
    eventually(lambda: silent.counts()["silent_applications"] == 1)
    in_hand = a.payloads[-1]
    other = open_member(shared_cluster, topic, {"consumerid": "b", **settings})
    b = read(other, topic)
    eventually(lambda: set(a.payloads) | set(b.payloads) == everything(range(20)))
    eventually(lambda: (len(silent.owned_partitions()), len(other.owned_partitions())) == (0, 4))
    assert f"g-{topic}_a: the application has not come back to g-{topic}_a-0 for 500 ms" in caplog.text
    a.gate.set()
    eventually(lambda: len(silent.owned_partitions()) == len(other.owned_partitions()) == 2)
    produce(broker, topic, range(20, 30))
    eventually(lambda: set(a.payloads) | set(b.payloads) == everything(range(30)))
    assert repeats(a.receipts, b.receipts) == [in_hand]
    check_order(a.receipts, b.receipts)
    assert silent.counts()["unfinished_releases"] == 1
    assert silent.counts()["silent_applications"] == 1
    assert other.counts().get("silent_applications", 0) == 0


def test_a_silent_application_stays_out_in_a_new_session(
    shared_cluster: LocalCluster, topic: str, open_member: OpenMember
) -> None:
    """Its member does not register for partitions that nobody would read; afterwards it goes on where it was."""
    produce(shared_cluster.brokers[0], topic, range(20), partitions=[0])
    member = open_member(shared_cluster, topic, {"max.poll.interval.ms": 300, "rebalance.backoff.ms": 300})
    reader = read(member, topic, hold_at=6)
    eventually(lambda: member.counts()["silent_applications"] == 1 and not member.owned_partitions())
    tries = member.counts()["tries"]
    expire_session(member._client)
    eventually(lambda: member.counts().get("sessions_lost") == 1 and member.counts()["tries"] > tries)
    registry = ConsumerRegistry(member._client, member._client.session_id or 0)
    assert registry.members(f"g-{topic}") == []
    reader.gate.set()
    eventually(lambda: set(reader.payloads) == everything(range(20), [0]))
    assert registry.members(f"g-{topic}") == [member.consumer_id]
    assert len(repeats(reader.receipts)) <= 1


def test_a_name_that_is_taken_is_waited_for_and_then_refused(
    shared_cluster: LocalCluster, topic: str, open_member: OpenMember, open_member_process: OpenMemberProcess
) -> None:
    """A member restarted at once meets its own old node; one that is alive keeps its name."""
    settings = {"consumerid": "me"}
    killed = open_member_process(shared_cluster, topic, settings)
    produce(shared_cluster.brokers[0], topic, range(1))
    eventually(lambda: len(killed.receipts) == 4)
    killed.kill()
    again = open_member(shared_cluster, topic, settings)
    again.create_message_streams({topic: 1})
    with pytest.raises(NodeHeld, match=r"g-.*_me"):
        open_member(shared_cluster, topic, settings).create_message_streams({topic: 1})
    with pytest.raises(KafkaError, match="already"):
        again.create_message_streams({topic: 1})


def test_a_forked_child_leaves_the_member_to_its_parent(
    shared_cluster: LocalCluster, topic: str, open_member: OpenMember
) -> None:
    """All that the child asks of it is refused, its shutdown does nothing, and the parent reads on."""
    broker = shared_cluster.brokers[0]
    produce(broker, topic, range(20))
    member = open_member(shared_cluster, topic)
    [stream] = member.create_message_streams({topic: 1})[topic]
    messages = iter(stream)
    assert next(messages).topic == topic
    owned = member.owned_partitions()
    assert repr(member) == f"<ConsumerConnector {member.consumer_id}, owns {len(owned)} partitions>"
    child = os.fork()
    if child == 0:
        signal.alarm(60)  # it would wait for ever
        refused = 0
        for use in (
            lambda: next(messages),
            member.commit_offsets,
            lambda: member.rewind(topic, 0, 0, offset=0),
            lambda: member.create_message_streams({topic: 1}),
        ):
            try:
                use()
            except KafkaError:
                refused += 1
        member.shutdown()
        os._exit(refused if not member.owned_partitions() and "parent" in repr(member) else 99)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 4
    for _ in range(19):
        next(messages)
    member.commit_offsets()
    assert member.owned_partitions() == owned
    member.shutdown()
    assert repr(member) == f"<ConsumerConnector {member.consumer_id}, shut down>"
