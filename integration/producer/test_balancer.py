"""Frontends publish through a load balancer (paper, section 4): broker.list has one address, that of haproxy."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest

from integration.producer.haproxy import balancer, find_haproxy
from kafka2011.producer.producer import Producer
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future
    from pathlib import Path

    from kafka2011.local_cluster import LocalCluster
    from kafka2011.producer.batch import Receipt

    NewCluster = Callable[..., LocalCluster]
    ReadTopic = Callable[..., dict[tuple[int, int], list[bytes]]]

TOPIC = "views"


def test_confirmed_sends_go_through_a_load_balancer(
    new_cluster: NewCluster, read_topic: ReadTopic, tmp_path: Path
) -> None:
    """Reconnecting spreads messages over all brokers; one is killed and comes back, and all that was sent is there."""
    try:
        find_haproxy()
    except LookupError as error:
        pytest.skip(str(error))
    cluster = new_cluster(3)
    sent: list[tuple[bytes, Future[Receipt]]] = []
    stop = threading.Event()

    def brokers_in_use(since: int = 0) -> set[int]:
        found = read_topic(cluster, TOPIC)
        return {broker for (broker, _), payloads in found.items() if any(int(each) >= since for each in payloads)}

    with balancer(cluster, tmp_path) as port:
        settings = {
            "broker.list": f"0:127.0.0.1:{port}",
            "producer.type": "async",
            "confirm": True,
            "queue.time": 1,
            "reconnect.interval": 10,
        }
        with Producer(settings) as producer:

            def send() -> None:
                while not stop.is_set():
                    payload = b"%d" % len(sent)
                    sent.append((payload, producer.send(TOPIC, payload)))
                    time.sleep(0.0005)  # paced, so that it is still sending when something happens

            sending = threading.Thread(target=send)
            sending.start()
            try:
                eventually(lambda: brokers_in_use() == {0, 1, 2}, what="messages on all brokers")
                cluster.brokers[1].kill()
                killed_at = len(sent)
                eventually(lambda: brokers_in_use(killed_at) == {0, 2}, what="messages on the other brokers")
                cluster.brokers[1].start()
                back_at = len(sent)
                eventually(lambda: brokers_in_use(back_at) == {0, 1, 2}, what="messages on all brokers again")
            finally:
                stop.set()
                sending.join()
            for _, future in sent:
                assert future.result(60).confirmed
    wanted = {payload for payload, _ in sent}
    eventually(lambda: wanted <= {each for payloads in read_topic(cluster, TOPIC).values() for each in payloads})
    assert producer.counts.messages_failed == 0
