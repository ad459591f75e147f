"""Fixtures for tests of applications: real clusters on this machine, which pytest finds where kafka2011 is installed.

    def test_clicks_arrive(kafka2011_cluster):
        with Producer({"zk.connect": kafka2011_cluster.zk_connect}) as producer:
            producer.send("clicks", b"one")

A test that wants other clusters than these makes a `LocalCluster` itself, or a `Kafka2011Container`.
"""

from __future__ import annotations

import importlib.metadata
import time
from itertools import count
from typing import TYPE_CHECKING, Self

import pytest

from kafka2011.errors import KafkaError, missing_extra
from zk.clock import SYSTEM_CLOCK
from zk.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from testcontainers.core.container import DockerContainer

    from kafka2011.local_cluster import LocalCluster
    from zk.local_zookeeper import LocalZooKeeper

__all__ = [
    "Kafka2011Container",
    "kafka2011_cluster",
    "kafka2011_gateway_cluster",
    "kafka2011_session_cluster",
    "kafka2011_zookeeper",
]

READY_TIMEOUT_S = 60.0
_READY = b"\nready; "
_PORT_TRIES = 5
_LOOK_S = 0.1
_ONCE_NAMED = (
    "until [ -e /tmp/hostname ]; do sleep 0.05; done;"
    ' exec kafka2011 cluster "$@" --override=hostname=$(cat /tmp/hostname)'
)
"""What the container runs: under which name clients reach it is known only once it was started."""
_ZOOKEEPER_PORT = 2181
_BROKERS = "kafka2011_brokers"
_PROPERTIES = "kafka2011_properties"
_chroots = count()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare what pytest's configuration may say of the clusters."""
    parser.addini(_BROKERS, "how many brokers a cluster of the fixtures has", default="1")
    parser.addini(_PROPERTIES, "settings of these brokers, a line each: name=value", type="linelist", default=[])


def pytest_configure(config: pytest.Config) -> None:
    """Check what it says. Raises pytest.UsageError."""
    _brokers(config)
    _properties(config)


@pytest.fixture(scope="session")
def kafka2011_zookeeper() -> Iterator[LocalZooKeeper]:
    """Start one ZooKeeper server for the whole run, which all clusters share; tests leave it running."""
    # Imported here, as every run of pytest imports this file.
    from zk.local_zookeeper import LocalZooKeeper  # noqa: PLC0415

    with LocalZooKeeper() as server:
        yield server


@pytest.fixture(scope="session")
def kafka2011_session_cluster(
    kafka2011_zookeeper: LocalZooKeeper, pytestconfig: pytest.Config
) -> Iterator[LocalCluster]:
    """Start one cluster for the whole run: tests share its topics and leave its brokers running."""
    with _cluster(kafka2011_zookeeper, pytestconfig) as cluster:
        yield cluster


@pytest.fixture
def kafka2011_cluster(kafka2011_zookeeper: LocalZooKeeper, pytestconfig: pytest.Config) -> Iterator[LocalCluster]:
    """Provide an empty cluster for one test, which may stop, kill and pause its brokers."""
    with _cluster(kafka2011_zookeeper, pytestconfig) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def kafka2011_gateway_cluster(
    kafka2011_zookeeper: LocalZooKeeper, pytestconfig: pytest.Config
) -> Iterator[LocalCluster]:
    """Start one cluster with a gateway for the whole run: clients of today connect to its `bootstrap_servers`."""
    with _cluster(kafka2011_zookeeper, pytestconfig, gateway=True) as cluster:
        yield cluster


class Kafka2011Container:
    """Runs a ZooKeeper and brokers in one container, with the package testcontainers; a context manager.

    `image` has everything (see docs/how-to/testing.md). `properties` are settings of every broker, by 0.7's names. With
    `gateway`, today's Kafka clients connect to `bootstrap_servers`. Brokers and the gateway register one address for
    their clients: so each has the same port in the container and on the host.
    Raises MissingExtraError without the extra `testcontainers`, and KafkaError when nothing is ready in time.
    """

    def __init__(
        self,
        image: str | None = None,
        *,
        brokers: int = 1,
        properties: Mapping[str, object] | None = None,
        gateway: bool = False,
    ) -> None:
        try:
            import testcontainers.core.container  # noqa: F401, PLC0415  # an extra
        except ModuleNotFoundError as error:
            raise missing_extra(error) from None
        self.image = image or f"kafka2011-all-in-one:{importlib.metadata.version('kafka2011')}"
        self._brokers = brokers
        self._properties = dict(properties or {})
        self._gateway = gateway
        self._gateway_port = 0
        self._container: DockerContainer | None = None

    @property
    def container(self) -> DockerContainer:
        """Return the container of testcontainers. Raises KafkaError before the start."""
        if self._container is None:
            raise KafkaError(f"the container of {self.image} was not started")
        return self._container

    @property
    def zk_connect(self) -> str:
        """Return the value for zk.connect on this host."""
        container = self.container
        return f"{container.get_container_host_ip()}:{container.get_exposed_port(_ZOOKEEPER_PORT)}"

    @property
    def bootstrap_servers(self) -> str:
        """Return the address for today's clients. Raises KafkaError before the start, or without a gateway."""
        host = self.container.get_container_host_ip()
        if not self._gateway:
            raise KafkaError(f"the container of {self.image} has no gateway: give gateway=True")
        return f"{host}:{self._gateway_port}"

    def start(self) -> None:
        """Start the container, unless it runs, and wait until all brokers serve."""
        from docker.errors import APIError  # type: ignore[import-untyped]  # noqa: PLC0415  # of the extra

        if self._container is not None:
            return
        for left in reversed(range(_PORT_TRIES)):
            container = self._new_container(free_port("127.0.0.1"))
            try:
                container.start()
            except APIError as error:  # another process may have taken a port since it was found free
                container.stop()
                if not left or "port is already allocated" not in str(error):
                    raise KafkaError(f"the container of {self.image} did not start: {error}") from error
            else:
                break
        self._container = container
        try:
            host = container.get_container_host_ip()
            container.exec(["sh", "-c", f"echo {host} >/tmp/named && mv /tmp/named /tmp/hostname"])
            self._await_ready(container)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop the container and remove it; may be called twice."""
        container, self._container = self._container, None
        if container is not None:
            container.stop()

    def _new_container(self, first_port: int) -> DockerContainer:
        from testcontainers.core.container import DockerContainer  # noqa: PLC0415  # an extra

        container = DockerContainer(self.image).with_exposed_ports(_ZOOKEEPER_PORT)
        self._gateway_port = first_port + self._brokers
        for port in range(first_port, self._gateway_port + self._gateway):
            container.with_bind_ports(port, port)
        container.with_kwargs(entrypoint=["sh", "-c", _ONCE_NAMED, "sh"])
        overrides = [f"--override={key}={value}" for key, value in self._properties.items()]
        where = [f"--brokers={self._brokers}", f"--port={first_port}", "--bind-address=0.0.0.0"]
        gateway = ["--gateway", f"--gateway-port={self._gateway_port}"] if self._gateway else []
        return container.with_command([*where, *gateway, *overrides])

    def _await_ready(self, container: DockerContainer) -> None:
        deadline_s = SYSTEM_CLOCK.monotonic_s() + READY_TIMEOUT_S
        while True:
            output, errors = container.get_logs()
            if _READY in output:
                return
            wrapped = container.get_wrapped_container()
            wrapped.reload()
            if wrapped.status != "running" or SYSTEM_CLOCK.monotonic_s() > deadline_s:
                said = (output + errors).decode("utf-8", "replace").strip()[-2000:]
                raise KafkaError(f"the container of {self.image} is {wrapped.status}, and not ready: {said}")
            time.sleep(_LOOK_S)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def _cluster(zookeeper: LocalZooKeeper, pytestconfig: pytest.Config, *, gateway: bool = False) -> LocalCluster:
    """Return a cluster with registries of its own, not yet started."""
    from kafka2011.local_cluster import LocalCluster  # noqa: PLC0415

    where = f"{zookeeper.connect_string}/test-{next(_chroots)}"
    properties = _properties(pytestconfig)
    return LocalCluster(_brokers(pytestconfig), zk_connect=where, properties=properties, gateway=gateway)


def _brokers(pytestconfig: pytest.Config) -> int:
    text = str(pytestconfig.getini(_BROKERS))
    if not text.isdecimal() or int(text) == 0:
        raise pytest.UsageError(f"{_BROKERS} is how many brokers there are, not {text!r}")
    return int(text)


def _properties(pytestconfig: pytest.Config) -> dict[str, str]:
    parts = [line.partition("=") for line in pytestconfig.getini(_PROPERTIES)]
    for name, equals, _ in parts:
        if not equals:
            raise pytest.UsageError(f"{_PROPERTIES} are lines name=value, not {name!r}")
    return {name.strip(): value.strip() for name, _, value in parts}
