"""The same promises with real threads, sockets and time, in a few runs: what the simulation takes for granted."""

from __future__ import annotations

import threading

import pytest

from tests.models.depth import by_depth
from tests.models.producer.over_sockets import run_over_sockets


@pytest.mark.parametrize("seed", range(by_depth(10, 150)))
def test_every_promise_is_kept_over_sockets(seed: int) -> None:
    """Whatever happens to brokers; and no thread is left."""
    run_over_sockets(seed)
    assert not [each.name for each in threading.enumerate() if each.name.startswith("kafka2011-producer")]
