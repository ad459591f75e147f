"""Where a command keeps what its next call needs."""

from __future__ import annotations

import os
from pathlib import Path


def state_directory(*names: str) -> Path:
    """Return the directory of these names among the state files of this user."""
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base, "kafka2011", *names)
