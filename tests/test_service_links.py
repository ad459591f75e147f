"""Environment variables of Kubernetes and Docker are not settings, and settings are not mistaken for them."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

from kafka2011.config.broker import BrokerConfig
from kafka2011.config.consumer import ConsumerConfig
from kafka2011.config.gateway import GatewayConfig
from kafka2011.config.producer import ProducerConfig
from kafka2011.config.service_links import is_service_link, without_service_links
from kafka2011.errors import ConfigError

if TYPE_CHECKING:
    from kafka2011.config.settings import Settings

GIVEN = ("brokerid=1", "log.dir=/logs", "enable.zookeeper=false")


def service(name: str, port: int, *port_names: str, protocol: str = "tcp") -> dict[str, str]:
    """Return the variables that the kubelet sets for a Service, as its `envvars` package makes them."""
    prefix = name.upper().replace("-", "_")
    address, numbered = f"{protocol}://10.0.0.1:{port}", f"{prefix}_PORT_{port}_{protocol.upper()}"
    return {
        f"{prefix}_SERVICE_HOST": "10.0.0.1",
        f"{prefix}_SERVICE_PORT": str(port),
        **{f"{prefix}_SERVICE_PORT_{port_name.upper().replace('-', '_')}": str(port) for port_name in port_names},
        f"{prefix}_PORT": address,
        numbered: address,
        f"{numbered}_PROTO": protocol,
        f"{numbered}_PORT": str(port),
        f"{numbered}_ADDR": "10.0.0.1",
    }


@pytest.mark.parametrize(
    "name", ["kafka2011", "kafka2011-metrics", "kafka2011-tls", "kafka2011-zk", "kafka2011-log-dir"]
)
@pytest.mark.parametrize("protocol", ["tcp", "udp", "sctp"])
def test_a_broker_ignores_a_service_of_any_name(name: str, protocol: str, caplog: pytest.LogCaptureFixture) -> None:
    """Defaults stay, and one line at debug level names the variables."""
    environ = service(name, 6667, "clients", "with-dash", protocol=protocol)
    with caplog.at_level(logging.DEBUG):
        config = BrokerConfig.from_sources(environ=environ, overrides=GIVEN)
    assert config == BrokerConfig.from_sources(overrides=GIVEN)
    (line,) = [record for record in caplog.records if record.levelno == logging.DEBUG]
    assert all(variable in line.getMessage() for variable in environ)


def test_a_broker_ignores_a_container_that_docker_has_linked() -> None:
    """Docker's variables have also the linked container's name and environment."""
    environ = {
        "KAFKA2011_NAME": "/web/kafka2011",
        "KAFKA2011_ENV_LANG": "C.UTF-8",
        "KAFKA2011_ENV_GPG_KEY": "E3FF2839C048B25C084DEBE9B26995E310250568",
        "KAFKA2011_PORT": "tcp://172.17.0.2:6667",
        "KAFKA2011_PORT_6667_TCP": "tcp://172.17.0.2:6667",
        "KAFKA2011_PORT_6700_TCP_START": "tcp://172.17.0.2:6700",
        "KAFKA2011_PORT_6700_TCP_PORT_START": "6700",
    }
    assert BrokerConfig.from_sources(environ=environ, overrides=GIVEN) == BrokerConfig.from_sources(overrides=GIVEN)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("KAFKA2011_SERVICE_PORT", "6667"),  # without KAFKA2011_SERVICE_HOST
        ("KAFKA2011_SERVICE_PORT_CLIENTS", "6667"),
        ("KAFKA2011_PROT", "6667"),
        ("KAFKA2011_NAME", "kafka2011"),
        ("KAFKA2011_ENV_LANG", "C.UTF-8"),
        ("KAFKA2011_METRIC_PORT", "9100"),
    ],
)
def test_a_variable_that_no_service_explains_is_refused(name: str, value: str) -> None:
    """A mistyped setting must not be ignored."""
    with pytest.raises(ConfigError, match=f"unknown setting in the environment variable {name}"):
        BrokerConfig.from_sources(environ={name: value}, overrides=GIVEN)


@pytest.mark.parametrize("port", ["6700", "tcp:6700", "x"])
def test_a_port_that_is_no_address_is_the_setting(port: str) -> None:
    """Only `tcp://`, `udp://` and `sctp://` are addresses of services."""
    settings, links = without_service_links({"KAFKA2011_PORT": port, "PATH": "/bin"}, "KAFKA2011_")
    assert (settings, links) == ({"KAFKA2011_PORT": port}, [])


def test_no_setting_has_the_name_of_a_variable_for_services() -> None:
    """Such a setting could not be given in the environment."""
    components: list[type[Settings]] = [BrokerConfig, ConsumerConfig, GatewayConfig, ProducerConfig]
    names = {setting.variable for component in components for setting in component.settings()}
    assert len(names) > 100
    environ = dict.fromkeys(names, "1") | {
        f"{name.rpartition('_SERVICE_PORT')[0]}_SERVICE_HOST": "x" for name in names if "_SERVICE_PORT" in name
    }
    assert [name for name in sorted(names) if is_service_link(name, environ)] == []
