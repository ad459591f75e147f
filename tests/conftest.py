"""What the tests of all parts share."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from tests.support.captured import CAPTURED
from tests.support.scripted_broker import ScriptedBroker

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.scripted_broker import Script, Serve

settings.register_profile("kafka2011", deadline=None, print_blob=True)
settings.load_profile("kafka2011")

collect_ignore = [] if CAPTURED.is_dir() else ["test_captured.py"]


def pytest_report_header() -> str:
    """Say what the bytes of Kafka 0.7 are compared with."""
    if CAPTURED.is_dir():
        return f"bytes of Kafka 0.7: typed, and compared with the captured ones in {CAPTURED}"
    return f"bytes of Kafka 0.7: typed, and not compared with captured ones, since {CAPTURED} is absent"


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Give a function that starts a broker with a script for each connection."""
    with ExitStack() as stack:

        def start(*scripts: Script) -> ScriptedBroker:
            broker = ScriptedBroker(*scripts)
            stack.callback(broker.close)
            return broker

        yield start


@pytest.fixture
def closed_port() -> Iterator[int]:
    """Give a port that refuses connections, and that nobody else gets meanwhile."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]
