"""What the tests of this model share."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Keep the log of thousands of recoveries and refusals from being written."""
    logging.disable()
    yield
    logging.disable(logging.NOTSET)
