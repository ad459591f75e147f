"""The fixtures of aiokafka's tests for a server that runs already: a copy of this is their conftest.py."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

WITH_SERVER = {"setup_test_class", "ssl_folder"}
"""Fixtures of tests that are run; the others need no server."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items[:] = [item for item in items if WITH_SERVER & set(getattr(item, "fixturenames", ()))]


@pytest.fixture(scope="session")
def docker_ip_address() -> str:
    return os.environ["SERVED_HOST"]


@pytest.fixture(scope="session")
def ssl_folder() -> Path:
    return Path(os.environ["SERVED_CERTIFICATES"])


@pytest.fixture(scope="session")
def unused_port() -> Callable[[], int]:
    def find() -> int:
        with socket.create_server((os.environ["SERVED_HOST"], 0)) as server:
            return int(server.getsockname()[1])

    return find


@pytest.fixture(scope="class")
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    used = asyncio.new_event_loop()
    asyncio.set_event_loop(used)
    yield used
    used.close()
    asyncio.set_event_loop(None)


@pytest.fixture(scope="class")
def setup_test_class(request: pytest.FixtureRequest, loop: asyncio.AbstractEventLoop, ssl_folder: Path) -> None:
    tests = request.cls
    tests.loop = loop
    tests.kafka_host, tests.kafka_port = os.environ["SERVED_HOST"], int(os.environ["SERVED_PORT"])
    tests.kafka_ssl_port = int(os.environ["SERVED_TLS_PORT"])
    tests.hosts = [f"{tests.kafka_host}:{tests.kafka_port}"]
    tests.ssl_folder = ssl_folder
    tests.kafka_version = os.environ["KAFKA_VERSION"]


@pytest.fixture(scope="class")
def setup_test_class_serverless(request: pytest.FixtureRequest, loop: asyncio.AbstractEventLoop) -> None:
    request.cls.loop = loop
