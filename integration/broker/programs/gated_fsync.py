"""The command line `kafka2011` on a disk that takes its time: fsync waits while the file named by FSYNC_GATE exists.

It says so by a file beside that, which ends with `.waits`.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from kafka2011.cli.app import main

_GATE = Path(os.environ["FSYNC_GATE"])
_fsync = os.fsync


def _gated_fsync(fd: int) -> None:
    while _GATE.exists():
        _GATE.with_suffix(".waits").touch()
        time.sleep(0.01)
    _fsync(fd)


if __name__ == "__main__":
    os.fsync = _gated_fsync  # type: ignore[assignment]
    sys.exit(main())
