"""What an application does with a consumer: groups, filters, offsets of its own, rewinding, and ending."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from functools import partial
from typing import TYPE_CHECKING

import pytest

from integration.consumer.reading import PROGRAMS, Reader, everything, produce, repeats
from kafka2011 import ConsumerConnector
from kafka2011.consumer.simple_consumer import SimpleConsumer
from kafka2011.consumer.topic_filter import Blacklist, Whitelist
from kafka2011.errors import ConfigError, KafkaError
from kafka2011.message.compression import Codec
from kafka2011.wire.protocol import LATEST
from tests.support.waiting import eventually
from zk.brokers import BrokerRegistry
from zk.cluster import TopicPartition
from zk.consumers import ConsumerRegistry
from zk.offsets import OffsetRegistry
from zk.owners import OwnerRegistry

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka2011.consumer.stream import MessageStream
    from kafka2011.local_cluster import LocalCluster
    from zk.client import ZkClient

    OpenMember = Callable[..., ConsumerConnector]
    ZkOf = Callable[[LocalCluster], ZkClient]

ONCE = {"autocommit.enable": False}
BRIEF = {"consumer.timeout.ms": 300}


def committed(client: ZkClient, topic: str, group: str | None = None) -> int | None:
    found = OffsetRegistry(client).read(group or f"g-{topic}", TopicPartition(topic, 0, 0))
    return None if found is None else found.offset


def has_everything(readers: list[Reader]) -> bool:
    return {payload for reader in readers for payload in reader.payloads} == everything(range(50))


def more(stream: MessageStream, seen: list[bytes]) -> list[bytes]:
    """Read on until the timeout."""
    seen.extend(message.payload for message in stream)
    return seen


def test_as_it_stands_in_the_readme(shared_cluster: LocalCluster, topic: str) -> None:
    """The shortest program reads what there is, and its end leaves nothing behind but offsets."""
    produce(shared_cluster.brokers[0], topic, range(3), partitions=[0])
    seen = []
    with ConsumerConnector({"zk.connect": shared_cluster.zk_connect, "groupid": topic}) as consumer:
        [stream] = consumer.create_message_streams({topic: 1})[topic]
        for m in stream:
            seen.append((m.topic, m.broker_id, m.partition, m.offset, m.next_offset, m.payload))
            if len(seen) == 3:
                break
    assert seen == [(topic, 0, 0, 13 * n, 13 * (n + 1), b"0:%d" % n) for n in range(3)]


def test_two_groups_get_everything_each(shared_cluster: LocalCluster, topic: str, open_member: OpenMember) -> None:
    """Publish and subscribe; neither knows of the other."""
    produce(shared_cluster.brokers[0], topic, range(50))
    readers = []
    for group in ("one", "two"):
        member = open_member(shared_cluster, topic, {"groupid": f"{group}-{topic}"})
        readers += [Reader(stream) for stream in member.create_message_streams({topic: 2})[topic]]
    one, two = readers[:2], readers[2:]
    for streams in (one, two):
        eventually(partial(has_everything, streams))
        assert all(reader.payloads for reader in streams), "each stream has its share"
        assert repeats(*[reader.receipts for reader in streams]) == []


@pytest.mark.parametrize("kind", [Whitelist, Blacklist])
def test_a_filter_takes_a_topic_born_later(
    shared_cluster: LocalCluster, topic: str, open_member: OpenMember, kind: type[Whitelist | Blacklist]
) -> None:
    """And leaves alone those that it does not allow."""
    broker = shared_cluster.brokers[0]
    wanted, other = f"{topic}-wanted", f"{topic}-other"
    produce(broker, other, range(5))
    # A blacklist also allows the topics of other tests: it must exclude everything but ours.
    regex = f"{topic}-w.*, nothing" if kind is Whitelist else f"(?!{topic}-wanted).*"
    member = open_member(shared_cluster, topic)
    [stream] = member.create_message_streams_by_filter(kind(regex), 1)
    reader = Reader(stream)
    eventually(lambda: member.counts().get("tries", 0) > 0)
    produce(broker, wanted, range(20))
    eventually(lambda: set(reader.payloads) == everything(range(20)))
    assert {owned[0] for owned in member.owned_partitions()} == {wanted}


def test_offsets_are_committed_when_the_application_says_so(
    shared_cluster: LocalCluster, topic: str, open_member: OpenMember, zk_of: ZkOf
) -> None:
    """The message in hand counts as done for the thread that has it; what was merely fetched never counts."""
    produce(shared_cluster.brokers[0], topic, range(10), partitions=[0])
    client = zk_of(shared_cluster)
    member = open_member(shared_cluster, topic, ONCE)
    [stream] = member.create_message_streams({topic: 1})[topic]
    messages = [next(stream) for _ in range(3)]
    other = threading.Thread(target=member.commit_offsets)
    other.start()
    other.join()
    assert committed(client, topic) == messages[1].next_offset
    member.commit_offsets()
    assert committed(client, topic) == messages[2].next_offset
    next(stream)
    member.shutdown()
    assert committed(client, topic) == messages[2].next_offset, "nothing is committed without autocommit at the end"


def test_offsets_of_the_applications_own(
    shared_cluster: LocalCluster, topic: str, open_member: OpenMember, zk_of: ZkOf
) -> None:
    """From the first on, only such offsets move the group's: what was read since comes again after a restart."""
    produce(shared_cluster.brokers[0], topic, range(10), partitions=[0])
    client = zk_of(shared_cluster)
    member = open_member(shared_cluster, topic)
    [stream] = member.create_message_streams({topic: 1})[topic]
    messages = [next(stream) for _ in range(6)]
    member.commit_offsets({(topic, 0, 0): messages[2].next_offset})
    assert committed(client, topic) == messages[2].next_offset
    member.commit_offsets()
    member.shutdown()
    assert committed(client, topic) == messages[2].next_offset
    again = open_member(shared_cluster, topic)
    [stream] = again.create_message_streams({topic: 1})[topic]
    assert next(stream).payload == b"0:3"
    with pytest.raises(KafkaError, match="does not own partition other/7-0"):
        again.commit_offsets({("other", 7, 0): 0})
    with pytest.raises(KafkaError, match="-1 is not an offset"):
        again.commit_offsets({(topic, 0, 0): -1})


def test_rewinding(shared_cluster: LocalCluster, topic: str, open_member: OpenMember, zk_of: ZkOf) -> None:
    """By offset and by time; the group's offset follows, and what was fetched is dropped."""
    produce(shared_cluster.brokers[0], topic, range(10), partitions=[0])
    client = zk_of(shared_cluster)
    member = open_member(shared_cluster, topic, ONCE)
    [stream] = member.create_message_streams({topic: 1})[topic]
    first = [next(stream) for _ in range(5)]
    assert member.rewind(topic, 0, 0, offset=first[2].offset) == first[2].offset
    assert [next(stream).payload for _ in range(3)] == [b"0:2", b"0:3", b"0:4"]
    member.commit_offsets()
    assert committed(client, topic) == first[4].next_offset
    assert member.rewind(topic, 0, 0, time_ms=1) == 0
    member.commit_offsets()
    assert committed(client, topic) == 0
    assert next(stream).payload == b"0:0"
    end = member.rewind(topic, 0, 0, time_ms=int(time.time() * 1000) + 60_000)
    assert end == 10 * len(b"0:0") + 100
    produce(shared_cluster.brokers[0], topic, [77], partitions=[0])
    assert next(stream).payload == b"0:77"
    for wrong in ({}, {"offset": 1, "time_ms": 1}):
        with pytest.raises(ConfigError):
            member.rewind(topic, 0, 0, **wrong)
    with pytest.raises(KafkaError, match="does not own"):
        member.rewind(topic, 9, 0, offset=0)


def test_iteration_ends_after_the_timeout_and_goes_on(
    shared_cluster: LocalCluster, topic: str, open_member: OpenMember
) -> None:
    """consumer.timeout.ms ends the `for`, not the stream."""
    produce(shared_cluster.brokers[0], topic, range(5), partitions=[0])
    member = open_member(shared_cluster, topic, BRIEF)
    [stream] = member.create_message_streams({topic: 1})[topic]
    seen: list[bytes] = []
    eventually(lambda: len(more(stream, seen)) == 5)
    produce(shared_cluster.brokers[0], topic, range(5, 8), partitions=[0])
    eventually(lambda: len(more(stream, seen)) == 8)
    assert seen == [b"0:%d" % number for number in range(8)]


def test_shutdown_from_another_thread(
    shared_cluster: LocalCluster, topic: str, open_member: OpenMember, zk_of: ZkOf
) -> None:
    """It ends the iteration, gives everything back, and may be said twice."""
    produce(shared_cluster.brokers[0], topic, range(5))
    client = zk_of(shared_cluster)
    member = open_member(shared_cluster, topic)
    reader = Reader(member.create_message_streams({topic: 1})[topic][0])
    eventually(lambda: set(reader.payloads) == everything(range(5)))
    member.shutdown()
    member.shutdown()
    reader.join()
    assert committed(client, topic) == 5 * 13
    assert ConsumerRegistry(client).members(f"g-{topic}") == []
    assert OwnerRegistry(client).owners(f"g-{topic}", topic) == {}
    assert not [thread for thread in threading.enumerate() if member.consumer_id in thread.name]
    with pytest.raises(KafkaError, match="shut down"):
        member.create_message_streams({topic: 1})


def stumble(member: ConsumerConnector, topic: str, payload: bytes) -> None:
    with member:
        [stream] = member.create_message_streams({topic: 1})[topic]
        for message in stream:
            if message.payload == payload:
                raise ZeroDivisionError


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_an_exception_does_not_count_the_message_in_hand_as_done(
    shared_cluster: LocalCluster, topic: str, open_member: OpenMember, codec: Codec
) -> None:
    """It comes again, a compressed set whole; leaving the block in order counts it."""
    produce(shared_cluster.brokers[0], topic, range(10), partitions=[0], codec=codec, set_size=5)
    with pytest.raises(ZeroDivisionError):
        stumble(open_member(shared_cluster, topic), topic, b"0:7")
    with open_member(shared_cluster, topic) as member:
        [stream] = member.create_message_streams({topic: 1})[topic]
        again = next(stream)
        assert again.payload == (b"0:7" if codec is Codec.NONE else b"0:5")
        while again.payload != b"0:9":
            again = next(stream)
    with open_member(shared_cluster, topic, BRIEF) as member:
        [stream] = member.create_message_streams({topic: 1})[topic]
        produce(shared_cluster.brokers[0], topic, [10], partitions=[0])
        seen: list[bytes] = []
        eventually(lambda: more(stream, seen))
        assert seen == [b"0:10"]


@pytest.mark.parametrize(("reset", "first"), [("smallest", b"0:0"), ("largest", b"0:5")])
def test_a_new_group_starts_where_it_wants(
    shared_cluster: LocalCluster, topic: str, open_member: OpenMember, zk_of: ZkOf, reset: str, first: bytes
) -> None:
    """And its start is written at once, before anything is consumed."""
    produce(shared_cluster.brokers[0], topic, range(5), partitions=[0])
    client = zk_of(shared_cluster)
    member = open_member(shared_cluster, topic, {"autooffset.reset": reset})
    [stream] = member.create_message_streams({topic: 1})[topic]
    eventually(lambda: committed(client, topic) == (0 if reset == "smallest" else 65))
    produce(shared_cluster.brokers[0], topic, range(5, 8), partitions=[0])
    assert next(stream).payload == first


def test_a_partition_born_later_is_read_from_its_beginning_when_the_setting_says_so(
    shared_cluster: LocalCluster, topic: str, open_member: OpenMember, zk_of: ZkOf
) -> None:
    """What is written into it before the member finds it is not missed, though others are read from their end."""
    broker, later = shared_cluster.brokers[0], f"{topic}-later"
    produce(broker, topic, range(5), partitions=[0])
    registry = BrokerRegistry(zk_of(shared_cluster))
    eventually(lambda: registry.partitions_of(topic))
    with SimpleConsumer(broker.host, broker.port) as consumer:
        eventually(lambda: consumer.get_offsets_before(topic, 0, LATEST) == [65])
    settings = {"autooffset.reset": "largest", "autooffset.newpartitions": "smallest"}
    member = open_member(shared_cluster, topic, settings)
    [stream] = member.create_message_streams_by_filter(Whitelist(f"{topic}.*"))
    reader = Reader(stream)
    eventually(lambda: member.owned_partitions() and all(member_has_start(member)))
    produce(broker, later, range(5), partitions=[0])
    produce(broker, topic, range(5, 6), partitions=[0])
    eventually(lambda: len(reader.payloads) >= 6)
    assert sorted(reader.payloads) == [*(f"0:{number}" for number in range(5)), "0:5"]


def member_has_start(member: ConsumerConnector) -> list[bool]:
    """Say of each partition that it owns whether it knows where to begin."""
    return [owned.feed.fetch_offset is not None for owned in list(member._owned_now().values())]


def test_an_application_patched_by_gevent(shared_cluster: LocalCluster, topic: str) -> None:
    """Reads everything once, keeps its session although it never pauses, and ends in order."""
    produce(shared_cluster.brokers[0], topic, range(250), partitions=[0])
    program = [
        sys.executable,
        "-W",
        "error",
        str(PROGRAMS / "under_gevent.py"),
        shared_cluster.zk_connect,
        topic,
        "250",
    ]
    done = subprocess.run(program, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "250 250 0 True\n"
