"""Replicas of one broker id: real processes, a real ZooKeeper, and what clients see of it."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import signal
import struct
import threading
import zlib
from itertools import count
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import psutil
import pytest

from integration.scraping import metrics_of
from kafka2011.admin.replicas import describe_broker, elect
from kafka2011.admin.topic_changes import delete_topic
from kafka2011.admin.topic_growth import grow_topic
from kafka2011.admin.topics import create_topic
from kafka2011.consumer.simple_consumer import SimpleConsumer
from kafka2011.errors import BrokerConnectionError, KafkaError, OffsetOutOfRangeError, WrongPartitionError
from kafka2011.local_cluster import LocalCluster
from kafka2011.log.partition_counts import EXACT_FILE_NAME
from kafka2011.message.message_set import MessageSet
from kafka2011.producer.producer import Producer
from kafka2011.producer.sync_producer import SyncProducer
from kafka2011.replica.known_file import KnownFile
from kafka2011.replica.state import Replica, ReplicaState
from kafka2011.wire.protocol import LATEST
from tests.support.waiting import eventually
from zk.brokers import BrokerRegistry
from zk.connecting import connect
from zk.replicas import ReplicaRegistry
from zk.requests import RequestRegistry

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafka2011.local_cluster import LocalBroker
    from zk.client import ZkClient

    NewReplicas = Callable[..., "Replicas"]

ID = 3
TOPIC = "views"
TOPIC_DIRECTORY = f"{TOPIC}-0"
NAMES = "abc"
SEGMENT_BYTES = 200_000
SESSION_MS = 2000
PATIENCE_MS = 10_000
PARTITIONS = 3
LONG_AGO_S = 1_300_000_000


class Replicas:
    """Replicas a, b, ... of one broker id, of which `a` has begun; none is started yet."""

    def __init__(
        self,
        count: int,
        new_broker: Callable[..., LocalBroker],
        directory: Path,
        zk_connect: str,
        client: ZkClient,
        min_in_sync: int,
        lag_ms: int,
        session_ms: int,
        properties: Mapping[str, object],
    ) -> None:
        self.zk_connect = zk_connect
        self.registry = ReplicaRegistry(client, ID)
        self._brokers = BrokerRegistry(client)
        settings = {
            "replica.address.gap.ms": 100,
            "replica.lag.time.max.ms": lag_ms,
            "replica.max.bytes.per.second": 2_000_000,
            "log.file.size": SEGMENT_BYTES,
            "topic.partition.count.map": f"others:{PARTITIONS}",
            "min.insync.replicas": min_in_sync,
            "zk.sessiontimeout.ms": session_ms,
            **properties,
        }
        self.all = {
            name: new_broker(
                {**settings, "replica.name": name}, broker_id=ID, zk_connect=zk_connect, directory=directory / name
            )
            for name in NAMES[:count]
        }
        first = self.all["a"].log_dir
        first.mkdir(parents=True)
        self.registry.begin(ReplicaState.first(KnownFile(first).load_or_begin("a").replica).text)

    def __getitem__(self, name: str) -> LocalBroker:
        return self.all[name]

    def state(self) -> ReplicaState:
        found = self.registry.read().state
        assert found is not None
        return ReplicaState.of(found, "the test's")

    def leader(self) -> str | None:
        """Return who leads and is registered."""
        found = self._brokers.brokers().get(ID)
        return next((name for name, each in self.all.items() if found is not None and each.port == found.port), None)

    def await_in_sync(self, names: str) -> None:
        eventually(lambda: {each.name for each in self.state().in_sync} == set(names), what=f"{names} in sync")

    def await_leader(self, name: str) -> None:
        eventually(lambda: self.leader() == name, what=f"{name} registered")

    def start(self, names: str) -> None:
        for name in names:
            self[name].launch()
        for name in names:
            self[name].wait_ready()
        self.await_leader("a")
        self.await_in_sync(names)

    def logs(self, name: str) -> dict[str, bytes]:
        """Return the bytes of each segment."""
        return {
            str(path.relative_to(self[name].log_dir)): path.read_bytes()
            for path in sorted(self[name].log_dir.glob("*/*.kafka"))
        }

    def await_absence(self, topic: str, names: str) -> None:
        """Wait until none of them has a log of a topic."""

        def is_there() -> bool:
            return any(list(self[name].log_dir.glob(f"{topic}-*")) for name in names)

        eventually(lambda: not is_there(), what=f"the deletion of {topic} at {names}")

    def await_equal(self, names: str) -> None:
        def is_equal() -> bool:
            first, *others = (self.logs(name) for name in names)
            return bool(first) and all(each == first for each in others)

        eventually(is_equal, what=f"the same logs at {names}")


@pytest.fixture
def new_replicas(
    new_broker: Callable[..., LocalBroker], tmp_path: Path, zk_connect: str, zk_client: ZkClient
) -> NewReplicas:
    """Make replicas of broker 3."""
    return lambda count, min_in_sync=1, lag_ms=1000, session_ms=SESSION_MS, **properties: Replicas(
        count, new_broker, tmp_path, zk_connect, zk_client, min_in_sync, lag_ms, session_ms, properties
    )


class Sending:
    """A producer that sends confirmed messages, numbered, until it is stopped; `confirmed` are those that were."""

    def __init__(self, zk_connect: str, settings: Mapping[str, object] | None = None) -> None:
        self._settings = {"zk.connect": zk_connect, "confirm": "true", "confirm.timeout.ms": 60_000, **(settings or {})}
        self.confirmed: list[int] = []
        self.failed: list[BaseException] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Sending:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        with Producer(self._settings) as producer:
            number = 0
            while not self._stop.is_set():
                try:
                    producer.send(TOPIC, _payload(number)).result()
                except Exception as error:  # noqa: BLE001 - the test looks at it
                    self.failed.append(error)
                    return
                self.confirmed.append(number)
                number += 1

    def await_more(self, count: int = 50) -> None:
        """Wait until so many more were confirmed."""
        wanted = len(self.confirmed) + count
        eventually(lambda: self.failed or len(self.confirmed) >= wanted, what=f"{wanted} confirmed")
        assert not self.failed


def _payload(number: int) -> bytes:
    return b"%d " % number + b"x" * 300


def read(broker: LocalBroker, end: int | None = None) -> list[tuple[int, bytes]]:
    """Return the payloads that clients can read, each with the offset after it."""
    found: list[tuple[int, bytes]] = []
    offset = 0
    with SimpleConsumer(broker.host, broker.port) as consumer:
        while end is None or offset < end:
            fetched = list(consumer.fetch(TOPIC, 0, offset))
            if not fetched:
                break
            found += [(message.next_offset, message.payload) for message in fetched]
            offset = fetched[-1].next_offset
    return found


def numbers(messages: list[tuple[int, bytes]]) -> list[int]:
    return [int(payload.split()[0]) for _, payload in messages]


def test_a_follower_has_the_same_segments(new_replicas: NewReplicas) -> None:
    """Bytes and where segments begin, of what is sent before it starts and after; and when they were last written."""
    replicas = new_replicas(2)
    replicas["a"].start()
    replicas.await_leader("a")
    with Sending(replicas.zk_connect) as sending:
        sending.await_more(1500)
        first = Path(f"{TOPIC}-0/{0:020}.kafka")
        os.utime(replicas["a"].log_dir / first, (LONG_AGO_S, LONG_AGO_S))
        replicas["b"].start()
        replicas.await_in_sync("ab")
        sending.await_more(300)
    replicas.await_equal("ab")
    assert len(replicas.logs("b")) > 2
    assert (replicas["b"].log_dir / first).stat().st_mtime == LONG_AGO_S
    assert numbers(read(replicas["a"])) == sending.confirmed


def test_nothing_confirmed_is_lost_with_the_leader(new_replicas: NewReplicas) -> None:
    """It is killed while a producer sends; what could be read before can be read at the same offsets."""
    replicas = new_replicas(2)
    replicas.start("ab")
    with Sending(replicas.zk_connect) as sending:
        sending.await_more(200)
        before = read(replicas["a"])
        replicas["a"].kill()
        replicas.await_leader("b")
        sending.await_more(200)
        replicas["a"].start()
        replicas.await_in_sync("ab")
        sending.await_more(50)
    after = read(replicas["b"])
    assert after[: len(before)] == before
    assert set(sending.confirmed) <= set(numbers(after))
    replicas.await_equal("ab")


def test_a_process_that_dies_takes_its_session_along(new_replicas: NewReplicas) -> None:
    """Another replica leads long before the session has timed out."""
    replicas = new_replicas(2, session_ms=4 * PATIENCE_MS)
    replicas.start("ab")
    replicas["a"].kill()
    eventually(lambda: replicas.leader() == "b", timeout_s=PATIENCE_MS / 1000, what="b registered")


def test_what_is_confirmed_can_be_read(new_replicas: NewReplicas) -> None:
    """At once, whatever sets are like: one or many, small ones that come together or large ones, to any partition."""
    replicas = new_replicas(2)
    replicas.start("ab")
    chance = Random(2011)
    ends = dict.fromkeys(range(PARTITIONS), 0)
    found: set[int] = set()
    count = 0
    settings = {"zk.connect": replicas.zk_connect, "confirm": "true", "producer.type": "async"}
    with Producer(settings) as producer, SimpleConsumer(replicas["a"].host, replicas["a"].port) as consumer:
        for _ in range(40):
            sent = range(count, count + chance.randrange(1, 300))
            count = sent.stop
            futures = [producer.send("others", b"%d " % each + bytes(chance.randrange(2000))) for each in sent]
            producer.flush()
            assert all(future.result() for future in futures)
            for partition in ends:
                while fetched := list(consumer.fetch("others", partition, ends[partition])):
                    found.update(int(message.payload.split()[0]) for message in fetched)
                    ends[partition] = fetched[-1].next_offset
            assert found >= set(sent)


def test_a_wiped_replica_comes_back(new_replicas: NewReplicas) -> None:
    """As a follower, although it has led: its disk is another one. Then it may lead again."""
    replicas = new_replicas(2)
    replicas.start("ab")
    with Sending(replicas.zk_connect) as sending:
        sending.await_more(100)
        replicas["a"].kill()
        shutil.rmtree(replicas["a"].log_dir)
        replicas.await_leader("b")
        sending.await_more(100)
        old = {each.disk for each in replicas.state().in_sync if each.name == "a"}
        replicas["a"].start()
        replicas.await_in_sync("ab")
        assert {each.disk for each in replicas.state().in_sync if each.name == "a"} != old
        replicas["b"].kill()
        replicas.await_leader("a")
        sending.await_more(100)
    assert set(sending.confirmed) <= set(numbers(read(replicas["a"])))


def _copy_of_disk(replicas: Replicas, name: str) -> Path:
    """Stop one of two replicas, copy its disk, and start it again."""
    copy = replicas[name].log_dir.with_name("earlier")
    replicas[name].stop()
    shutil.copytree(replicas[name].log_dir, copy)
    replicas[name].start()
    replicas.await_in_sync("ab")
    return copy


def _put_back(broker: LocalBroker, copy: Path) -> None:
    """Give a broker that is down an earlier copy of its disk."""
    shutil.rmtree(broker.log_dir)
    shutil.copytree(copy, broker.log_dir)


def test_a_follower_whose_disk_went_back_leads_nobody_before_it_has_caught_up(new_replicas: NewReplicas) -> None:
    """It came back behind the same leader; then the leader's disk is lost, as soon as both are in sync."""
    replicas = new_replicas(2, **{"replica.max.bytes.per.second": 0})
    replicas.start("ab")
    with Sending(replicas.zk_connect) as sending:
        sending.await_more(50)
        earlier = _copy_of_disk(replicas, "b")
        sending.await_more(300)
        replicas["b"].stop()
        replicas.await_in_sync("a")
        _put_back(replicas["b"], earlier)
        replicas["b"].start()
        replicas.await_in_sync("ab")
        replicas["a"].kill()
        shutil.rmtree(replicas["a"].log_dir)
        replicas.await_leader("b")
        sending.await_more(20)
    assert set(sending.confirmed) <= set(numbers(read(replicas["b"])))


def test_a_disk_that_went_back_gives_way(new_replicas: NewReplicas, zk_client: ZkClient) -> None:
    """It starts alone, says why it does not lead, and catches up when another one leads. Or an operator elects it."""
    replicas = new_replicas(2)
    replicas.start("ab")
    with Sending(replicas.zk_connect) as sending:
        sending.await_more(50)
        earlier = _copy_of_disk(replicas, "a")
        replicas.await_leader("b")
        sending.await_more(100)
    for name in "ba":  # the leader first, or else it puts the other one out of sync
        replicas[name].kill()
    _put_back(replicas["a"], earlier)

    def trouble() -> str:
        member = replicas.registry.read().members.get("a")
        return "" if member is None else member.trouble

    replicas["a"].launch()
    eventually(trouble, what="a to say that its disk has gone back")
    assert "older state" in trouble()
    assert replicas.registry.read().leader is None
    assert "a" in {standing.name for standing in describe_broker(zk_client, ID).alive if standing.trouble}
    replicas["b"].start()
    replicas.await_leader("b")
    replicas.await_in_sync("ab")
    replicas.await_equal("ab")
    eventually(lambda: not trouble(), what="a to be well")
    replicas.await_in_sync("ab")  # again: it may have been put out once more because of what it had said
    eventually(lambda: replicas.state().settled == replicas.state().epoch, what="an epoch that both have on disk")
    assert set(sending.confirmed) <= set(numbers(read(replicas["b"])))
    for name in "ba":  # the leader first, or else it puts the other one out of sync
        replicas[name].kill()
    _put_back(replicas["a"], earlier)
    replicas["a"].launch()
    eventually(trouble, what="a to say it again")
    elect(zk_client, ID, "a")
    replicas.await_leader("a")


def _change_last(broker: LocalBroker, payload: bytes, *, is_good: bool) -> bytes:
    """Change the last message of a log, which has this payload, with its checksum or without; return the segment."""
    path = sorted((broker.log_dir / f"{TOPIC}-0").glob("*.kafka"))[-1]
    data = bytearray(path.read_bytes())
    begin = len(data) - len(payload)
    assert data[begin:] == payload
    data[-1:] = b"y" if data[-1:] == b"x" else b"z"
    if is_good:
        data[begin - 4 : begin] = struct.pack(">I", zlib.crc32(data[begin:]))
    path.write_bytes(data)
    return bytes(data)


def test_a_replica_that_differs_stays_out_and_one_that_is_damaged_is_mended(new_replicas: NewReplicas) -> None:
    """What clients may have read is cut on nobody's word, unless its checksum says that it has rotted."""
    replicas = new_replicas(2)
    replicas.start("ab")
    with Sending(replicas.zk_connect) as sending:
        sending.await_more(50)
    replicas.await_equal("ab")
    last = _payload(sending.confirmed[-1])

    def knows_all() -> bool:
        known = KnownFile(replicas["b"].log_dir).load()
        end = sum(map(len, replicas.logs("b").values()))
        return known is not None and list(known.readable.values()) == [end]

    eventually(knows_all, what="b to note what can be read")
    replicas["b"].stop()
    _change_last(replicas["b"], last, is_good=False)
    replicas["b"].start()
    replicas.await_in_sync("ab")
    replicas.await_equal("ab")
    eventually(knows_all, what="b to note it again")
    replicas["b"].stop()
    changed = _change_last(replicas["b"], last, is_good=True)
    replicas["b"].launch()

    def trouble() -> str:
        member = replicas.registry.read().members.get("b")
        return "" if member is None else member.trouble

    eventually(trouble, what="b to say that it differs")
    assert f"{TOPIC}/{ID}-0 has another message here than at the leader at offset" in trouble()
    replicas.await_in_sync("a")
    assert sorted((replicas["b"].log_dir / f"{TOPIC}-0").glob("*.kafka"))[-1].read_bytes() == changed


def _flip(broker: LocalBroker) -> bytes:
    """Flip a bit in a payload of the first segment of a log; return the segment as it was."""
    path = broker.log_dir / TOPIC_DIRECTORY / f"{0:020}.kafka"
    good = path.read_bytes()
    path.write_bytes(good[:5000] + bytes([good[5000] ^ 4]) + good[5001:])
    return good


def test_damage_is_repaired_by_another_replica_and_copied_where_nobody_has_better(new_replicas: NewReplicas) -> None:
    """A flipped bit keeps no replica out of sync. All of them have the same bytes then, and each names the damage."""
    replicas = new_replicas(3, **{"replica.max.bytes.per.second": 0})
    replicas.start("abc")
    with Producer({"zk.connect": replicas.zk_connect, "confirm": "true", "producer.type": "async"}) as producer:
        futures = [producer.send(TOPIC, _payload(number)) for number in range(1500)]
        producer.flush()
        assert all(future.result() for future in futures)
    replicas.await_equal("abc")

    def wipe(names: str) -> None:
        for name in names:
            replicas[name].kill()
            shutil.rmtree(replicas[name].log_dir)
        replicas.await_in_sync("".join(sorted(set("abc") - set(names))))

    wipe("c")
    good = _flip(replicas["a"])
    replicas["c"].start()
    replicas.await_in_sync("abc")
    replicas.await_equal("abc")
    assert replicas.logs("a")[f"{TOPIC_DIRECTORY}/{0:020}.kafka"] == good
    wipe("bc")
    _flip(replicas["a"])
    replicas["b"].start()
    replicas.await_in_sync("ab")
    replicas.await_equal("ab")
    assert replicas.logs("b")[f"{TOPIC_DIRECTORY}/{0:020}.kafka"] != good

    def damage() -> list[str]:
        return [member.damage for member in replicas.registry.read().members.values()]

    eventually(lambda: len(damage()) == 2 and all(damage()), what="both to name the damage")
    assert all(said.startswith(f"damaged: {TOPIC_DIRECTORY} at offset ") for said in damage())


def test_a_leader_that_was_suspended_past_its_session_follows(new_replicas: NewReplicas) -> None:
    """What it took after the other had taken over is cut off, and was never confirmed."""
    replicas = new_replicas(2)
    replicas.start("ab")
    with Sending(replicas.zk_connect) as sending:
        sending.await_more(100)
        replicas["a"].pause()
        replicas.await_leader("b")
        sending.await_more(100)
        replicas["a"].resume()
        replicas.await_in_sync("ab")
        sending.await_more(100)
        assert replicas.leader() == "b"
    after = read(replicas["b"])
    assert set(sending.confirmed) <= set(numbers(after))
    replicas.await_equal("ab")


def test_a_leader_that_hangs_is_killed_where_that_is_wanted(new_replicas: NewReplicas) -> None:
    """Its session would last longer than this test."""
    replicas = new_replicas(2, session_ms=60_000, **{"replica.hang.timeout.ms": 1000})
    replicas.start("ab")
    with Sending(replicas.zk_connect) as sending:
        sending.await_more(20)
        eventually(lambda: b"kills this process when it hangs for 1 s" in replicas["a"].output(), what="the watchdog")
        replicas["a"].pause()
        replicas.await_leader("b")
        sending.await_more(20)
    assert replicas["a"].process.wait(PATIENCE_MS / 1000) == -signal.SIGKILL
    assert b"was killed by its watchdog: it has hung for 1 s" in replicas["a"].output()
    assert set(sending.confirmed) <= set(numbers(read(replicas["b"])))


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_producer_turns_to_the_new_leader_while_the_old_one_hangs(new_replicas: NewReplicas, kind: str) -> None:
    """As soon as that one is registered: it waits for no answer from where the broker was."""
    replicas = new_replicas(2)
    replicas.start("ab")
    longest = {"confirm.timeout.ms": 3_600_000, "socket.timeout.ms": 600_000, "queue.time": 1, "producer.type": kind}
    with Sending(replicas.zk_connect, longest) as sending:
        sending.await_more(20)
        replicas["a"].pause()
        replicas.await_leader("b")
        sending.await_more(20)
        replicas["a"].resume()
        replicas.await_in_sync("ab")
    assert set(sending.confirmed) <= set(numbers(read(replicas["b"])))


def test_a_follower_that_hangs_makes_nobody_send_twice(new_replicas: NewReplicas) -> None:
    """Sends wait until it is out of the in-sync set; when it goes on it comes back."""
    replicas = new_replicas(3)
    replicas.start("abc")
    with Sending(replicas.zk_connect) as sending:
        sending.await_more(100)
        replicas["c"].pause()
        sending.await_more(100)
        replicas.await_in_sync("ab")
        replicas["c"].resume()
        replicas.await_in_sync("abc")
        sending.await_more(100)
    assert numbers(read(replicas["a"])) == sending.confirmed
    replicas.await_equal("abc")


def test_too_few_in_sync_take_nothing(new_replicas: NewReplicas) -> None:
    """And what had been confirmed stays; sends go on when there are enough again."""
    replicas = new_replicas(2, min_in_sync=2)
    replicas.start("ab")
    with Sending(replicas.zk_connect) as sending:
        sending.await_more(50)
        replicas["b"].kill()
        replicas.await_in_sync("a")
        confirmed = len(sending.confirmed)
        assert numbers(read(replicas["a"]))[: confirmed - 1] == sending.confirmed[: confirmed - 1]
        replicas["b"].start()
        replicas.await_in_sync("ab")
        sending.await_more(50)
    assert set(sending.confirmed) <= set(numbers(read(replicas["a"])))


def test_without_a_state_a_replica_does_not_start(new_broker: Callable[..., LocalBroker], zk_connect: str) -> None:
    broker = new_broker({"replica.name": "a"}, broker_id=ID, zk_connect=zk_connect)
    broker.launch()
    eventually(lambda: not broker.running)
    assert b"kafka2011 replicas init 3" in broker.output()


def test_nobody_else_serves_under_an_id_that_has_replicas(
    new_replicas: NewReplicas, new_broker: Callable[..., LocalBroker], zk_connect: str
) -> None:
    """A broker whose replica.name was forgotten says so and ends, though none of the replicas is there."""
    replicas = new_replicas(2)
    broker = new_broker({}, broker_id=ID, zk_connect=zk_connect)
    broker.launch()
    eventually(lambda: not broker.running)
    assert b"broker 3 has replicas, so each of its processes needs a replica.name" in broker.output()
    assert replicas.leader() is None


def test_replicas_are_named(new_replicas: NewReplicas) -> None:
    """Each with its disk's id, and in sync under that."""
    replicas = new_replicas(2)
    replicas.start("ab")
    known = {KnownFile(each.log_dir).load_or_begin(name).replica for name, each in replicas.all.items()}
    assert replicas.state().in_sync == known
    assert replicas.state().leader == next(each for each in known if each.name == "a")
    assert isinstance(replicas.state().leader, Replica)


def test_what_was_sent_before_an_orderly_stop_is_there_after_it(new_replicas: NewReplicas) -> None:
    """Also what nobody waits to have confirmed, which a leader that dies may take with it."""
    replicas = new_replicas(2)
    replicas.start("ab")
    payloads = [_payload(number) for number in range(500)]
    with SyncProducer(replicas["a"].host, replicas["a"].port) as producer:
        for payload in payloads:
            producer.send(TOPIC, [payload])
    replicas["a"].stop()
    replicas.await_leader("b")
    assert [payload for _, payload in read(replicas["b"])] == payloads


def test_only_the_leader_serves_clients(new_replicas: NewReplicas) -> None:
    replicas = new_replicas(2)
    replicas.start("ab")
    with SimpleConsumer(replicas["a"].host, replicas["a"].port) as consumer:
        assert consumer.get_offsets_before(TOPIC, 0, LATEST) == [0]
    with SimpleConsumer(replicas["b"].host, replicas["b"].port) as consumer, pytest.raises(BrokerConnectionError):
        consumer.get_offsets_before(TOPIC, 0, LATEST)


def test_what_cannot_be_read_yet_is_not_out_of_range(new_replicas: NewReplicas) -> None:
    """Whoever had read up to there at another leader waits, and is not told to start over."""
    replicas = new_replicas(2, lag_ms=60_000, session_ms=30_000)
    replicas.start("ab")
    with Sending(replicas.zk_connect) as sending:
        sending.await_more(1)
    replicas["b"].pause()
    with SyncProducer(replicas["a"].host, replicas["a"].port) as producer:
        producer.send(TOPIC, [_payload(0)] * 3)
    with SimpleConsumer(replicas["a"].host, replicas["a"].port) as consumer:
        (end,) = consumer.get_offsets_before(TOPIC, 0, LATEST)
        message_bytes = len(bytes(MessageSet([_payload(0)])))
        eventually(lambda: len(replicas.logs("a").popitem()[1]) == end + 3 * message_bytes)
        for ahead in (0, message_bytes, 3 * message_bytes):
            assert list(consumer.fetch(TOPIC, 0, end + ahead)) == []
        with pytest.raises(OffsetOutOfRangeError):
            list(consumer.fetch(TOPIC, 0, end + 3 * message_bytes + 1))
        replicas["b"].resume()
        eventually(lambda: consumer.get_offsets_before(TOPIC, 0, LATEST) == [end + 3 * message_bytes])


def test_replicas_meet_each_other_by_tls(tmp_path: Path) -> None:
    """In a cluster where nobody is met otherwise."""
    properties = {"zk.sessiontimeout.ms": SESSION_MS, "replica.address.gap.ms": 100}
    with LocalCluster(1, directory=tmp_path, secure=True, replicas=2, properties=properties) as cluster:
        with connect(cluster.zk_connect) as client:
            registry = ReplicaRegistry(client, 0)
            assert all(member.by_tls for member in registry.read().members.values())
            eventually(lambda: len(ReplicaState.of(registry.read().state or "", "it").in_sync) == 2)
        with Sending(cluster.zk_connect) as sending:
            sending.await_more(100)
            cluster.brokers[0].kill()
            sending.await_more(100)


def test_a_leader_whose_disk_fails_gives_way(new_replicas: NewReplicas) -> None:
    """It ends, as every broker does; the other takes over at once, and it comes back when its disk is well."""
    replicas = new_replicas(2)
    replicas.start("ab")
    with Sending(replicas.zk_connect) as sending:
        sending.await_more(50)
        psutil.Process(replicas["a"].process.pid).rlimit(resource.RLIMIT_FSIZE, (30_000, 30_000))
        replicas.await_leader("b")
        assert replicas["a"].process.wait(20) == 1
        sending.await_more(50)
        replicas["a"].start()
        replicas.await_in_sync("ab")
        sending.await_more(50)
    assert set(sending.confirmed) <= set(numbers(read(replicas["b"])))
    replicas.await_equal("ab")


def test_metrics_say_who_leads_and_who_is_behind(new_replicas: NewReplicas) -> None:
    """And how much a replica had to cut, as the one that took over never got it."""
    replicas = new_replicas(2, lag_ms=60_000, session_ms=30_000, **{"metrics.port": 0})
    replicas.start("ab")

    def shown(by: str, what: str, of: str) -> float | None:
        found = metrics_of(replicas[by].output().decode())
        return found.get((f"kafka2011_broker_replica_{what}", str(ID), of))

    assert [shown(name, "leads", name) for name in "ab"] == [1, 0]
    assert [shown("a", "in_sync", name) for name in "ab"] == [1, 1]
    assert [shown("b", "in_sync", name) for name in "ab"] == [None, None]
    with Sending(replicas.zk_connect) as sending:
        sending.await_more(10)
    replicas["b"].pause()
    eventually(lambda: metrics_of(replicas["a"].output().decode())["kafka2011_broker_parked_requests",] == 0)
    with SyncProducer(replicas["a"].host, replicas["a"].port) as producer:
        producer.send(TOPIC, [_payload(0)] * 3)
    unknown_to_b = 3 * len(bytes(MessageSet([_payload(0)])))
    eventually(lambda: shown("a", "behind_bytes", "b") == unknown_to_b)
    assert (shown("a", "behind_seconds", "b") or 0) > 0
    replicas["a"].kill()
    replicas["b"].resume()
    replicas.await_leader("b")
    replicas["a"].launch()
    replicas["a"].wait_ready()
    replicas.await_in_sync("ab")
    assert [shown(name, "takeovers_total", name) for name in "ab"] == [0, 1]
    assert [shown(name, "cut_bytes_total", name) for name in "ab"] == [unknown_to_b, 0]
    assert shown("a", "epoch", "a") == shown("b", "epoch", "b") == replicas.state().epoch
    assert shown("b", "behind_bytes", "a") == 0


def test_a_topic_that_grows_does_so_at_all_replicas(new_replicas: NewReplicas, zk_client: ZkClient) -> None:
    """It is said to be done once all in sync have the new partitions, so that they outlive the leader."""
    replicas = new_replicas(2)
    replicas.start("ab")
    with Sending(replicas.zk_connect) as sending:
        sending.await_more(10)
    [change] = grow_topic(zk_client, TOPIC, 3)
    assert (change.partitions, change.outcome) == (3, "grown")
    assert all((replicas["b"].log_dir / f"{TOPIC}-{number}").is_dir() for number in range(3))
    replicas["a"].kill()
    shutil.rmtree(replicas["a"].log_dir)
    replicas.await_leader("b")
    eventually(lambda: BrokerRegistry(zk_client).partitions_of(TOPIC) == {ID: 3})
    with SyncProducer(replicas["b"].host, replicas["b"].port) as producer:
        producer.send(TOPIC, [_payload(0)], 2)
    replicas["a"].start()
    replicas.await_in_sync("ab")
    replicas.await_equal("ab")


def test_a_topic_grows_when_followers_go_on(new_replicas: NewReplicas, zk_client: ZkClient) -> None:
    """While one that is in sync hangs nobody is told that it is done; out of sync it is not waited for."""
    replicas = new_replicas(2, lag_ms=3000, session_ms=30_000)
    replicas.start("ab")
    with Sending(replicas.zk_connect) as sending:
        sending.await_more(10)
    replicas["b"].pause()
    [change] = grow_topic(zk_client, TOPIC, 3)
    assert (change.partitions, change.outcome) == (3, "grown")
    assert {each.name for each in replicas.state().in_sync} == {"a"}
    assert not (replicas["b"].log_dir / f"{TOPIC}-2").exists()
    replicas["b"].resume()
    replicas.await_in_sync("ab")
    assert (replicas["b"].log_dir / f"{TOPIC}-2").exists()


@pytest.mark.parametrize("partitions", [1, 7])
def test_a_topic_is_created_with_an_exact_number_at_all_replicas(
    new_replicas: NewReplicas, zk_client: ZkClient, partitions: int
) -> None:
    """It is said to be created once all in sync keep the number, which is not that of their settings.

    One that comes later, with or without logs of it, learns the number as well.
    """
    replicas = new_replicas(3, **{"topic.partition.count.map": f"{TOPIC}:4"})
    replicas.start("ab")
    [created] = create_topic(zk_client, TOPIC, partitions=partitions)
    assert created.partitions == partitions
    assert _exact_counts(replicas["b"]) == {TOPIC: partitions}
    assert all((replicas["b"].log_dir / f"{TOPIC}-{number}").is_dir() for number in range(partitions))
    replicas["c"].start()
    replicas.await_in_sync("abc")
    assert _exact_counts(replicas["c"]) == {TOPIC: partitions}
    replicas["b"].stop()
    (replicas["b"].log_dir / EXACT_FILE_NAME).unlink()  # as if it had run an older release meanwhile
    replicas["b"].start()
    replicas.await_in_sync("abc")
    assert _exact_counts(replicas["b"]) == {TOPIC: partitions}
    replicas["c"].kill()
    replicas.await_in_sync("ab")
    replicas["a"].kill()
    replicas.await_leader("b")
    eventually(lambda: BrokerRegistry(zk_client).partitions_of(TOPIC) == {ID: partitions})


def test_a_topic_grows_to_an_exact_number_at_all_replicas(new_replicas: NewReplicas, zk_client: ZkClient) -> None:
    """That is so for a topic that was created by the settings, too: they make another number at the next leader."""
    replicas = new_replicas(2)
    replicas.start("ab")
    create_topic(zk_client, "others")
    assert [change.partitions for change in grow_topic(zk_client, "others", PARTITIONS + 1)] == [PARTITIONS + 1]
    assert _exact_counts(replicas["b"]) == {"others": PARTITIONS + 1}
    replicas["a"].kill()
    replicas.await_leader("b")
    eventually(lambda: BrokerRegistry(zk_client).partitions_of("others") == {ID: PARTITIONS + 1})


def test_a_replica_of_an_older_release_keeps_topics_from_being_created(
    new_replicas: NewReplicas, zk_client: ZkClient
) -> None:
    """It would make the number of its settings when it leads. Nothing of the topic is left."""
    replicas = new_replicas(2)
    replicas.start("ab")
    # The leader says that it takes requests once it is registered.
    eventually(lambda: ID in RequestRegistry(zk_client).creators(BrokerRegistry(zk_client).brokers()))
    path = f"/replicas/{ID}/members/b"
    member, _ = zk_client.get(path)
    zk_client.set(path, member.replace(b", 103]", b"]"))
    names, refusals = (f"early-{number}" for number in count()), dict[str, str]()

    def is_refused() -> bool:  # once the leader has read what was written there
        name = next(names)
        try:
            create_topic(zk_client, name, partitions=3)
        except KafkaError as error:
            refusals[name] = str(error)
        return bool(refusals)

    eventually(is_refused)
    [(name, text)] = refusals.items()
    assert re.search(r"replica b:\w+ runs an older release, .*; nothing of it is left", text)
    assert name not in BrokerRegistry(zk_client).topics()
    assert not list(replicas["a"].log_dir.glob(f"{name}-*"))
    zk_client.set(path, member)
    eventually(lambda: _creates(zk_client), what="the topic is created")


def _creates(client: ZkClient) -> bool:
    try:
        create_topic(client, TOPIC, partitions=3)
    except KafkaError:
        return False
    return True


def _exact_counts(broker: LocalBroker) -> object:
    return json.loads((broker.log_dir / EXACT_FILE_NAME).read_text())


def test_a_topic_is_deleted_at_all_replicas(new_replicas: NewReplicas, zk_client: ZkClient) -> None:
    """Also at one that was away meanwhile: nothing of it comes back, though the new topic is longer by then."""
    replicas = new_replicas(3)
    replicas.start("abc")
    with Sending(replicas.zk_connect) as sending:
        sending.await_more(10)
    with SyncProducer(replicas["a"].host, replicas["a"].port) as producer:
        producer.send("others", [_payload(0)], 0)
    replicas["c"].kill()
    [change] = delete_topic(zk_client, TOPIC).brokers
    assert (change.outcome, change.is_done) == ("deleted", True)
    replicas.await_absence(TOPIC, "ab")
    with Sending(replicas.zk_connect) as again:
        again.await_more(len(sending.confirmed) + 10)
    replicas["c"].start()
    replicas.await_in_sync("abc")
    replicas.await_equal("abc")
    assert numbers(read(replicas[replicas.leader() or ""])) == again.confirmed
    assert list(replicas["c"].log_dir.glob("others-0"))
    assert delete_topic(zk_client, TOPIC).brokers[0].outcome == "deleted"
    replicas.await_absence(TOPIC, "abc")


def test_a_replica_that_takes_over_after_a_deletion_spares_consumers(
    new_replicas: NewReplicas, zk_client: ZkClient
) -> None:
    """It answers with an empty set for a partition that is no more: an error would end consumers of 0.7.2."""
    replicas = new_replicas(2)
    replicas.start("ab")
    create_topic(zk_client, TOPIC)
    grow_topic(zk_client, TOPIC, 3)
    delete_topic(zk_client, TOPIC)
    replicas.await_absence(TOPIC, "ab")
    replicas["a"].kill()
    replicas.await_leader("b")
    with SimpleConsumer(replicas["b"].host, replicas["b"].port) as consumer:
        assert not list(consumer.fetch(TOPIC, 2, 0))
        with pytest.raises(WrongPartitionError):
            consumer.fetch(TOPIC, 3, 0)
