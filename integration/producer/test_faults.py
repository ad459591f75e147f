"""Confirmed sends while brokers die, hang, come back, and refuse sets."""

from __future__ import annotations

import functools
import signal
import threading
import time
from concurrent.futures import wait
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from kafka2011.message.compression import Codec
from kafka2011.message.message_set import MessageSet, encode
from kafka2011.producer.errors import ConfirmTimeoutError, SetRefusedError
from kafka2011.producer.producer import Producer
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from kafka2011.local_cluster import LocalBroker, LocalCluster
    from kafka2011.producer.batch import FailedBatch, Receipt

    NewCluster = Callable[..., LocalCluster]
    ReadTopic = Callable[..., dict[tuple[int, int], list[bytes]]]

TOPIC = "views"
KEYS = [f"member-{number}" for number in range(20)]


def config(cluster: LocalCluster, **settings: object) -> dict[str, object]:
    return {
        "zk.connect": cluster.zk_connect,
        "zk.sessiontimeout.ms": 2000,
        "zk.connectiontimeout.ms": 20000,
        "producer.type": "async",
        "queue.time": 20,
        "batch.size": 50,
        "confirm": True,
        **{name.replace("_", "."): value for name, value in settings.items()},
    }


def first_appearances(payloads: list[bytes]) -> list[int]:
    """Give the numbers in the order in which each was first seen."""
    return list(dict.fromkeys(int(payload.split(b" ")[0]) for payload in payloads))


def assert_in_order(found: dict[tuple[int, int], list[bytes]]) -> None:
    for where, payloads in found.items():
        numbers = first_appearances(payloads)
        late = [(one, other) for one, other in pairwise(numbers) if other < one]
        assert not late, f"out of order in {where}: {late[:5]}"


def everything(found: dict[tuple[int, int], list[bytes]]) -> set[bytes]:
    return {payload for payloads in found.values() for payload in payloads}


class Traffic:
    """Numbered sends, with a key or without, from a thread of their own until stopped."""

    def __init__(self, producer: Producer, keyed: bool) -> None:
        self.sent: list[tuple[bytes, Future[Receipt]]] = []
        self._producer = producer
        self._keyed = keyed
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        number = 0
        while not self._stopping.is_set():
            payload = b"%d %s" % (number, b"x" * 100)
            key = KEYS[number % len(KEYS)] if self._keyed else None
            self.sent.append((payload, self._producer.send(TOPIC, payload, key)))
            number += 1
            if number % 10 == 0:
                time.sleep(0.001)  # paced, so that a fault meets traffic and not its end

    def __enter__(self) -> Traffic:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()

    @property
    def confirmed(self) -> int:
        return self._producer.counts.messages_sent

    @property
    def in_doubt(self) -> int:
        return len(self.sent) - self.confirmed

    def stop_a_broker_in_the_middle(self, cluster: LocalCluster) -> LocalBroker:
        """Stop a broker such that sets lie in its socket unhandled, which a kill will destroy."""
        while True:
            broker = cluster.brokers[self._broker_in_use()]
            broker.process.send_signal(signal.SIGSTOP)
            goal = len(self.sent) + 100
            eventually(lambda: len(self.sent) > goal)  # noqa: B023
            if self._broker_in_use() == broker.broker_id:
                eventually(lambda: self.in_doubt > 500)
                return broker
            broker.process.send_signal(signal.SIGCONT)

    def _broker_in_use(self) -> int:
        batch = None if self._keyed else self._producer._accumulator._unkeyed.get(TOPIC)
        return batch.where.broker_id if batch is not None else 0


@pytest.mark.parametrize("keyed", [True, False], ids=["keyed", "unkeyed"])
def test_nothing_confirmed_is_missing_after_kill_and_restart(
    new_cluster: NewCluster, read_topic: ReadTopic, keyed: bool
) -> None:
    """A broker is killed and restarted while messages flow: all are confirmed and there, those with a key in order."""
    cluster = new_cluster(2)
    with Producer(config(cluster)) as producer, Traffic(producer, keyed) as traffic:
        for _ in range(2):
            goal = traffic.confirmed + 1000
            eventually(lambda: traffic.confirmed > goal)  # noqa: B023
            broker = traffic.stop_a_broker_in_the_middle(cluster)
            broker.kill()
            goal = len(traffic.sent) + 500
            eventually(lambda: len(traffic.sent) > goal)  # noqa: B023
            broker.start()
        goal = traffic.confirmed + 1000
        eventually(lambda: traffic.confirmed > goal)
    assert not [future for _, future in traffic.sent if future.exception(0)]
    wanted = {payload for payload, _ in traffic.sent}
    eventually(lambda: wanted <= everything(read_topic(cluster, TOPIC)))
    if keyed:
        assert_in_order(read_topic(cluster, TOPIC))
    assert producer.counts.messages_sent == len(traffic.sent)
    assert producer.counts.messages_failed == 0
    assert producer.counts.broken_connections >= 1
    assert producer.counts.sets_resent + producer.counts.sets_moved >= 1


def test_without_a_key_messages_go_elsewhere_when_their_broker_is_gone(
    new_cluster: NewCluster, read_topic: ReadTopic
) -> None:
    """A broker that never comes back costs nothing that has no key."""
    cluster = new_cluster(3)
    with Producer(config(cluster)) as producer, Traffic(producer, keyed=False) as traffic:
        eventually(lambda: traffic.confirmed > 1000)
        broker = traffic.stop_a_broker_in_the_middle(cluster)
        broker.kill()
        goal = len(traffic.sent) + 2000
        eventually(lambda: traffic.confirmed > goal)
    assert not [future for _, future in traffic.sent if future.exception(0)]
    broker.start()
    wanted = {payload for payload, _ in traffic.sent}
    eventually(lambda: wanted <= everything(read_topic(cluster, TOPIC)))


def test_a_hanging_broker_holds_up_only_its_own_keys(new_cluster: NewCluster, read_topic: ReadTopic) -> None:
    """While a broker is stopped, keys of others go on; its own wait, and are confirmed when it goes on."""
    cluster = new_cluster(2)
    with Producer(config(cluster, **{"confirm.timeout.ms": 20000, "socket.timeout.ms": 500})) as producer:
        for key in KEYS:
            producer.send(TOPIC, b"0 first", key).result(20)
        eventually(lambda: len(producer._router.info.partitions(TOPIC)) == 4)
        owners = {key: producer._router.by_key(TOPIC, key).broker_id for key in KEYS}
        cluster.brokers[0].process.send_signal(signal.SIGSTOP)
        waiting = [producer.send(TOPIC, b"1 waits", key) for key, owner in owners.items() if owner == 0]
        going = [producer.send(TOPIC, b"2 goes", key) for key, owner in owners.items() if owner == 1]
        unkeyed = [producer.send(TOPIC, b"3 anywhere") for _ in range(100)]
        assert waiting
        assert going
        assert not wait(going, 20).not_done
        assert not wait(unkeyed, 20).not_done
        assert not any(future.done() for future in waiting)
        cluster.brokers[0].process.send_signal(signal.SIGCONT)
        assert {future.result(20).broker_id for future in waiting} == {0}


def test_a_keyed_send_to_a_broker_that_stays_away_fails_in_time(new_cluster: NewCluster) -> None:
    """After confirm.timeout.ms the send fails, and the callback gets its messages."""
    cluster = new_cluster(2)
    failed: list[FailedBatch] = []
    with Producer(config(cluster, **{"confirm.timeout.ms": 1500}), on_failure=failed.append) as producer:
        [lost_key, *_] = [key for key in KEYS if producer._router.by_key(TOPIC, key).broker_id == 0]
        [kept_key, *_] = [key for key in KEYS if producer._router.by_key(TOPIC, key).broker_id == 1]
        cluster.brokers[0].kill()
        lost = [producer.send(TOPIC, [b"1", b"2"], lost_key), producer.send(TOPIC, b"3", lost_key)]
        assert producer.send(TOPIC, b"kept", kept_key).result(20).confirmed
        for future in lost:
            with pytest.raises(ConfirmTimeoutError, match=f"{TOPIC}/0-0"):
                future.result(20)
    assert sorted(payload for each in failed for payload in each.messages) == [b"1", b"2", b"3"]
    assert {(each.topic, key) for each in failed for key in each.keys} == {(TOPIC, lost_key)}
    assert producer.counts.messages_failed == 3


POISON = MessageSet.from_bytes(encode(b"this is no gzip stream", Codec.GZIP))


def test_a_set_that_brokers_refuse_is_isolated(new_cluster: NewCluster, read_topic: ReadTopic) -> None:
    """Of many pipelined sets only the refused one fails, and all others are written in order."""
    cluster = new_cluster(1)
    with Producer(config(cluster)) as producer:
        good: list[Future[Receipt]] = []
        bad: list[Future[Receipt]] = []
        for number in range(3000):
            good.append(producer.send(TOPIC, b"%d" % number, key="k"))
            if number in {500, 501, 2000}:
                bad.append(producer.send(TOPIC, POISON, key="k"))
        for future in bad:
            with pytest.raises(SetRefusedError, match="broker 0"):
                future.result(30)
        assert not wait(good, 30).not_done
        assert not [future for future in good if future.exception(0)]
    assert producer.counts.sets_refused == 3
    wanted = {b"%d" % number for number in range(3000)}
    eventually(lambda: wanted <= everything(read_topic(cluster, TOPIC)))
    assert_in_order(read_topic(cluster, TOPIC))


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_set_that_is_too_large_for_the_broker_is_never_confirmed(
    new_cluster: NewCluster, read_topic: ReadTopic, kind: str
) -> None:
    """A broker whose max.message.size is smaller than the producer's drops the set: its send fails, no other does."""
    cluster = new_cluster(1, {"max.message.size": 1000})
    settings = config(cluster, **{"producer.type": kind, "batch.size": 1})
    sends: list[tuple[bytes, Callable[[], object]]] = []
    with Producer(settings) as producer:
        for number in range(60):
            payload = b"%d " % number + bytes(1001 if number in {20, 40} else 10)
            if kind == "async":
                future = producer.send(TOPIC, payload, key="k")
                assert future is not None
                sends.append((payload, functools.partial(future.result, 30)))
            else:
                sends.append((payload, functools.partial(producer.send, TOPIC, payload, key="k")))
        for payload, outcome in sends:
            if len(payload) > 1000:
                with pytest.raises(SetRefusedError, match="broker 0"):
                    outcome()
            else:
                outcome()
    good = {payload for payload, _ in sends if len(payload) < 1000}
    eventually(lambda: everything(read_topic(cluster, TOPIC)) == good)
    assert_in_order(read_topic(cluster, TOPIC))


def test_a_synchronous_send_of_a_refused_set_fails_alone(new_cluster: NewCluster) -> None:
    """The send that is refused raises, and the next one is confirmed."""
    cluster = new_cluster(1)
    with Producer(config(cluster, **{"producer.type": "sync"})) as producer:
        producer.send(TOPIC, b"before")
        with pytest.raises(SetRefusedError):
            producer.send(TOPIC, POISON)
        producer.send(TOPIC, b"after")
    assert producer.counts.messages_sent == 2


def test_synchronous_sends_are_confirmed_across_kill_and_restart(
    new_cluster: NewCluster, read_topic: ReadTopic
) -> None:
    """Each send returns confirmed: without a key at another broker at once, with one when its own is back."""
    cluster = new_cluster(2)
    with Producer(config(cluster, **{"producer.type": "sync"})) as producer:
        keys = KEYS[:5]
        for key in keys:
            producer.send(TOPIC, b"0 " + key.encode(), key)
        eventually(lambda: len(producer._router.info.partitions(TOPIC)) == 4)
        cluster.brokers[0].kill()
        for number in range(1, 50):
            producer.send(TOPIC, b"%d anywhere" % number)
        restart = threading.Thread(target=cluster.brokers[0].start)
        restart.start()
        for number in range(50, 100):
            producer.send(TOPIC, b"%d own" % number, KEYS[number % len(KEYS)])
        restart.join()
    wanted = {b"%d anywhere" % number for number in range(1, 50)} | {b"%d own" % number for number in range(50, 100)}
    eventually(lambda: wanted <= everything(read_topic(cluster, TOPIC)))
    assert_in_order(read_topic(cluster, TOPIC))
