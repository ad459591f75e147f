"""A broker that is killed at any step of what an operator has asked it to do with a topic, and the next start.

What happens between calls that change files is in tests/log/test_topic_deaths.py.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from integration.cli.calling import rows, run
from kafka2011 import SyncProducer
from kafka2011.local_cluster import LocalBroker
from tests.support.waiting import eventually
from zk.brokers import BrokerRegistry
from zk.connecting import connect
from zk.local_zookeeper import LocalZooKeeper
from zk.requests import DELETE, RequestKind, RequestRegistry, TopicRequest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
PROGRAM = (sys.executable, str(ROOT / "integration/broker/programs/die_at_point.py"))
GROW = TopicRequest(RequestKind.GROW, 3)
POINTS = {
    DELETE: ("unregister", "carry out", "done"),
    GROW: ("carry out", "change", "done"),
}
CASES = [
    (request, f"{when} {step}") for request, steps in POINTS.items() for step in steps for when in ("before", "after")
]


@pytest.fixture(scope="module")
def zookeeper() -> Iterator[LocalZooKeeper]:
    with LocalZooKeeper() as running:
        yield running


@pytest.mark.parametrize(("request_", "point"), CASES, ids=[f"{request.text}, {point}" for request, point in CASES])
def test_what_was_asked_for_is_done_after_the_next_start(
    request_: TopicRequest, point: str, zookeeper: LocalZooKeeper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of it or nothing is done when the broker dies, and all of it is when it is ready again."""
    zk_connect = f"{zookeeper.connect_string}/{tmp_path.name}"
    properties = {"zk.connect": zk_connect, "zk.sessiontimeout.ms": "1500", "num.partitions": "2"}
    properties |= {"log.flush.interval": "1"}
    with connect(zookeeper.connect_string, 10_000) as client:
        client.create(f"/{tmp_path.name}")
    broker = LocalBroker(1, tmp_path, properties, PROGRAM)
    with connect(zk_connect, 10_000) as client:
        registry, requests = BrokerRegistry(client), RequestRegistry(client)
        monkeypatch.setitem(os.environ, "DIE_AT_POINT", point)
        try:
            broker.start()
            with SyncProducer(broker.host, broker.port) as producer:
                for partition in range(2):
                    producer.send("views", [b"one"], partition)
                    producer.send("kept", [b"one"], partition)
            eventually(lambda: "views" in registry.topics() and registry.partitions_of("views") == {1: 2})
            requests.place(1, "views", request_)
            eventually(lambda: not broker.running, what="the broker is dead")
            logs = sorted(path.name for path in broker.log_dir.glob("views-*"))
            assert logs in (["views-0", "views-1"], []), "a kill at these points is no kill in between"
            if "views" in requests.placed(1):
                eventually(lambda: not registry.brokers(), what="its session has ended")
                found = run("doctor", "--seconds", 0, "--zookeeper", zk_connect)
                assert f"is down, and will {request_.of('views')} when it starts" in found.stdout
            else:
                assert point == "after done"
            monkeypatch.delitem(os.environ, "DIE_AT_POINT")
            broker.start()
            assert requests.placed(1) == {}
            now = registry.partitions_of_many(["views", "kept"])
            assert now == {"views": {} if request_ is DELETE else {1: 3}, "kept": {1: 2}}
            described = rows("topics", "describe", "kept", "--zookeeper", zk_connect)
            assert [row["latest"] for row in described] == [13, 13]
            assert bool(list(broker.log_dir.glob("views-*"))) == (request_ is GROW)
            if request_ is GROW:
                described = rows("topics", "describe", "views", "--zookeeper", zk_connect)
                assert [row["latest"] for row in described] == [13, 13, 0]
        finally:
            broker.stop()
