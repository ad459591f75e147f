"""The command line `kafka2011` on a slow disk: large writes wait while the file named by WRITE_GATE exists."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from kafka2011.cli.app import main

if TYPE_CHECKING:
    from kafka2011.message.header import AnyBytes

_GATE = Path(os.environ["WRITE_GATE"])
_LARGE_BYTES = 1024 * 1024
_write = os.write


def _gated_write(fd: int, data: AnyBytes) -> int:
    while len(data) >= _LARGE_BYTES and _GATE.exists():
        time.sleep(0.01)
    return _write(fd, data)


if __name__ == "__main__":
    os.write = _gated_write  # type: ignore[assignment]
    sys.exit(main())
