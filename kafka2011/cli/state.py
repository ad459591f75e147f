"""Where a command keeps what its next call needs."""

from __future__ import annotations

import os
from pathlib import Path

from kafka2011.errors import ConfigError


def state_directory(*names: str) -> Path:
    """Return the directory of these names among the state files of this user.

    Raises ConfigError for a user without a home directory, unless XDG_STATE_HOME names another place.
    """
    base = os.environ.get("XDG_STATE_HOME")
    if not base:
        try:
            base = str(Path.home() / ".local" / "state")
        except RuntimeError as error:
            raise ConfigError(
                "this user has no home directory to keep state in: set XDG_STATE_HOME, or name a directory as an option"
            ) from error
    return Path(base, "kafka2011", *names)
