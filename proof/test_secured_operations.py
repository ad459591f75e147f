"""The procedures of docs/how-to/operations.md on a secured cluster: TLS everywhere, a password, and certificates.

The page says that they are the same there. So the tests of an open cluster are run again, on one that is not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from integration.operations.machine import ZK_CONNECT, Machine, blocks_of
from integration.operations.test_page import (
    test_a_full_disk,
    test_a_rolling_restart,
    test_a_wait_for_the_clock_is_ended,
    test_adding_and_moving_a_broker,
    test_backup_and_restore,
    test_moving_a_topic,
    test_nothing_comes,
    test_removing_a_broker,
)
from kafka2011 import local_security
from zk.local_zookeeper import LocalZooKeeper

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = (
    "test_a_full_disk",
    "test_a_rolling_restart",
    "test_a_wait_for_the_clock_is_ended",
    "test_adding_and_moving_a_broker",
    "test_backup_and_restore",
    "test_moving_a_topic",
    "test_nothing_comes",
    "test_removing_a_broker",
)

pytestmark = pytest.mark.timeout(600)

HOST = "127.0.0.1"
_SETTING = "num.partitions=2\n"
"""The page's last setting of a broker: those of security stand behind it."""


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LocalZooKeeper, local_security.LocalSecurity]]:
    """Start a ZooKeeper that wants TLS, and make the files of its clients."""
    security = local_security.secure(tmp_path_factory.mktemp("security"), [HOST, "localhost"])
    with LocalZooKeeper(tls=security.zookeeper) as zookeeper:
        yield zookeeper, security


@pytest.fixture
def machine(
    secured: tuple[LocalZooKeeper, local_security.LocalSecurity], request: pytest.FixtureRequest
) -> Iterator[Machine]:
    """Set up two brokers as the page says, each with the lines of a secured one."""
    zookeeper, security = secured
    settings = "".join(f"{name}={value}\n" for name, value in security.properties.items())
    replaced = {
        ZK_CONNECT: f"{zookeeper.connect_string}/{request.node.name}?security={security.security}",
        _SETTING: _SETTING + settings,
    }
    with Machine(replaced) as made:
        install = blocks_of("Install brokers")[1]
        assert _SETTING in install
        made.run(install)
        made.do("Add a broker")
        yield made
