"""Where the logs of servers lie while they are measured."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

_MEMORY = Path("/dev/shm")  # noqa: S108 (a tmpfs; what is made there has a name of its own)


def in_memory(needed_bytes: int) -> Path:
    """Return where logs cost no disk, if there is room for so much, else where temporary files lie."""
    if _MEMORY.is_dir() and os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free >= needed_bytes:
        return _MEMORY
    return Path(tempfile.gettempdir())
