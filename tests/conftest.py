"""What the tests of all parts share."""

from __future__ import annotations

from hypothesis import settings

from tests.support.captured import CAPTURED

settings.register_profile("kafka2011", deadline=None, print_blob=True)
settings.load_profile("kafka2011")

collect_ignore = [] if CAPTURED.is_dir() else ["test_captured.py"]


def pytest_report_header() -> str:
    """Say what the bytes of Kafka 0.7 are compared with."""
    if CAPTURED.is_dir():
        return f"bytes of Kafka 0.7: typed, and compared with the captured ones in {CAPTURED}"
    return f"bytes of Kafka 0.7: typed, and not compared with captured ones, since {CAPTURED} is absent"
