"""Fixtures for producers that should meet trouble at a chosen moment."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from tests.support.produce_broker import ProduceBroker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture
def new_broker() -> Iterator[Callable[[], ProduceBroker]]:
    """Start scripted brokers, numbered from 0."""
    with ExitStack() as stack:
        made: list[ProduceBroker] = []

        def start() -> ProduceBroker:
            broker = ProduceBroker(len(made))
            made.append(broker)
            stack.callback(broker.close)
            return broker

        yield start


@pytest.fixture
def broker(new_broker: Callable[[], ProduceBroker]) -> ProduceBroker:
    """Start one scripted broker."""
    return new_broker()
