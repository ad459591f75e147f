"""A cluster of a student's broker, one of ours and a gateway, which find each other in ZooKeeper."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kafka2011.errors import KafkaError
from kafka2011.lab.connection import connect_when_ready
from kafka2011.lab.coordination import TOPIC, Registries, registries
from kafka2011.lab.errors import SkippedError, WrongError
from kafka2011.local_cluster import LocalCluster
from kafka2011.producer.sync_producer import SyncProducer
from zk.errors import ZkError
from zk.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafka2011.lab.program import ProgramRun, StudentProgram

BROKER_ID, PARTITIONS = 1, 2
_SESSION_MS = 2500
_SHOWN_MESSAGES = 10


@dataclass
class ClusteredBroker:
    """A student's broker that is told where ZooKeeper is. `data` is its directory, and stays between starts."""

    program: StudentProgram
    zk_connect: str
    data: Path
    port: int = 0
    _run: ProgramRun | None = None

    @property
    def run(self) -> ProgramRun:
        """The program's process."""
        assert self._run is not None
        return self._run

    def start(self) -> None:
        """Start the program on a new port, and wait until it listens. Raises WrongError."""
        self.port = free_port()
        arguments = (
            "broker",
            f"port={self.port}",
            f"data={self.data}",
            f"partitions={PARTITIONS}",
            f"id={BROKER_ID}",
            f"zookeeper={self.zk_connect}",
            f"session-ms={_SESSION_MS}",
        )
        self._run = self.program.start(arguments, self.data)
        connection = connect_when_ready(self.port, lambda: self.run.running)
        if connection is None:
            what = self.run.describe_end() or f"Your program does not listen on port {self.port} of 127.0.0.1."
            raise WrongError(what)
        connection.close()

    def end(self) -> None:
        """Kill the program, if it runs."""
        if self._run is not None:
            self._run.end()


@contextmanager
def filled_cluster(program: StudentProgram) -> Iterator[tuple[LocalCluster, ClusteredBroker]]:
    """Run a student's broker in a cluster whose topic `views` has messages on both brokers.

    Raises SkippedError where the cluster cannot run, and WrongError where the program does not start or register.
    """
    with (
        tempfile.TemporaryDirectory(prefix="kafka2011-lab-", ignore_cleanup_errors=True) as directory,
        cluster_with(program, Path(directory)) as (cluster, zookeeper, broker),
    ):
        broker.start()
        path = f"/brokers/ids/{BROKER_ID}"
        zookeeper.wait(lambda: zookeeper.read(path) is not None, lambda: f"{path} does not exist.", broker.run)
        ours = cluster.brokers[0]
        for whose, host, port in (("yours", "127.0.0.1", broker.port), ("ours", ours.host, ours.port)):
            with SyncProducer(host, port) as producer:
                producer.send(TOPIC, [f"{whose}, message {number}".encode() for number in range(_SHOWN_MESSAGES)], 0)
        yield cluster, broker


@contextmanager
def cluster_with(
    program: StudentProgram, directory: Path
) -> Iterator[tuple[LocalCluster, Registries, ClusteredBroker]]:
    """Run ZooKeeper, broker 0 of ours and a gateway; a student's broker beside them is not started yet.

    Raises SkippedError where they cannot run.
    """
    data = directory / "data"
    data.mkdir()
    with registries() as zookeeper:
        properties = {"num.partitions": PARTITIONS}
        cluster = LocalCluster(
            1, zk_connect=zookeeper.connect_string, directory=directory / "ours", properties=properties, gateway=True
        )
        broker = ClusteredBroker(program, zookeeper.connect_string, data)
        try:
            try:
                cluster.start()
            except (KafkaError, ZkError) as error:
                raise SkippedError(f"no cluster can be started on this machine: {error}") from error
            yield cluster, zookeeper, broker
        finally:
            broker.end()
            cluster.close()
