"""What the tests of this model share."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

_MEMORY = Path("/dev/shm")


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Keep the log of thousands of recoveries and refusals from being written."""
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture
def tmp_path(tmp_path: Path) -> Iterator[Path]:
    """Give a directory in memory where there is one: the modelled disk alone says what survives a crash."""
    if not os.access(_MEMORY, os.W_OK):
        yield tmp_path
        return
    with TemporaryDirectory(dir=_MEMORY) as directory:
        yield Path(directory)
