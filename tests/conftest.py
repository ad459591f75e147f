"""What the tests of all parts share."""

from __future__ import annotations

import os
import socket
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from kafka2011.broker.connections import sending
from kafka2011.broker.requests import receive_buffer
from kafka2011.gateway.protocol.answer_codes import STRICT_VARIABLE
from kafka2011.message import runs, runs_python
from kafka2011.producer import appending
from kafka2011.wire import connection
from tests.support.captured import CAPTURED
from tests.support.scripted_broker import ScriptedBroker

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.scripted_broker import Script, Serve

os.environ[STRICT_VARIABLE] = "1"
settings.register_profile("kafka2011", deadline=None, print_blob=True)
settings.load_profile("kafka2011")

collect_ignore = [] if CAPTURED.is_dir() else ["test_captured.py"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let long tests begin first, so that none is left over when all others have ended."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


def pytest_report_header() -> list[str]:
    """Say what the bytes of Kafka 0.7 are compared with, and what works on messages."""
    compared = f"compared with the captured ones in {CAPTURED}"
    if not CAPTURED.is_dir():
        compared = f"not compared with captured ones, since {CAPTURED} is absent"
    return [f"bytes of Kafka 0.7: typed, and {compared}", runs.chosen.DESCRIPTION]


@pytest.fixture(scope="module", params=["Python", "C"])
def each_code(request: pytest.FixtureRequest) -> Iterator[None]:
    """Run a module's tests with the C code and without it."""
    code = runs_python if request.param == "Python" else runs.compiled
    if code is None:
        pytest.skip("no C code: scripts/setup.sh builds it where there is a compiler, KAFKA2011_PURE leaves it out")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "chosen", code)
        if code is runs_python:
            patch.setattr(connection, "compiled", None)
            patch.setattr(appending, "compiled", None)
            patch.setattr(receive_buffer, "compiled", None)
            patch.setattr(sending, "compiled", None)
        yield


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
