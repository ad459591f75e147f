"""Topics, brokers and znodes, as commands show them."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest

from integration.cli.calling import PARTITIONS, output, rows, run
from kafka2011 import LocalCluster

if TYPE_CHECKING:
    from pathlib import Path


def test_topics_are_created_listed_and_described(cluster: LocalCluster, zookeeper: tuple[str, str]) -> None:
    """`topics create` makes a topic where it is told to, and extends it; the others show it."""
    [made] = rows("topics", "create", "created", "--brokers", "1", *zookeeper)
    assert (made["topic"], made["broker"], made["partitions"]) == ("created", 1, PARTITIONS)
    assert {"topic": "created", "brokers": 1, "partitions": PARTITIONS} in rows("topics", "list", *zookeeper)
    assert len(rows("topics", "create", "created", *zookeeper)) == 2
    described = rows("topics", "describe", "created", *zookeeper)
    assert [item["partition"] for item in described] == [f"{b}-{p}" for b in range(2) for p in range(PARTITIONS)]
    assert {(item["earliest"], item["latest"]) for item in described} == {(0, 0)}
    assert described[0]["broker"] == 0
    assert described[0]["address"] == f"127.0.0.1:{cluster.brokers[0].port}"


def test_a_number_of_partitions_is_checked_first(zookeeper: tuple[str, str]) -> None:
    """No request tells a broker how many partitions to make: another number than its own is refused."""
    done = run("topics", "create", "counted", "--partitions", 7, *zookeeper)
    assert done.returncode == 1
    assert "topic.partition.count.map=counted:7" in done.stderr
    assert "counted" not in {row["topic"] for row in rows("topics", "list", *zookeeper)}
    assert len(rows("topics", "create", "counted", "--partitions", PARTITIONS, *zookeeper)) == 2


def test_a_topic_is_grown_and_deleted_by_its_operator(tmp_path: Path) -> None:
    """The steps that `topics grow` and `topics delete` name do what they say, and the commands themselves nothing."""
    properties = {"log.flush.interval": 1, "num.partitions": 2, "zk.sessiontimeout.ms": 2000}
    with LocalCluster(1, directory=tmp_path, properties=properties) as cluster:
        where = ("--zookeeper", cluster.zk_connect)
        output("topics", "create", "views", *where)
        output("produce", "views", *where, text="one\n")
        group = ("--group", "reports", "--from-beginning", "--max-messages", 1)
        assert output("consume", "views", *group, *where) == "one\n"

        assert output("topics", "grow", "views", "--partitions", 2, *where) == "nothing to do\n"
        assert "would hide logs" in run("topics", "grow", "views", "--partitions", 1, *where).stderr
        steps = output("topics", "grow", "views", "--partitions", 3, *where).splitlines()
        assert "which has 2: add views:3 to topic.partition.count.map" in steps[0]
        broker = cluster.brokers[0]
        broker.stop()
        broker._properties["topic.partition.count.map"] = "views:3"
        broker.start()
        assert output("topics", "grow", "views", "--partitions", 3, *where) == "nothing to do\n"
        assert {row["partitions"] for row in rows("topics", *where)} == {3}

        steps = output("topics", "delete", "views", *where).splitlines()
        assert "stop the groups that read it, reports" in steps[1]
        assert f"on broker 0 ({broker.host}:{broker.port})" in steps[2]
        assert "(13 bytes)" in steps[2]
        broker.stop()
        for log in broker.log_dir.glob("views-*"):
            shutil.rmtree(log)
        broker.start()
        assert rows("topics", *where) == [{"topic": "views", "brokers": 0, "partitions": 0}]
        output("produce", "views", *where, text="anew\n")
        assert "groups reset --group reports --topic views --to earliest" in steps[-1]
        output("groups", "reset", "--group", "reports", "--topic", "views", "--to", "earliest", *where)
        assert output("consume", "views", *group, *where) == "anew\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("topics", "delete", "nowhere"), "topic nowhere is not registered"),
        (("topics", "grow", "nowhere", "--partitions", "2"), "topic nowhere is not registered"),
        (("topics", "create", "t", "--brokers", "0,7"), "broker 7 is not registered"),
        (("topics", "create", "a/b"), "topic 'a/b' is not a name"),
        (("topics", "describe", "nowhere"), "topic nowhere is not registered"),
    ],
)
def test_topics_that_cannot_be(arguments: tuple[str, ...], words: str, zookeeper: tuple[str, str]) -> None:
    """Wrong brokers, names and topics fail with one line."""
    done = run(*arguments, *zookeeper)
    assert (done.returncode, done.stdout) == (1, "")
    assert words in done.stderr
    assert done.stderr.count("\n") == 1


def test_ping(cluster: LocalCluster, zookeeper: tuple[str, str]) -> None:
    """`ping` fails as soon as one broker is silent, and says which."""
    answers = rows("ping", *zookeeper)
    assert [answer["error"] for answer in answers] == [None, None]
    silent = f"127.0.0.1:{cluster.zookeeper.port if cluster.zookeeper else 0}"  # speaks another protocol
    done = run("ping", silent, *zookeeper, "--timeout-ms", 500, "--json")
    assert done.returncode == 1
    assert done.stderr == f"kafka2011: error: no answer from {silent}\n"
    assert [answer["error"] is None for answer in json.loads(done.stdout)] == [False, True, True]


def test_ping_takes_the_port_from_the_environment(cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Inside a broker's own environment `ping` needs no argument."""
    monkeypatch.setenv("KAFKA2011_PORT", str(cluster.brokers[1].port))
    [answer] = rows("ping")
    assert answer["address"] == f"127.0.0.1:{cluster.brokers[1].port}"


def test_registry(cluster: LocalCluster, zookeeper: tuple[str, str]) -> None:
    """`registry` shows every znode, as a tree or as objects."""
    found = {item["path"]: item for item in rows("registry", *zookeeper)}
    port = cluster.brokers[0].port
    assert str(found["/brokers/ids/0"]["data"]).endswith(f":127.0.0.1:{port}")
    assert found["/brokers/ids/0"]["ephemeral"]
    assert not found["/brokers/topics"]["ephemeral"]
    tree = output("registry", *zookeeper)
    assert f":127.0.0.1:{port}  (ephemeral)" in tree
    assert tree.splitlines()[1][1:] == "── brokers"


def test_an_unreachable_zookeeper_is_one_line() -> None:
    """Without ZooKeeper a command fails in its session timeout, and says where it looked."""
    done = run("registry", "--zookeeper", "127.0.0.1:1")
    assert done.returncode == 1
    assert "127.0.0.1:1" in done.stderr
    assert done.stderr.count("\n") == 1
