"""The C code under the sanitizers of the compiler: no test makes it touch memory that is not its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FLAGS = "-O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer"
TESTS = (
    "tests/message/test_runs.py",
    "tests/message/test_message.py",
    "tests/message/test_columns.py",
    "tests/producer/test_accumulator.py",
    "tests/producer/test_appending.py",
    "tests/broker/test_message_check.py",
    "tests/broker/test_receiving.py",
    "tests/wire/test_connection.py",
    "tests/clients/test_fetch_on.py",
    "tests/warehouse/rows/test_batch_reader.py",
)
TIMEOUT_S = 900

pytestmark = pytest.mark.timeout(TIMEOUT_S + 60)


def run(*command: str, cwd: Path, **environ: str) -> str:
    done = subprocess.run(
        command,
        cwd=cwd,
        env=os.environ | environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:]
    return done.stdout


@pytest.fixture(scope="module")
def sanitized(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a copy of the project with its C code built to check itself."""
    if shutil.which("gcc") is None:
        pytest.skip("there is no gcc")
    directory = tmp_path_factory.mktemp("sanitized")
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE", "kafka2011", "zk", "pyspark_kafka2011", "tests"):
        run("cp", "-r", str(ROOT / name), str(directory), cwd=ROOT)
    for built in directory.rglob("*.so"):
        built.unlink()
    run(sys.executable, "setup.py", "build_ext", "--inplace", cwd=directory, CFLAGS=FLAGS, LDFLAGS=FLAGS)
    return directory


def preloaded(directory: Path) -> dict[str, str]:
    """Return what lets a Python that knows nothing of sanitizers load such code."""
    libraries = [
        run("gcc", f"-print-file-name={name}", cwd=directory).strip() for name in ("libasan.so", "libubsan.so")
    ]
    return {
        "LD_PRELOAD": " ".join(libraries),
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1",  # Python leaves much behind; a test counts blocks
        "PYTHONMALLOC": "malloc",  # or the sanitizer would see Python's arenas as one piece
        "PYTHONPATH": str(directory),
    }


def test_the_sanitizer_is_at_work(sanitized: Path) -> None:
    """What Python loads is the code that was built to check itself."""
    environ = preloaded(sanitized)
    told = "from kafka2011.message import runs; print(runs.compiled.__file__)"
    assert run(sys.executable, "-c", told, cwd=sanitized, **environ).startswith(str(sanitized))
    symbols = run("nm", "--dynamic", *map(str, sanitized.rglob("*.so")), cwd=sanitized)
    assert "__asan_init" in symbols
    assert "__ubsan_handle" in symbols


def test_under_the_sanitizers(sanitized: Path) -> None:
    """All tests of messages, connections and columns pass, those in which every allocation fails once too."""
    said = run(sys.executable, "-m", "pytest", "-q", *TESTS, cwd=sanitized, **preloaded(sanitized))
    assert " passed" in said
    assert " failed" not in said
