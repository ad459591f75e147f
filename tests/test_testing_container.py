"""What Kafka2011Container has testcontainers run, without a container engine: integration/compose has one."""

from __future__ import annotations

from typing import Any, Self

import pytest
import testcontainers.core.container

from kafka2011.errors import KafkaError
from kafka2011.testing import Kafka2011Container


class RecordedContainer:
    """Notes what it is told, and is ready at once."""

    def __init__(self, image: str) -> None:
        self.image = image
        self.ports: dict[int, int] = {}
        self.command: list[str] = []

    def with_exposed_ports(self, *_ports: int) -> Self:
        return self

    def with_bind_ports(self, inside: int, outside: int) -> None:
        self.ports[inside] = outside

    def with_kwargs(self, **_options: Any) -> None: ...

    def with_command(self, command: list[str]) -> Self:
        self.command = command
        return self

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def exec(self, _command: list[str]) -> None: ...

    def get_logs(self) -> tuple[bytes, bytes]:
        return b"\nready; ", b""

    def get_container_host_ip(self) -> str:
        return "engine.example"


@pytest.fixture(autouse=True)
def _recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(testcontainers.core.container, "DockerContainer", RecordedContainer)


def test_a_gateway_has_the_port_after_the_brokers() -> None:
    """Inside and outside, as it tells clients one address."""
    with Kafka2011Container("image", brokers=2, gateway=True) as cluster:
        made: Any = cluster.container
        host, _, text = cluster.bootstrap_servers.rpartition(":")
        port = int(text)
    assert host == "engine.example"
    assert made.ports == {number: number for number in (port - 2, port - 1, port)}
    assert {f"--port={port - 2}", "--gateway", f"--gateway-port={port}"} <= set(made.command)


def test_without_a_gateway_there_is_no_address_for_clients_of_today() -> None:
    with Kafka2011Container("image") as cluster:
        made: Any = cluster.container
        with pytest.raises(KafkaError, match="gateway=True"):
            _ = cluster.bootstrap_servers
    assert len(made.ports) == 1
    assert "--gateway" not in made.command
