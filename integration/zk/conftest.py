"""Fixtures for the tests of the coordination layer."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from zk.connecting import connect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from zk.client import ZkClient

SESSION_TIMEOUT_MS = 2000


@pytest.fixture
def new_client(zk_connect: str) -> Iterator[Callable[[], ZkClient]]:
    """Connect to the test's chroot, once per call, with sessions of two seconds."""
    with ExitStack() as stack:
        yield lambda: stack.enter_context(connect(zk_connect, SESSION_TIMEOUT_MS, connection_timeout_ms=20_000))


@pytest.fixture
def client(new_client: Callable[[], ZkClient]) -> ZkClient:
    """Connect to the test's chroot."""
    return new_client()
