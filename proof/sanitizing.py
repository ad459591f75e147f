"""A copy of the project whose C code is built with the compiler's sanitizers, and how Python runs it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FLAGS = "-O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer"
TIMEOUT_S = 900


def run(*command: str, cwd: Path, **environ: str) -> str:
    """Run a command and return what it says; it must end well, and in time."""
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


def build(directory: Path) -> Path:
    """Return a copy of the project in a directory, with its C code built to check itself; skip without a compiler."""
    if shutil.which("gcc") is None:
        pytest.skip("there is no gcc")
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
