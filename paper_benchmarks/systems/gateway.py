"""The gateway in front of a broker of ours: measured by the clients of today that Kafka 4 is measured by."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kafka2011 import __version__
from kafka2011.local_cluster import LocalCluster
from paper_benchmarks.measuring.usage import with_children
from paper_benchmarks.systems import kafka
from paper_benchmarks.systems.kafka2011 import AS_SHIPPED, OWN
from paper_benchmarks.systems.local_server import missing_modules, own_directory
from paper_benchmarks.systems.system import Kind, System

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

_DURABILITY = "fsynced and readable, then acknowledged"


class Gateway(System):
    """A gateway and its broker, whose processes count together."""

    def __init__(self, cluster: LocalCluster) -> None:
        host, _, port = cluster.bootstrap_servers.rpartition(":")
        super().__init__("gateway", __version__, host, int(port), {"durability": _DURABILITY}, cluster.directory)
        self._cluster = cluster

    def server(self) -> dict[str, Any]:
        """Return address, and what Kafka's own tools are run from, where they are."""
        return {**super().server(), **kafka.tools()}

    def count(self, topic: str) -> int:
        """Ask for the first and the last offset of the topic's one partition."""
        return kafka.count_offsets(self, topic)

    def pids(self) -> list[int]:
        """Return the processes of both."""
        assert self._cluster.gateway is not None
        servers = (self._cluster.brokers[0], self._cluster.gateway)
        return [pid for server in servers for pid in with_children(server.process.pid)]


@contextmanager
def _start(directory: Path, settings: Mapping[str, object] = AS_SHIPPED) -> Iterator[System]:
    with (
        own_directory(directory) as base,
        LocalCluster(1, directory=base, properties=settings, gateway=True) as cluster,
    ):
        yield Gateway(cluster)


_HAS_TOOLS = kafka.version_of(kafka.JARS) is not None
"""Whether Kafka's own tools are there. Its consumer is left out: it needs a topic that is filled for minutes."""

KIND = Kind(
    name="gateway",
    title="kafka2011 by its gateway",
    driver=kafka.KIND.driver,
    lines=tuple(line for line in kafka.KIND.lines if not line.tool or (_HAS_TOOLS and line.do == "produce")),
    start=_start,
    filler=kafka.KIND.filler,
    topic_messages=kafka.KIND.topic_messages,
    missing=lambda: missing_modules("confluent_kafka"),
    asked=True,
)


def beside(kinds: Iterable[Kind]) -> dict[str, Kind]:
    """Return ours, Kafka 4 where it is among the kinds, and the gateway where it can run, by their names."""
    found = {kind.name: kind for kind in kinds if kind.name in {OWN, kafka.KIND.name}}
    return found if KIND.missing() else {**found, KIND.name: KIND}
