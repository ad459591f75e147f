"""Environments in which people have run Kafka's images, and what went wrong there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from click.testing import CliRunner

from kafka2011.cli.ping import command as ping
from kafka2011.config.broker import BrokerConfig

if TYPE_CHECKING:
    import pytest


def test_a_service_in_kubernetes_does_not_set_the_port() -> None:
    """Start with the default port beside a Service that has the program's name.

    Reported to wurstmeister/kafka-docker and confluentinc/cp-docker-images ("port is deprecated" in Kubernetes).
    """
    environ = {"KAFKA2011_PORT": "tcp://10.0.0.1:6700", "KAFKA2011_SERVICE_HOST": "10.0.0.1"}
    overrides = ["brokerid=1", "log.dir=/logs", "enable.zookeeper=false"]
    assert BrokerConfig.from_sources(environ=environ, overrides=overrides).port == 6667


def test_a_health_check_in_kubernetes_takes_the_default_port(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check 127.0.0.1:6667, and not the address of the Service. Reported as above."""
    monkeypatch.setenv("KAFKA2011_PORT", "tcp://10.0.0.1:6700")
    outcome = CliRunner().invoke(ping, ["--timeout-ms", "100"])
    assert "127.0.0.1:6667" in outcome.output + str(outcome.exception)
