"""Fixtures: one Spark session and two brokers for all tests, and a topic of its own for each."""

from __future__ import annotations

import os
import sys
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import SparkSession

from integration.jvm_archives import LIGHT_JVM, SPARK_JVM_VARIABLE, spark_options
from kafka2011.admin.topics import create_topic
from kafka2011.consumer.simple_consumer import SimpleConsumer
from kafka2011.local_cluster import LocalCluster
from kafka2011.message.compression import Codec
from kafka2011.message.message_set import MessageSet
from kafka2011.producer.sync_producer import SyncProducer
from kafka2011.wire.protocol import LATEST
from tests.support.waiting import eventually
from zk.connecting import connect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from pyspark.sql import DataFrame

    from kafka2011.local_cluster import LocalBroker
    from zk.local_zookeeper import LocalZooKeeper

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
SEGMENT_BYTES = 20_000
PARTITIONS = 2

SESSION = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": f"{LIGHT_JVM} -Dlog4j2.configurationFile={(HERE / 'log4j2.properties').as_uri()}",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.stopTimeout": "60s",
}

_topics = count()


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Start one session, with the format found on PYTHONPATH and two more tries for a failed task."""
    with pytest.MonkeyPatch.context() as patch:
        # An installation that is editable hides top-level modules from Spark's search.
        patch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep))
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        builder = SparkSession.builder.master("local[2,3]").appName("kafka2011 tests")
        for key, value in SESSION.items():
            builder = builder.config(key, value)
        session = builder.getOrCreate()
        yield session
        session.stop()


@pytest.fixture
def light_spark() -> dict[str, str]:
    """Return the environment for programs that start a Spark of their own."""
    options = f"{spark_options()} -Dspark.ui.enabled=false"
    return {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", SPARK_JVM_VARIABLE: options}


@pytest.fixture(scope="session")
def cluster(zookeeper: LocalZooKeeper, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Start two brokers, in processes of their own, for all tests; tests that stop one add one."""
    properties = {
        "num.partitions": PARTITIONS,
        "log.file.size": SEGMENT_BYTES,
        "log.flush.interval": 1,
        "zk.sessiontimeout.ms": 2000,
    }
    with LocalCluster(
        2,
        zk_connect=f"{zookeeper.connect_string}/spark",
        directory=tmp_path_factory.mktemp("cluster"),
        properties=properties,
    ) as running:
        yield running


@pytest.fixture
def topic() -> str:
    """Give a topic's name that no other test uses; nobody has it yet."""
    return f"topic-{next(_topics)}"


def _running(cluster: LocalCluster) -> list[LocalBroker]:
    return [broker for broker in cluster.brokers.values() if broker.running]


@pytest.fixture
def create(cluster: LocalCluster) -> Callable[..., None]:
    """Make a topic on brokers, all that run by default."""

    def make(topic: str, brokers: Iterable[LocalBroker] | None = None) -> None:
        with connect(cluster.zk_connect) as client:
            create_topic(client, topic, [broker.broker_id for broker in brokers or _running(cluster)])

    return make


@pytest.fixture
def publish() -> Callable[..., int]:
    """Append payloads to one partition as one set, wait until they can be read, and return the new end."""

    def append(
        broker: LocalBroker, topic: str, payloads: list[bytes], partition: int = 0, codec: Codec = Codec.NONE
    ) -> int:
        messages = MessageSet(payloads, codec)
        with SimpleConsumer(broker.host, broker.port) as consumer, SyncProducer(broker.host, broker.port) as producer:

            def end() -> int:
                return consumer.get_offsets_before(topic, partition, LATEST)[0]

            expected = end() + len(bytes(messages))
            producer.send(topic, messages, partition)
            eventually(lambda: end() >= expected)
            return end()

    return append


def given(cluster: LocalCluster, options: Mapping[str, object]) -> dict[str, str]:
    """Return options as text, with the tests' own ZooKeeper; a None takes one away."""
    every = {"zk.connect": cluster.zk_connect, **options}
    return {key: str(value) for key, value in every.items() if value is not None}


@pytest.fixture
def stream(spark: SparkSession, cluster: LocalCluster) -> Callable[..., DataFrame]:
    """Load a stream of a topic from its beginning; a None among the options takes one away."""

    def load(topic: str, **options: object) -> DataFrame:
        every = {"subscribe": topic, "startingOffsets": "earliest"} | options
        return spark.readStream.format("kafka2011").options(**given(cluster, every)).load()

    return load


@pytest.fixture
def read(spark: SparkSession, cluster: LocalCluster) -> Callable[..., DataFrame]:
    """Load a batch of a topic; a None among the options takes one away."""

    def load(topic: str, **options: object) -> DataFrame:
        return spark.read.format("kafka2011").options(**given(cluster, {"subscribe": topic} | options)).load()

    return load
