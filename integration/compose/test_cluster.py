"""A cluster as its users have it: up, topics, both directions, faults under load, growth, down and up again."""

from __future__ import annotations

import json
import threading
import urllib.request
from itertools import islice
from typing import TYPE_CHECKING

import confluent_kafka
import pytest

from integration.compose.clusters import run_here
from integration.gateway.today import idempotent_producer
from kafka2011 import ConsumerConnector, Producer
from tests.support.waiting import eventually
from zk.four_letters import mode_of

if TYPE_CHECKING:
    from concurrent.futures import Future
    from pathlib import Path

    from integration.compose.clusters import ComposeCluster
    from kafka2011.producer.batch import Receipt

# The first of them waits for the images.
pytestmark = pytest.mark.timeout(600)

MEMBER_SETTINGS = {"fetcher.backoff.ms": 50, "rebalance.backoff.ms": 1000, "consumer.timeout.ms": 60_000}


def described(cluster: ComposeCluster, topic: str) -> list[dict[str, str | int]]:
    found: list[dict[str, str | int]] = json.loads(
        run_here(["topics", "describe", topic, "--json"], cluster.zk_connect)
    )
    return found


def brokers_of(cluster: ComposeCluster, topic: str, *, with_messages: bool = False) -> set[int]:
    """Return the brokers that have partitions of a topic, or messages in them."""
    return {
        int(str(partition["partition"]).partition("-")[0])
        for partition in described(cluster, topic)
        if not with_messages or int(partition["latest"] or 0) > 0
    }


def consume_here(cluster: ComposeCluster, topic: str, count: int, group: str = "reports") -> list[str]:
    arguments = ["consume", "--topic", topic, "--group", group, "--from-beginning"]
    return run_here(
        [*arguments, "--max-messages", str(count), "--timeout-ms", "60000"], cluster.zk_connect
    ).splitlines()


def consume_inside(cluster: ComposeCluster, topic: str, count: int, group: str) -> list[str]:
    arguments = ["consume", "--topic", topic, "--group", group, "--from-beginning"]
    return cluster.run([*arguments, "--max-messages", str(count), "--timeout-ms", "60000"]).splitlines()


def test_it_is_up(cluster: ComposeCluster) -> None:
    """Three brokers are registered, and answer clients on the host and beside them at the same addresses."""
    arguments = ["ping", "--json", "--zookeeper"]
    here = json.loads(run_here([*arguments, cluster.zk_connect], cluster.zk_connect))
    assert len(here) == 3
    inside = json.loads(cluster.run(["ping", "--json", *(str(answer["address"]) for answer in here)]))
    for answers in (here, inside):
        assert [answer["error"] for answer in answers] == [None] * 3


def test_messages_are_worked_on_in_c(cluster: ComposeCluster) -> None:
    """The image has the C code, whichever way it was built."""
    assert "(messages in C, " in cluster.run(["--version"])


def test_a_topic_made_inside_is_seen_outside(cluster: ComposeCluster) -> None:
    """`topics create` beside the brokers spreads a topic over all of them; a client on the host sees it."""
    cluster.run(["topics", "create", "spread"])
    assert brokers_of(cluster, "spread") == set(cluster.broker_ids)
    assert len(described(cluster, "spread")) == 6


def test_both_directions(cluster: ComposeCluster) -> None:
    """What is produced on the host is consumed inside, and what is produced inside is consumed on the host."""
    run_here(["produce", "outward", "--zookeeper", cluster.zk_connect], cluster.zk_connect, b"one\ntwo\nthree\n")
    assert sorted(consume_inside(cluster, "outward", 3, "inside")) == ["one", "three", "two"]
    cluster.run(["produce", "inward"], b"four\nfive\n")
    assert sorted(consume_here(cluster, "inward", 2)) == ["five", "four"]


@pytest.mark.parametrize("cluster", ["compose-2"], indirect=True)
def test_kill_9_of_a_broker_under_confirmed_produce(cluster: ComposeCluster) -> None:
    """Everything that was confirmed is delivered, although a broker was killed meanwhile; the broker comes back."""
    victim = cluster.broker_ids[1]
    run_here(["topics", "create", "confirmed"], cluster.zk_connect)
    stop = threading.Event()
    settings = {"zk.connect": cluster.zk_connect, "producer.type": "async", "confirm": "true", "queue.time": 20}
    sent: list[Future[object]] = []
    with Producer(settings) as producer:

        def send() -> None:
            while not stop.wait(0.002):
                sent.append(producer.send("confirmed", b"%d" % len(sent)))  # type: ignore[arg-type]

        sending = threading.Thread(target=send)
        sending.start()
        try:
            eventually(lambda: victim in brokers_of(cluster, "confirmed", with_messages=True))
            before = len(sent)
            cluster.kill_broker(victim)
            eventually(lambda: producer.counts.broken_connections > 0, what="the loss of the connection")
            cluster.revive_broker(victim)
            eventually(lambda: len(sent) > before + 500)
        finally:
            stop.set()
            sending.join()
        for future in sent:
            future.result(60)
    assert "the last stop was not clean" in cluster.output_of(victim)
    got: set[int] = set()
    with ConsumerConnector({"zk.connect": cluster.zk_connect, "groupid": "count", **MEMBER_SETTINGS}) as consumer:
        [stream] = consumer.create_message_streams({"confirmed": 1})["confirmed"]
        for message in stream:
            got.add(int(message.payload))
            if len(got) == len(sent):
                break
    assert got == set(range(len(sent)))


def test_the_demo_becomes_healthy(cluster: ComposeCluster) -> None:
    """A producer and two members of a group start, report their health, and everything moves."""
    cluster.watch()
    try:
        eventually(lambda: len(owners(cluster, "reports")) == 2, what="a partition for each member")
        assert len(consume_here(cluster, "activity", 20, "spectators")) == 20
    finally:
        cluster.end_watch()


@pytest.mark.parametrize("cluster", ["compose-2"], indirect=True)
def test_producers_work_through_the_load_balancer(cluster: ComposeCluster) -> None:
    """Confirmed sends through its one address reach all brokers, since reconnecting spreads them anew."""
    cluster.add_balancer()
    run_here(["topics", "create", "balanced"], cluster.zk_connect)
    settings = {
        "broker.list": f"0:{cluster.host}:{cluster.balancer_port}",
        "producer.type": "async",
        "confirm": True,
        "queue.time": 1,
        "reconnect.interval": 10,
    }
    sent: list[Future[Receipt]] = []
    with Producer(settings) as producer:

        def reaches_all() -> bool:
            sent.extend(producer.send("balanced", b"%d" % number) for number in range(len(sent), len(sent) + 20))
            return brokers_of(cluster, "balanced", with_messages=True) == set(cluster.broker_ids)

        eventually(reaches_all, what="messages on all brokers")
        assert all(future.result(60).confirmed for future in sent)
    got = consume_here(cluster, "balanced", len(sent), "balanced")
    assert sorted(got, key=int) == [str(number) for number in range(len(sent))]


def owners(cluster: ComposeCluster, group: str) -> set[str]:
    """Return the streams that own a group's partitions."""
    found = json.loads(run_here(["groups", "--group", group, "--json"], cluster.zk_connect))
    return {partition["owner"] for partition in found if partition["owner"]}


@pytest.mark.parametrize("cluster", ["compose-2"], indirect=True)
def test_the_cluster_is_shown_in_a_browser(cluster: ComposeCluster) -> None:
    """The console answers browsers of this host, and its picture has all brokers."""
    cluster.add_ui()
    try:
        address = f"http://{cluster.host}:{cluster.ui_port}"
        with urllib.request.urlopen(f"{address}/", timeout=60) as page:
            assert b"kafka2011" in page.read()
        with urllib.request.urlopen(f"{address}/events", timeout=60) as events:
            shown = (json.loads(line[6:]) for line in events if line.startswith(b"data: "))
            pictures = (each["brokers"] for each in islice(shown, 100) if each and "brokers" in each)
            assert any({broker["id"] for broker in each} >= set(cluster.broker_ids) for each in pictures)
    finally:
        cluster.end_ui()


@pytest.mark.parametrize("cluster", ["compose-1"], indirect=True)
def test_clients_of_today_use_the_gateway(cluster: ComposeCluster) -> None:
    """Those on the host and 0.7's beside the brokers read what either has sent."""
    cluster.add_gateway()
    try:
        servers = f"{cluster.host}:{cluster.gateway_port}"
        sent = [f"{number}" for number in range(30)]
        producer = idempotent_producer(servers)
        for text in sent:
            producer.produce("gated", text, key=text)
        assert producer.flush(60) == 0
        assert sorted(consume_inside(cluster, "gated", len(sent), "inside"), key=int) == sent
        cluster.run(["produce", "gated"], b"2011\n")
        settings = {"bootstrap.servers": servers, "group.id": "outside", "auto.offset.reset": "earliest"}
        consumer = confluent_kafka.Consumer(settings)
        consumer.subscribe(["gated"])
        read: list[str] = []

        def has_all() -> bool:
            read.extend((message.value() or b"").decode() for message in consumer.consume(100, 0.5))
            return len(read) > len(sent)

        eventually(has_all, what="what either has sent")
        consumer.close()
        assert sorted(read, key=int) == [*sent, "2011"]
    finally:
        cluster.end_gateway()


@pytest.mark.parametrize("cluster", ["compose-2"], indirect=True)
def test_the_secure_cluster_is_met_with_a_certificate_only(cluster: ComposeCluster, tmp_path: Path) -> None:
    """Its own client works, beside it and on the host; nobody gets in without a password, a certificate, or a rule."""
    cluster.add_secure()
    try:
        cluster.secure_run(["produce", "closed"], b"one\ntwo\n")
        consume = ["consume", "--topic", "closed", "--from-beginning", "--max-messages", "2", "--group"]
        assert sorted(cluster.secure_run([*consume, "inside"]).split()) == ["one", "two"]

        cluster.files_of("secure-broker-1", "/etc/kafka2011", tmp_path)
        security = tmp_path / "security.toml"
        security.write_text(security.read_text().replace("/etc/kafka2011", str(tmp_path)))
        security.chmod(0o600)
        zookeeper = f"{cluster.host}:{cluster.secure_zookeeper_port}"
        ours = f"{zookeeper}?security={security}"
        assert sorted(run_here([*consume, "outside", "--timeout-ms", "60000"], ours).split()) == ["one", "two"]
        brokers = [str(row["address"]) for row in json.loads(run_here(["ping", "--json", "--zookeeper", ours], ours))]
        assert len(brokers) == 2

        for broker in brokers:
            with pytest.raises(AssertionError, match="ping"):
                run_here(["ping", broker], ours)
            run_here(["ping", broker, "--security", str(security)], ours)
        without = tmp_path / "without.toml"
        without.write_text(f'[zookeeper]\ntls = true\nca = "{tmp_path}/ca.pem"\n')
        for other in (zookeeper, f"{zookeeper}?security={without}"):
            with pytest.raises(AssertionError, match="topics list"):
                run_here(["topics", "list"], other)

        cluster.write_rules("[produce]\n[consume]\n")
        eventually(lambda: is_refused(ours), what="the new rules")
    finally:
        cluster.end_secure()


def is_refused(zk_connect: str) -> bool:
    """Say whether we may not read the topic `closed` any more."""
    try:
        run_here(["fetch", "closed"], zk_connect)
    except AssertionError:
        return True
    return False


@pytest.mark.parametrize("cluster", ["compose-1"], indirect=True)
def test_a_replica_takes_over_from_one_whose_disk_is_lost(cluster: ComposeCluster) -> None:
    """What was confirmed is there, at another address under the same id; and the first comes back with everything."""
    cluster.add_replicated()
    try:
        here = f"{cluster.zk_connect}/replicated"
        eventually(lambda: in_sync(here) == {"a": "leader", "b": "follower", "c": "follower"}, what="all in sync")
        cluster.replicated_run(["produce", "copied"], b"one\ntwo\n")
        cluster.lose_replica_a()
        eventually(lambda: sorted(in_sync(here).values()) == ["follower", "leader"], what="another leader")
        consume = ["consume", "--topic", "copied", "--from-beginning", "--max-messages", "2", "--group"]
        assert sorted(run_here([*consume, "outside", "--timeout-ms", "60000"], here).split()) == ["one", "two"]
        cluster.start_replica_a()
        eventually(lambda: in_sync(here).get("a") == "follower", what="the first one in sync again")
        cluster.replicated_run(["produce", "copied"], b"three\n")
        assert len(cluster.replicated_run([*consume[:-2], "3", "--group", "inside"]).split()) == 3
    finally:
        cluster.end_replicated()


def in_sync(zk_connect: str) -> dict[str, str]:
    """Return the names of the replicas in sync, and what each does."""
    rows = json.loads(run_here(["replicas", "--json"], zk_connect))
    return {row["replica"]: row["role"] for row in rows if row["in_sync"]}


@pytest.mark.parametrize("cluster", ["compose-1"], indirect=True)
def test_one_zookeeper_server_stops(cluster: ComposeCluster) -> None:
    """The ensemble goes on without its leader: topics are made, members join, messages come through."""
    [leader] = [number for number, mode in enumerate(modes(cluster), 1) if mode == "leader"]
    cluster.stop_zookeeper(leader)
    eventually(lambda: sorted(modes(cluster)) == ["", "follower", "leader"], what="a new leader")
    run_here(["topics", "create", "without-one"], cluster.zk_connect)
    run_here(["produce", "without-one", "--zookeeper", cluster.zk_connect], cluster.zk_connect, b"six\n")
    assert consume_inside(cluster, "without-one", 1, "without-one") == ["six"]
    cluster.start_zookeeper(leader)
    assert sorted(modes(cluster)) == ["follower", "follower", "leader"]


def modes(cluster: ComposeCluster) -> list[str]:
    """Ask every ZooKeeper server for its mode; "" where it does not serve."""
    return [mode_of(cluster.host, port, 5) for port in cluster.zookeeper_ports]


def test_one_more_broker_takes_load(cluster: ComposeCluster) -> None:
    """A fourth broker joins a topic that is there, and a producer that runs all the time begins to use it."""
    run_here(["topics", "create", "grown", "--brokers", str(cluster.broker_ids[0])], cluster.zk_connect)
    assert brokers_of(cluster, "grown") == {cluster.broker_ids[0]}
    with Producer({"zk.connect": cluster.zk_connect}) as producer:
        producer.send("grown", b"before")
        added = cluster.add_broker()

        def is_used() -> bool:
            producer.send("grown", b"after")
            return added in brokers_of(cluster, "grown", with_messages=True)

        eventually(is_used, what="a message on the new broker")


def test_data_survives_down_and_up(cluster: ComposeCluster) -> None:
    """After a stop in order, messages and a group's offsets are there again; nothing had to be recovered."""
    run_here(["produce", "kept", "--zookeeper", cluster.zk_connect], cluster.zk_connect, b"seven\neight\n")
    first = consume_here(cluster, "kept", 1, "half")
    cluster.stop()
    cluster.use_names()
    cluster.start()
    rest = consume_inside(cluster, "kept", 1, "half")
    assert sorted(first + rest) == ["eight", "seven"]
    assert sorted(consume_inside(cluster, "kept", 2, "again")) == ["eight", "seven"]
    for broker_id in cluster.broker_ids:
        assert "the last stop was not clean" not in cluster.output_of(broker_id)
