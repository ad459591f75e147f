"""A cluster and a gateway that a suite is run against, with the certificates that its tests expect."""

from __future__ import annotations

import shutil
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from kafka2011.certificates import Authority
from kafka2011.local_cluster import LocalCluster, LocalGateway
from zk.connecting import connect
from zk.gateways import GatewayRegistry
from zk.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

START_S = 60.0
POLL_S = 0.05


class Served(NamedTuple):
    """Addresses of a running gateway and of its ZooKeeper."""

    host: str
    port: int
    tls_port: int
    zk_connect: str
    certificates: Path
    """The folder of ca.crt, and of client.crt and client.key, which the gateway has too."""

    @property
    def servers(self) -> str:
        """The bootstrap servers."""
        return f"{self.host}:{self.port}"


@contextmanager
def serve(directory: Path, brokers: int, partitions: int, port: int, settings: Mapping[str, str]) -> Iterator[Served]:
    """Run brokers with a number of partitions each, and a gateway with these settings that listens on `port`."""
    certificates = directory / "certificates"
    authority = Authority(certificates)
    issued = authority.issue("localhost", ["localhost", "127.0.0.1"])
    named = {"ca.crt": authority.ca, "client.crt": issued.certificate, "client.key": issued.key}
    for name, path in named.items():
        shutil.copy(path, certificates / name)
    properties = {"num.partitions": partitions, "log.default.flush.scheduler.interval.ms": 100}
    with LocalCluster(brokers, directory=directory, properties=properties) as cluster:
        tls_port = free_port()
        own = {
            "zk.connect": cluster.zk_connect,
            "port": str(port),
            "tls.port": str(tls_port),
            "tls.certificate": str(issued.certificate),
            "tls.key": str(issued.key),
            **settings,
        }
        with LocalGateway(directory / "gateway", own) as gateway:
            _await_claims(cluster)
            yield Served(gateway.host, gateway.port, tls_port, cluster.zk_connect, certificates)


def _await_claims(cluster: LocalCluster) -> None:
    """Wait until the gateway serves all brokers."""
    deadline_s = time.monotonic() + START_S
    with connect(cluster.zk_connect) as client:
        while missing := cluster.brokers.keys() - GatewayRegistry(client).claims().keys():
            assert time.monotonic() < deadline_s, f"no gateway serves the brokers {sorted(missing)}"
            time.sleep(POLL_S)
