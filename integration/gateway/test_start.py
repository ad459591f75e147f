"""A gateway that starts, and clients that do not wait for it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import confluent_kafka
import gevent
import pytest
from gevent import socket

from integration.gateway.today import read_partition
from kafka2011.admin.doctor.checks import gateways_without_files
from kafka2011.admin.doctor.examination import examine
from kafka2011.config.gateway import GatewayConfig
from kafka2011.errors import ConfigError
from kafka2011.gateway.cache_files import WARNING_INTERVAL_S
from kafka2011.gateway.server import GatewayServer
from kafka2011.local_cluster import LocalCluster
from tests.support.waiting import eventually
from zk.connecting import connect
from zk.gateways import GatewayRegistry

if TYPE_CHECKING:
    from pathlib import Path

    from zk.local_zookeeper import LocalZooKeeper

DEADLINE_S = 20.0
API_VERSIONS = bytes.fromhex("0012 0000 00000007 ffff")  # of version 0, without a client's name


def test_a_client_that_connects_during_the_start_is_answered_after_it(
    zookeeper: LocalZooKeeper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    config = GatewayConfig(zk_connect=zookeeper.connect_string, directory=tmp_path, port=0, metrics_port=-1)
    server = GatewayServer(config)
    node_id = GatewayRegistry.node_id  # in which it waits for ZooKeeper, with its port bound
    early = socket.socket()

    def connect_meanwhile(registry: GatewayRegistry, host: str, port: int) -> int:
        early.connect(("127.0.0.1", server.port))
        early.sendall(len(API_VERSIONS).to_bytes(4) + API_VERSIONS)
        for _ in range(50):  # rounds of the event loop, in which it would be served
            gevent.sleep(1e-6)
        return node_id(registry, host, port)

    monkeypatch.setattr(GatewayRegistry, "node_id", connect_meanwhile)
    with gevent.Timeout(DEADLINE_S), caplog.at_level(logging.ERROR), early, server:
        size = int.from_bytes(early.recv(4, socket.MSG_WAITALL))
        assert early.recv(size, socket.MSG_WAITALL)[:6] == API_VERSIONS[4:8] + bytes(2)
    assert not caplog.records


def test_a_directory_belongs_to_one_gateway_at_a_time(zookeeper: LocalZooKeeper, tmp_path: Path) -> None:
    """A second one is refused while the first one runs, and starts after it has stopped."""
    config = GatewayConfig(zk_connect=zookeeper.connect_string, directory=tmp_path, port=0, metrics_port=-1)
    with gevent.Timeout(DEADLINE_S):
        with GatewayServer(config):
            second = GatewayServer(config)
            with pytest.raises(ConfigError, match=f"directory {tmp_path} is in use by another gateway"):
                second.start()
            second.stop()
        with GatewayServer(config) as third:
            assert third.port


def test_a_gateway_without_a_directory_serves(zk_connect: str, tmp_path: Path) -> None:
    """It warns once a minute, and `doctor` says so."""
    (tmp_path / "gateway").mkdir()
    (tmp_path / "gateway" / "numbers").touch()  # where its directory would be
    with LocalCluster(1, zk_connect=zk_connect, directory=tmp_path, gateway=True) as cluster:
        assert cluster.gateway is not None
        producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap_servers})
        failures: list[object] = []
        for number in range(100):
            producer.produce("views", b"%d" % number, on_delivery=lambda error, _: failures.append(error))
        assert producer.flush(DEADLINE_S) == 0
        assert failures == [None] * 100
        assert len(read_partition(cluster.bootstrap_servers, "views", 0)) == 100

        client = connect(zk_connect, 6000)
        try:
            eventually(lambda: [*gateways_without_files(examine(client, zk_connect))], DEADLINE_S)
        finally:
            client.shutdown()
        assert cluster.gateway.output().count(b"cannot be read or written") <= 1 + DEADLINE_S // WARNING_INTERVAL_S
