"""What the tests of all parts share."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("kafka2011", deadline=None, print_blob=True)
settings.load_profile("kafka2011")

VECTORS = Path(__file__).parents[2] / "shared" / "vectors"


@pytest.fixture(scope="session")
def vectors() -> Path:
    """Give the directory with the bytes of a running Kafka 0.7.2; where it is absent, skip the test."""
    if not VECTORS.is_dir():
        pytest.skip("the bytes of a running Kafka 0.7.2 (../shared/vectors) are not here")
    return VECTORS
