"""Virtual environments for programs whose packages are not this project's."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

TIMEOUT_S = 900


def environment(directory: Path, *packages: str) -> str:
    """Make a virtual environment, and return its Python."""
    subprocess.run([sys.executable, "-m", "venv", str(directory)], check=True, timeout=TIMEOUT_S)
    python = str(directory / "bin" / "python")
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages]
    subprocess.run(install, check=True, timeout=TIMEOUT_S)
    return python
