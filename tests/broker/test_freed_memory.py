"""Freed memory that is kept: a process that receives one set after the other touches no fresh pages."""

from __future__ import annotations

import subprocess
import sys

import pytest

FAULTS = """
import resource, sys
from kafka2011.broker.memory.freed_memory import keep_freed_memory
if sys.argv[1] == "keep" and not keep_freed_memory():
    print("unknown")
    sys.exit()
before = 0
for round in range(200):
    if round == 100:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    sets = [bytearray(1_000_000) for _ in range(3)]
    del sets
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def page_faults(what: str) -> str:
    done = subprocess.run([sys.executable, "-c", FAULTS, what], capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.strip()


def test_what_was_freed_is_used_again() -> None:
    """In place of tens of thousands of page faults for 300 sets of 1 MB there are nearly none."""
    kept = page_faults("keep")
    if kept == "unknown":
        pytest.skip("this C library has no mallopt")
    assert int(kept) < 1000
