"""The C code under the sanitizers of the compiler: no test makes it touch memory that is not its own."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from proof.sanitizing import TIMEOUT_S, build, preloaded, run
from tests.fuzz.targets import IN_C

if TYPE_CHECKING:
    from pathlib import Path

TESTS = (
    "tests/events/test_flat_encoder.py",
    "tests/message/test_runs.py",
    "tests/message/test_message.py",
    "tests/message/test_columns.py",
    "tests/message/test_stored.py",
    "tests/producer/test_accumulator.py",
    "tests/producer/test_appending.py",
    "tests/broker/test_message_check.py",
    "tests/broker/test_receiving.py",
    "tests/wire/test_connection.py",
    "tests/gateway/records/test_layout.py",
    "tests/gateway/records/test_roundtrip.py",
    "tests/clients/test_fetch_on.py",
    "tests/warehouse/rows/test_batch_reader.py",
)

pytestmark = pytest.mark.timeout(TIMEOUT_S + 60)


@pytest.fixture(scope="module")
def sanitized(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a copy of the project with its C code built to check itself."""
    return build(tmp_path_factory.mktemp("sanitized"))


def test_the_sanitizer_is_at_work(sanitized: Path) -> None:
    """What Python loads is the code that was built to check itself."""
    environ = preloaded(sanitized)
    told = "from kafka2011.message import runs; print(runs.compiled.__file__)"
    assert run(sys.executable, "-c", told, cwd=sanitized, **environ).startswith(str(sanitized))
    symbols = run("nm", "--dynamic", *map(str, sanitized.rglob("*.so")), cwd=sanitized)
    assert "__asan_init" in symbols
    assert "__ubsan_handle" in symbols


def test_under_the_sanitizers(sanitized: Path) -> None:
    """All tests of messages, records, connections and columns pass, those in which every allocation fails once too."""
    said = run(sys.executable, "-m", "pytest", "-q", *TESTS, cwd=sanitized, **preloaded(sanitized))
    assert " passed" in said
    assert " failed" not in said


def test_hostile_bytes_under_the_sanitizers(sanitized: Path) -> None:
    """Whatever a peer sends, or lies in a log, C reads and writes only what is its own."""
    command = (sys.executable, "-m", "tests.fuzz", *IN_C, "--of", "3000000", "--unlimited")
    said = run(*command, cwd=sanitized, **preloaded(sanitized))
    assert said.count(" 0 findings") == len(IN_C), said
