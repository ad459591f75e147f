"""Topics that today's clients create have exactly the partitions that they ask for, whatever brokers are set to."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from integration.gateway.today import silent
from kafka2011.admin.exact_creation import TopicExistsError
from kafka2011.admin.topics import create_topic
from kafka2011.local_cluster import LocalCluster
from tests.support.waiting import eventually
from zk.brokers import BrokerRegistry
from zk.connecting import connect
from zk.partition_counts import PartitionCountRegistry
from zk.requests import UNDO, RequestKind, RequestRegistry, TopicRequest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from zk.local_zookeeper import LocalZooKeeper

ASKED = (1, 3, 4, 7)


@pytest.fixture(scope="module", params=[(1, 1), (1, 4), (3, 1), (3, 4)], ids=lambda each: "{}x{}".format(*each))
def cluster(
    request: pytest.FixtureRequest, zookeeper: LocalZooKeeper, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LocalCluster]:
    """Start brokers that make a number of partitions of a topic by their settings, and join topics of others."""
    brokers, partitions = request.param
    directory: Path = tmp_path_factory.mktemp("cluster")
    with LocalCluster(
        brokers,
        zk_connect=f"{zookeeper.connect_string}/numbers-{brokers}-{partitions}",
        directory=directory,
        properties={"num.partitions": partitions, "join.topics": "true"},
        gateway=True,
    ) as made:
        yield made


@pytest.fixture
def num_partitions(request: pytest.FixtureRequest) -> int:
    return int(request.node.callspec.params["cluster"][1])


@pytest.fixture
def admin(cluster: LocalCluster) -> AdminClient:
    return new_admin(cluster)


def new_admin(cluster: LocalCluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "logger": silent()})


def create(admin: AdminClient, topic: str, partitions: int) -> None:
    admin.create_topics([NewTopic(topic, partitions)])[topic].result()


def described(admin: AdminClient) -> dict[str, int]:
    return {name: len(topic.partitions) for name, topic in admin.list_topics(timeout=10).topics.items()}


def test_a_topic_has_exactly_the_partitions_asked_for(cluster: LocalCluster, admin: AdminClient) -> None:
    """The client is told that number, brokers have registered it, and it stays after a restart of a broker.

    They are spread evenly.
    """
    wanted = {f"views-{number}": number for number in ASKED}
    for topic, partitions in wanted.items():
        create(admin, topic, partitions)
        assert described(admin)[topic] == partitions
    with connect(cluster.zk_connect, 10_000) as client:
        registry = BrokerRegistry(client)
        counts = registry.partitions_of_many(wanted)
        assert {topic: sum(of_topic.values()) for topic, of_topic in counts.items()} == wanted
        brokers = len(cluster.brokers)
        for topic, of_topic in counts.items():
            assert {wanted[topic] // brokers, -(-wanted[topic] // brokers)} >= set(of_topic.values())
        broker = cluster.brokers[0]
        broker.stop()
        broker.start()
        eventually(lambda: registry.partitions_of_many(wanted) == counts)
    assert described(admin) == wanted


def test_clients_see_a_new_topic_with_all_its_partitions_or_not_at_all(
    cluster: LocalCluster, admin: AdminClient
) -> None:
    """Clients see no topic while one of its brokers has not made its part: when a topic grows, keys move."""
    last, other = len(cluster.brokers) - 1, new_admin(cluster)  # answers on one connection are in order
    with connect(cluster.zk_connect, 10_000) as client, ThreadPoolExecutor(1) as threads:
        registry = BrokerRegistry(client)
        cluster.brokers[last].pause()
        try:
            created = threads.submit(create, admin, "seen", 7)
            eventually(lambda: len(registry.partitions_of("seen")) == last)
            if last:
                create_topic(client, "seen-later", [0])
                eventually(lambda: "seen-later" in described(other))
            assert "seen" not in described(other)
        finally:
            cluster.brokers[last].resume()
        created.result()
        assert described(admin)["seen"] == 7


def test_a_refused_creation_leaves_nothing(cluster: LocalCluster, admin: AdminClient) -> None:
    """One broker refuses because its disk has a log of that name; the others delete what they have made.

    Once the log is gone, the topic can be created.
    """
    stray = cluster.brokers[len(cluster.brokers) - 1].log_dir / "refused-6"
    stray.mkdir()
    with pytest.raises(KafkaException, match=r"has logs of topic refused already; nothing of it is left"):
        create(admin, "refused", 7)
    assert "refused" not in described(admin)
    assert [path for broker in cluster.brokers.values() for path in broker.log_dir.glob("refused-*")] == [stray]
    with connect(cluster.zk_connect, 10_000) as client:
        assert "refused" not in BrokerRegistry(client).topics()
        assert PartitionCountRegistry(client).counts("refused") == {}
        assert not any(RequestRegistry(client).placed(number) for number in cluster.brokers)
    stray.rmdir()
    create(admin, "refused", 7)
    assert described(admin)["refused"] == 7


def test_a_broker_of_an_older_release_makes_its_own_number_only(
    cluster: LocalCluster, admin: AdminClient, num_partitions: int
) -> None:
    """It is told from others by what it says in ZooKeeper. If its number does not fit, other brokers make the topic.

    Where there are none, nothing is changed.
    """
    with connect(cluster.zk_connect, 10_000) as client:
        path = "/requests/0"
        says, _ = client.get(path)
        client.set(path, b"")
        try:
            for topic, partitions in {f"old-{number}": number for number in (*ASKED, 12)}.items():
                if len(cluster.brokers) > 1 or partitions == num_partitions:
                    create(admin, topic, partitions)
                    assert described(admin)[topic] == partitions
                else:
                    with pytest.raises(KafkaException, match=r"0\.7 or an older release; nothing was created"):
                        create(admin, topic, partitions)
                    assert topic not in described(admin)
                    assert topic not in BrokerRegistry(client).topics()
        finally:
            client.set(path, says)


def test_of_those_who_create_a_topic_at_once_one_succeeds(cluster: LocalCluster) -> None:
    """It has that one's number of partitions. The others get an error, and take nothing of it away."""
    numbers = (5, 2, 6, 3)

    def create_one(partitions: int) -> int:
        with connect(cluster.zk_connect, 10_000) as client:
            try:
                return sum(created.partitions for created in create_topic(client, "raced", partitions=partitions))
            except TopicExistsError:
                return 0

    with ThreadPoolExecutor(len(numbers)) as threads:
        [made] = filter(None, threads.map(create_one, numbers))
    with connect(cluster.zk_connect, 10_000) as client:
        assert sum(BrokerRegistry(client).partitions_of("raced").values()) == made


def test_a_broker_that_starts_does_not_add_to_a_topic(cluster: LocalCluster, admin: AdminClient) -> None:
    """It was requested to create the topic for somebody who died, and has not done it before another creates it."""
    with connect(cluster.zk_connect, 10_000) as client:
        requests = RequestRegistry(client)
        requests.place(77, "abandoned", TopicRequest(RequestKind.CREATE, 2))
        client.create("/partition_counts/abandoned", makepath=True)
        create(admin, "abandoned", 1)
        assert described(admin)["abandoned"] == 1
        assert requests.placed(77)["abandoned"].request == UNDO


def test_a_topic_grows_to_exactly_the_partitions_asked_for(cluster: LocalCluster, admin: AdminClient) -> None:
    """It does not matter whether a number or the settings made the topic; partitions of brokers that are down count.

    A check alone changes nothing, and fewer than there are is refused.
    """
    create(admin, "growing", 1)
    with connect(cluster.zk_connect, 10_000) as client:
        create_topic(client, "by-settings", [0])
        registry = BrokerRegistry(client)
        eventually(lambda: len(registry.partitions_of("by-settings")) == len(cluster.brokers))
        for topic in ("growing", "by-settings"):
            eventually(lambda topic=topic: topic in described(admin))  # type: ignore[misc]
            for more in (1, 3):
                partitions = described(admin)[topic] + more
                grow(admin, topic, partitions, validate_only=True)
                assert described(admin)[topic] == partitions - more
                grow(admin, topic, partitions)
                assert described(admin)[topic] == partitions == sum(registry.partitions_of(topic).values())
                with pytest.raises(KafkaException, match="INVALID_PARTITIONS"):
                    grow(admin, topic, partitions)
        if len(cluster.brokers) > 1:
            broker = cluster.brokers[1]
            broker.stop()
            eventually(lambda: 1 not in registry.brokers())
            grow(admin, "growing", 8)
            broker.start()
            assert described(admin)["growing"] == 8 == sum(registry.partitions_of("growing").values())


def grow(admin: AdminClient, topic: str, partitions: int, *, validate_only: bool = False) -> None:
    admin.create_partitions([NewPartitions(topic, partitions)], validate_only=validate_only)[topic].result()


def test_a_check_alone_creates_nothing(cluster: LocalCluster, admin: AdminClient) -> None:
    admin.create_topics([NewTopic("checked", 3)], validate_only=True)["checked"].result()
    with pytest.raises(KafkaException, match="INVALID_PARTITIONS"):
        admin.create_topics([NewTopic("checked", 10_001)], validate_only=True)["checked"].result()
    with connect(cluster.zk_connect, 10_000) as client:
        assert "checked" not in BrokerRegistry(client).topics()


def test_a_topic_that_a_broker_of_07_has_is_not_deleted(cluster: LocalCluster, admin: AdminClient) -> None:
    """No broker deletes anything: a half-deleted topic would come back with the next look."""
    create(admin, "kept", 3)
    with connect(cluster.zk_connect, 10_000) as client:
        registry = BrokerRegistry(client)
        counts = registry.partitions_of("kept")
        path = f"/requests/{max(counts)}"
        says, _ = client.get(path)
        client.delete(path)
        with pytest.raises(KafkaException, match="TOPIC_DELETION_DISABLED"):
            admin.delete_topics(["kept"])["kept"].result()
        assert registry.partitions_of("kept") == counts
        assert not any(RequestRegistry(client).placed(number) for number in cluster.brokers)
        client.create(path, says)
        admin.delete_topics(["kept"])["kept"].result()
        assert "kept" not in registry.topics()
