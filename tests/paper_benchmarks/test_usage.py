"""What processes have used, as far as the kernel counts it."""

from __future__ import annotations

import os
import subprocess
import sys

from paper_benchmarks.measuring.usage import usage_of

BURNT_S = 0.1
BURN = f"import time\nwhile time.process_time() < {BURNT_S}: pass"


def test_a_child_that_has_ended_counts() -> None:
    """As those do that a database forks in order to write its data: a server never uses less than before."""
    this = [os.getpid()]
    before = usage_of(this)
    subprocess.run([sys.executable, "-c", BURN], check=True)
    assert usage_of(this).since(before).cpu_s >= 0.9 * BURNT_S
