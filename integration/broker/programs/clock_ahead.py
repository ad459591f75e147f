"""The command line `kafka2011` on a machine whose wall clock is 400 days ahead."""

from __future__ import annotations

import sys
import time

from kafka2011.cli.app import main
from zk.clock import SystemClock

AHEAD_S = 400 * 86_400


def _wall_s() -> float:
    return time.time() + AHEAD_S


if __name__ == "__main__":
    SystemClock.wall_s = staticmethod(_wall_s)
    sys.exit(main())
