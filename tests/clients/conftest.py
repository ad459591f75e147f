"""Fixtures for clients that meet a scripted broker, or none."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from tests.support.scripted_broker import ScriptedBroker

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.scripted_broker import Script, Serve


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
