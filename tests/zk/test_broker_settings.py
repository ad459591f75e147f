"""Settings that brokers publish."""

from __future__ import annotations

import logging
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.zk_in_memory import ZkClientInMemory
from zk import paths
from zk.broker_settings import MOST_BYTES, BrokerSettingsRegistry


@pytest.fixture
def client() -> Any:
    client: Any = ZkClientInMemory()
    client.handler = SimpleNamespace(event_object=Event)  # whose events nobody waits for
    return client


@pytest.fixture
def registry(client: Any) -> BrokerSettingsRegistry:
    return BrokerSettingsRegistry(client)


def test_settings_are_read_as_they_were_published(registry: BrokerSettingsRegistry, client: Any) -> None:
    """Another publication in the same session takes the place of the first."""
    assert registry.settings() == {}
    registry.publish(4, {"log.file.size": "7"})
    registry.publish(4, {"log.file.size": "8", "größe": "ü"})
    registry.publish(5, {})
    assert registry.settings() == {4: {"log.file.size": "8", "größe": "ü"}, 5: {}}


@pytest.mark.parametrize("text", [b"", b"[]", b"7", b"\xff", None])
def test_settings_that_cannot_be_read_are_left_out(
    registry: BrokerSettingsRegistry, client: Any, text: bytes | None
) -> None:
    registry.publish(4, {"log.file.size": "7"})
    registry.publish(5, {})
    client.set_async(paths.settings(4), text)
    assert registry.settings() == {5: {}}
    assert registry.malformed.count == 1


def test_settings_that_are_too_large_for_zookeeper_are_not_published(
    registry: BrokerSettingsRegistry, client: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """The broker registers all the same: ZooKeeper would close its connection."""
    with caplog.at_level(logging.WARNING):
        registry.publish(4, {"topic.log.file.size": "x" * MOST_BYTES})
    assert "broker 4 does not publish its settings" in caplog.text
    assert registry.settings() == {}
