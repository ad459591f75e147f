"""Topics, brokers and znodes, as commands show them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from integration.cli.calling import PARTITIONS, output, rows, run
from kafka2011 import EARLIEST, LATEST, ConsumerConnector, LocalCluster, SimpleConsumer
from kafka2011.admin.topic_changes import TopicKeptError, check_deletion
from kafka2011.admin.topic_growth import grow_topic
from kafka2011.admin.topics import create_topic
from kafka2011.errors import KafkaError, WrongPartitionError
from tests.support.waiting import eventually
from zk import paths
from zk.brokers import BrokerRegistry
from zk.cluster import Broker
from zk.connecting import connect
from zk.requests import RequestRegistry

if TYPE_CHECKING:
    from collections.abc import Iterator
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


@pytest.mark.parametrize("partitions", [1, 3, 4, 7])
def test_a_topic_has_the_number_of_partitions_that_is_asked_for(zookeeper: tuple[str, str], partitions: int) -> None:
    """The number is in all, or for each broker. A topic that exists is left as it is."""
    topic = f"counted-{partitions}"
    made = rows("topics", "create", topic, "--partitions", partitions, *zookeeper)
    assert {"topic": topic, "brokers": len(made), "partitions": partitions} in rows("topics", "list", *zookeeper)
    again = run("topics", "create", topic, "--partitions", partitions + 1, *zookeeper)
    assert (again.returncode, f"topic {topic} exists, with {partitions} partitions" in again.stderr) == (1, True)
    each = f"each-{partitions}"
    for brokers in ((0,), (0, 1)):
        where = ("--brokers", ",".join(map(str, brokers)))
        output("topics", "create", each, "--per-broker", partitions, *where, *zookeeper)
        described = rows("topics", "describe", each, *zookeeper)
        assert [row["partition"] for row in described] == [f"{b}-{p}" for b in brokers for p in range(partitions)]
    other = run("topics", "create", each, "--per-broker", partitions + 1, *zookeeper)
    assert f"broker 0 has {partitions} partitions of topic {each}, not {partitions + 1}" in other.stderr


def test_brokers_of_07_make_the_number_of_their_settings_only(two_brokers: LocalCluster) -> None:
    """It is found out before anything is changed, and said. If it is their share, or others can do it, it is done."""
    where = ("--zookeeper", two_brokers.zk_connect)
    for number in (0, 1):
        take_no_requests(two_brokers, number)
        refused = run("topics", "create", "counted", "--brokers", "0,1", "--partitions", 4, *where)
        assert refused.returncode == 1
        assert "broker 0 can only make 1 partitions of topic counted" in refused.stderr
        assert "counted" not in {row["topic"] for row in rows("topics", *where)}
        if number == 0:
            [made] = rows("topics", "create", "others", "--partitions", 4, *where)
            assert (made["broker"], made["partitions"]) == (1, 4)
    assert "nothing was created" in run("topics", "create", "counted", "--partitions", 4, *where).stderr
    assert "nothing was created" in run("topics", "create", "counted", "--per-broker", 2, *where).stderr
    assert len(rows("topics", "create", "counted", "--partitions", 2, *where)) == 2
    assert len(rows("topics", "create", "each", "--per-broker", 1, *where)) == 2


@pytest.fixture
def two_brokers(tmp_path: Path) -> Iterator[LocalCluster]:
    properties = {"log.flush.interval": 1, "num.partitions": 1, "zk.sessiontimeout.ms": 2000}
    with LocalCluster(2, directory=tmp_path, properties=properties) as running:
        output("topics", "create", "views", "--zookeeper", running.zk_connect)
        yield running


def take_no_requests(cluster: LocalCluster, broker_id: int) -> None:
    """Have a broker look like one of 0.7."""
    with connect(cluster.zk_connect) as client:
        client.delete(paths.requests(broker_id))


def test_a_broker_that_is_of_07_again_takes_no_requests(two_brokers: LocalCluster) -> None:
    """The broker has the id and directory of one of ours. DeleteTopics is refused, and the broker keeps its part."""
    ours = two_brokers.brokers[1]
    ours.stop()
    with connect(two_brokers.zk_connect) as client:
        registry = BrokerRegistry(client)
        registry.register(Broker(1, "127.0.0.1", ours.port, "127.0.0.1-1"))  # any other process has another creator
        registry.register_topics(1, {"views": 1})
        with pytest.raises(TopicKeptError, match=r"broker 1 runs Kafka 0\.7, which keeps topic views"):
            check_deletion(client, "views")
        assert registry.partitions_of("views") == {0: 1, 1: 1}
        where = ("--zookeeper", two_brokers.zk_connect)
        grown, kept = json.loads(run("topics", "grow", "views", "--per-broker", 2, "--json", *where).stdout)
        assert grown["outcome"] == "grown"
        assert "it takes no requests (Kafka 0.7)" in kept["outcome"]
        assert RequestRegistry(client).placed(1) == {}


def test_a_topic_grows_while_it_is_read(two_brokers: LocalCluster) -> None:
    """All brokers have more partitions at once, and after a restart; a member that was there reads the new ones."""
    where = ("--zookeeper", two_brokers.zk_connect)
    settings = {"zk.connect": two_brokers.zk_connect, "groupid": "reports", "autooffset.reset": "smallest"}
    with ConsumerConnector({**settings, "consumer.timeout.ms": 20_000}) as consumer:
        [stream] = consumer.create_message_streams({"views": 1})["views"]
        planned = rows("topics", "grow", "views", "--per-broker", 3, "--dry-run", *where)
        assert [row["outcome"] for row in planned] == ["grows to 3"] * 2
        assert rows("topics", *where) == [{"topic": "views", "brokers": 2, "partitions": 2}]
        grown = rows("topics", "grow", "views", "--per-broker", 3, *where)
        assert [(row["broker"], row["partitions"], row["outcome"]) for row in grown] == [
            (0, 3, "grown"),
            (1, 3, "grown"),
        ]
        broker = two_brokers.brokers[1]
        output("produce", "views", "--broker", f"{broker.host}:{broker.port}", "--partition", 2, text="new\n")
        assert [(m.broker_id, m.partition, m.payload) for m in [next(stream)]] == [(1, 2, b"new")]
    assert "would hide logs" in run("topics", "grow", "views", "--per-broker", 2, *where).stderr
    broker.stop()
    broker.start()
    again = rows("topics", "grow", "views", "--per-broker", 3, *where)
    assert [(row["partitions"], row["outcome"]) for row in again] == [(3, "has them")] * 2
    assert rows("topics", "describe", "views", *where)[-1]["latest"] == 13


def test_a_topic_grows_to_a_number_in_all(two_brokers: LocalCluster) -> None:
    """New partitions go to brokers with the fewest; those of a broker that is down count. Both meanings are said."""
    where = ("--zookeeper", two_brokers.zk_connect)
    grown = run("topics", "grow", "views", "--partitions", 5, "--json", *where)
    assert grown.returncode == 0
    assert "means 5 in all. Before this version it meant 5 on each broker, which is --per-broker 5 now" in grown.stderr
    changes = json.loads(grown.stdout)
    assert sorted(row["partitions"] for row in changes) == [2, 3]
    assert {row["outcome"] for row in changes} == {"grown"}
    counts = {row["broker"]: row["partitions"] for row in changes}
    second = two_brokers.brokers[1]
    second.stop()
    planned = json.loads(run("topics", "grow", "views", "--partitions", 9, "--dry-run", "--json", *where).stdout)
    assert [row["outcome"] for row in planned] == [f"grows to {9 - counts[1]}", "away: keeps them"]
    run("topics", "grow", "views", "--partitions", 9, *where)
    second.start()
    assert rows("topics", *where) == [{"topic": "views", "brokers": 2, "partitions": 9}]
    fewer = run("topics", "grow", "views", "--partitions", 8, *where)
    assert (fewer.returncode, "topic views has 9 partitions in all" in fewer.stderr) == (1, True)


@pytest.mark.parametrize(
    "arguments",
    [
        ("grow", "views"),
        ("grow", "views", "--partitions", "4", "--per-broker", "2"),
        ("create", "views", "--partitions", "4", "--per-broker", "2"),
    ],
)
def test_a_number_is_in_all_or_on_each_broker(arguments: tuple[str, ...], zookeeper: tuple[str, str]) -> None:
    done = run("topics", *arguments, *zookeeper)
    assert done.returncode == 2
    assert "--partitions is the number in all, --per-broker the number on each broker: give one of them" in done.stderr


def test_a_topic_grows_to_brokers_without_it(two_brokers: LocalCluster) -> None:
    """`--brokers` names others."""
    where = ("--zookeeper", two_brokers.zk_connect)
    for topic, brokers, expected in (("spread", (), {0: 2, 1: 2}), ("kept", ("--brokers", "1"), {1: 4})):
        output("topics", "create", topic, "--brokers", "1", *where)
        run("topics", "grow", topic, "--partitions", 4, *brokers, *where)
        with connect(two_brokers.zk_connect) as client:
            assert BrokerRegistry(client).partitions_of(topic) == expected


def test_a_topic_does_not_grow_to_a_number_that_nobody_can_tell(two_brokers: LocalCluster) -> None:
    """A broker that is down may have partitions that would not be counted. Nothing is changed."""
    where = ("--zookeeper", two_brokers.zk_connect)
    two_brokers.brokers[1].stop()
    refused = run("topics", "grow", "views", "--partitions", 5, *where)
    assert refused.returncode == 1
    assert "broker 1 is down, and may have partitions of topic views that would not be counted" in refused.stderr
    assert rows("topics", *where) == [{"topic": "views", "brokers": 1, "partitions": 1}]
    with connect(two_brokers.zk_connect) as client:
        assert RequestRegistry(client).placed(0) == {}
    two_brokers.brokers[1].start()


def test_what_brokers_of_07_have_counts(two_brokers: LocalCluster) -> None:
    """They stay as they are, and others get the rest; nobody can grow a topic that they alone have."""
    where = ("--zookeeper", two_brokers.zk_connect)
    take_no_requests(two_brokers, 1)
    assert run("topics", "grow", "views", "--partitions", 4, *where).returncode == 0
    described = rows("topics", "describe", "views", *where)
    assert [row["partition"] for row in described] == ["0-0", "0-1", "0-2", "1-0"]
    take_no_requests(two_brokers, 0)
    refused = run("topics", "grow", "views", "--partitions", 5, *where)
    assert "no broker can grow topic views: they run Kafka 0.7 or an older release" in refused.stderr


def test_a_topic_is_deleted_while_it_is_read(two_brokers: LocalCluster) -> None:
    """Its logs go on all brokers, and offsets if so asked, from under a member; made anew, it is read from the start.

    A broker that is away does it when it starts.
    """
    where = ("--zookeeper", two_brokers.zk_connect)
    first, second = two_brokers.brokers.values()
    for broker in (first, second):
        output("produce", "views", "--broker", f"{broker.host}:{broker.port}", text="one\n")
    output("topics", "grow", "views", "--per-broker", 2, *where)
    output("topics", "create", "kept", *where)
    settings = {"zk.connect": two_brokers.zk_connect, "groupid": "reports", "autooffset.reset": "smallest"}
    with ConsumerConnector({**settings, "consumer.timeout.ms": 20_000}) as consumer:
        [stream] = consumer.create_message_streams({"views": 1})["views"]
        assert {next(stream).broker_id for _ in range(2)} == {0, 1}
        second.stop()

        planned = run("topics", "delete", "views", "--dry-run", "--keep-offsets", *where)
        assert "group reports loses what it has not consumed; its offsets stay" in planned.stderr
        planned = run("topics", "delete", "views", "--dry-run", *where)
        assert "group reports loses what it has not consumed; its offsets are removed" in planned.stderr
        assert "away: deletes it when it starts" in planned.stdout
        asked = run("topics", "delete", "views", *where)
        assert asked.returncode == 1
        assert "delete topic views? [y/N]" in asked.stderr
        assert list(first.log_dir.glob("views-*")), "nothing is deleted before yes"

        deleted = rows("topics", "delete", "views", "--yes", *where)
        assert [(row["broker"], row["bytes"], row["outcome"]) for row in deleted] == [
            (0, 13, "deleted"),
            (1, None, "away: deletes it when it starts"),
        ]
        assert not list(first.log_dir.glob("views-*"))
        assert [row["topic"] for row in rows("topics", *where)] == ["kept"]
        assert "views" not in output("offsets", "export", "--group", "reports", *where)

        second.start()
        assert not list(second.log_dir.glob("views-*"))
        assert [row["topic"] for row in rows("topics", *where)] == ["kept"]
        output("produce", "views", "--broker", f"{first.host}:{first.port}", text="anew\n")
        made = next(stream)
        assert (made.payload, made.offset) == (b"anew", 0)
        assert rows("topics", *where)[-1] == {"topic": "views", "brokers": 1, "partitions": 1}, "as the settings say"


def test_consumers_get_no_error_for_a_partition_that_was_deleted(two_brokers: LocalCluster) -> None:
    """Those of 0.7.2 would end, with all their other topics: not after a restart either, nor when it is made again."""
    where = ("--zookeeper", two_brokers.zk_connect)
    broker = two_brokers.brokers[0]
    output("topics", "grow", "views", "--per-broker", 3, *where)
    rows("topics", "delete", "views", "--yes", *where)

    def is_spared() -> bool:
        with SimpleConsumer(broker.host, broker.port) as consumer:
            offsets = [consumer.get_offsets_before("views", 2, time_ms) for time_ms in (LATEST, EARLIEST)]
            return not list(consumer.fetch("views", 2, 130)) and offsets == [[0], [0]]

    assert is_spared()
    broker.stop()
    broker.start()
    assert is_spared()
    output("topics", "create", "views", *where)
    assert is_spared()
    with SimpleConsumer(broker.host, broker.port) as consumer, pytest.raises(WrongPartitionError):
        consumer.fetch("views", 3, 0)


def test_brokers_that_join_topics_do_not_join_one_that_is_deleted(tmp_path: Path) -> None:
    """While others still have it; made anew, it is joined as ever."""
    properties = {"join.topics": "true", "zk.sessiontimeout.ms": 2000}
    with LocalCluster(2, directory=tmp_path, properties=properties) as cluster:
        where = ("--zookeeper", cluster.zk_connect)
        for _ in range(2):
            output("topics", "create", "views", "--brokers", 0, *where)
            eventually(lambda: rows("topics", *where)[0]["brokers"] == 2, what="both brokers have the topic")
            assert len(rows("topics", "delete", "views", "--yes", *where)) == 2
            assert rows("topics", *where) == []


def test_brokers_that_join_topics_leave_one_with_an_exact_number(tmp_path: Path) -> None:
    """New and restarted brokers, too. They join a topic that was deleted and created again without a number."""
    properties = {"join.topics": "true", "zk.sessiontimeout.ms": 2000, "num.partitions": 2}
    with LocalCluster(2, directory=tmp_path, properties=properties) as cluster:
        where = ("--zookeeper", cluster.zk_connect)
        output("topics", "create", "exact", "--partitions", 1, *where)
        cluster.add_broker()
        cluster.brokers[0].stop()
        cluster.brokers[0].start()
        output("topics", "create", "joined", "--brokers", 0, *where)
        eventually(lambda: rows("topics", *where)[1]["brokers"] == 3, what="all brokers have the other topic")
        assert rows("topics", *where)[0] == {"topic": "exact", "brokers": 1, "partitions": 1}
        rows("topics", "delete", "exact", "--yes", *where)
        output("topics", "create", "exact", "--brokers", 0, *where)
        eventually(lambda: rows("topics", *where)[0]["partitions"] == 6, what="all brokers have it")


def test_brokers_of_07_are_left_as_they_are(two_brokers: LocalCluster) -> None:
    """A broker that takes no requests is named, with what is to be done, and the exit status is 1."""
    where = ("--zookeeper", two_brokers.zk_connect)
    take_no_requests(two_brokers, 1)
    grown = run("topics", "grow", "views", "--per-broker", 2, *where)
    assert grown.returncode == 1
    assert "add views:2 to topic.partition.count.map" in grown.stdout
    assert "topic views has not grown on broker 1" in grown.stderr
    assert rows("topics", *where) == [{"topic": "views", "brokers": 2, "partitions": 3}]
    deleted = run("topics", "delete", "views", "--yes", *where)
    assert deleted.returncode == 1
    assert "remove views-* from its log.dir" in deleted.stdout
    assert rows("topics", *where) == [{"topic": "views", "brokers": 1, "partitions": 1}]


def test_a_broker_that_does_not_do_it_is_named(two_brokers: LocalCluster) -> None:
    """After a time the request is withdrawn, so that it does not happen later, when nobody expects it."""
    second = two_brokers.brokers[1]
    with connect(two_brokers.zk_connect) as client:
        second.pause()
        found = grow_topic(client, "views", per_broker=2, timeout_s=1)
        assert [change.is_done for change in found] == [True, False]
        assert "has not said within 1 s" in found[1].outcome
        assert RequestRegistry(client).placed(1) == {}
        second.resume()


def test_a_broker_that_does_not_create_a_topic_in_time_does_not_do_it_later(
    two_brokers: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one deletes what it has made, and this one deletes it when it goes on."""
    monkeypatch.setattr("kafka2011.admin.exact_creation.UNDO_TIMEOUT_S", 1.0)
    second = two_brokers.brokers[1]
    with connect(two_brokers.zk_connect) as client:
        second.pause()
        with pytest.raises(KafkaError, match=r"broker 1 has not created topic late: .*; not deleted yet: broker 1"):
            create_topic(client, "late", partitions=4, timeout_s=1)
        assert BrokerRegistry(client).topics() == ["views"]
        assert not list(two_brokers.brokers[0].log_dir.glob("late-*"))
        second.resume()
        eventually(lambda: RequestRegistry(client).placed(1) == {}, what="the broker has gone on")
        assert not list(second.log_dir.glob("late-*"))
        create_topic(client, "late", partitions=4)


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
