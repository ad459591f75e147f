"""`doctor`, on a cluster in which things are broken one after the other."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from integration.cli.calling import output, produce, run
from kafka2011 import LocalCluster
from tests.support.waiting import eventually
from zk import paths
from zk.brokers import BrokerRegistry
from zk.cluster import TopicPartition
from zk.connecting import connect
from zk.nodes import Nodes
from zk.offsets import OffsetRegistry

if TYPE_CHECKING:
    from pathlib import Path

PROPERTIES = {"log.flush.interval": 1, "zk.sessiontimeout.ms": 2000}


def found(*arguments: str) -> set[tuple[str, str]]:
    done = run("doctor", "--json", *arguments)
    findings = json.loads(done.stdout)
    assert done.returncode == bool(findings), done.stderr
    assert all(each["remedy"] for each in findings)
    return {(each["where"], each["what"]) for each in findings}


def test_what_is_broken_is_found(tmp_path: Path) -> None:
    """And nothing before it was; what a file of a broker's settings says counts where it is given."""
    with LocalCluster(2, directory=tmp_path / "cluster", properties=PROPERTIES) as cluster:
        zookeeper = ("--zookeeper", cluster.zk_connect)
        broker = ("--broker", f"{cluster.brokers[0].host}:{cluster.brokers[0].port}")
        output("topics", "create", "views", *zookeeper)
        produce("views", 0, "one\ntwo\n", broker)
        read = ("consume", "--topic", "views", "--group", "readers", "--from-beginning", "--max-messages", 2)
        output(*read, "--timeout-ms", 20_000, *zookeeper)
        assert output("doctor", "--seconds", 0, *zookeeper) == "No problems found.\n"

        output("topics", "create", "narrow", "--brokers", 0, *zookeeper)
        output("topics", "create", "lost", "--brokers", 1, *zookeeper)
        where = TopicPartition("views", 0, 0)
        with connect(cluster.zk_connect) as client:
            OffsetRegistry(client).import_group("readers", {where: 9999})
            Nodes(client).create(paths.broker(7), b"no broker", ephemeral=True)
            OffsetRegistry(client).import_group("strays", {where: 5})
            Nodes(client).ensure_persistent(paths.consumer_ids("strays"))
            Nodes(client).create(paths.consumer("strays", "strays_x"), b"[]", ephemeral=True)
            lost = f"no message of {where}"
            strays = {what for place, what in found("--seconds", "0", *zookeeper) if place == "group strays"}
            assert strays >= {
                f"has committed an offset of {where} at which no message starts: {lost} starts at offset 5",
                "member strays_x has registered '[]', which is not a subscription",
            }
            Nodes(client).delete(paths.consumer("strays", "strays_x"))
            OffsetRegistry(client).forget("strays", [where])
            odd = [what for place, what in found("--seconds", "0", *zookeeper) if place == "ZooKeeper"]
            assert len(odd) == 1
            assert paths.broker(7) in odd[0]
        now = found("--seconds", "0", *zookeeper)
        assert now == {
            ("topic narrow", "only broker 0 of 2 brokers have it, and take all its load"),
            ("topic lost", "only broker 1 of 2 brokers have it, and take all its load"),
            (
                "group readers",
                "has committed offset 9999 of views/0-0, which ends at 26: its log was lost or recreated",
            ),
        }
        cluster.brokers[1].kill()
        with connect(cluster.zk_connect) as client:
            registry = BrokerRegistry(client)
            eventually(lambda: list(registry.brokers()) == [0] and not registry.partitions_of("lost"))
        places = {place: what for place, what in found("--seconds", "0", *zookeeper) if place.startswith("topic")}
        assert places == {
            "topic lost": "no living broker has it: its messages are on a broker that is down",
        }
        settings = tmp_path / "server.properties"
        settings.write_text(
            f"brokerid=0\nlog.dir={tmp_path / 'away'}\nenable.zookeeper=false\nlog.retention.hours=1\n",
            encoding="utf-8",
        )
        here = {
            what
            for place, what in found("--seconds", "1", "--config", str(settings), *zookeeper)
            if place == "broker 0"
        }
        assert any(str(tmp_path / "away") in what for what in here)
        assert any("log.roll.hours (168)" in what for what in here)
