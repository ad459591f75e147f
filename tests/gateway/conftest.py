"""A partition in service, through a broker in memory, which the tests of its appends and of its times share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.gateway.test_appends import Partition

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def partition() -> Iterator[Partition]:
    """Serve a partition without messages."""
    made = Partition()
    yield made
    made.tail.stop()
