"""Unpacks packages of Debian's archive into build/, for tests that need a program which is not installed."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

ARCHIVE = Path(__file__).parent / "archive.sh"
TIMEOUT_S = 90.0


def fetch(suite: str, action: str, package: str, folder: Path) -> None:
    """Unpack a package, by an action of archive.sh, in place of a folder. Raises LookupError where that cannot be."""
    folder.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as work:
        unpacked = Path(work, "unpacked")
        command = [str(ARCHIVE), suite, action, package, str(unpacked)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        if done.returncode != 0:
            raise LookupError(f"{package} is not installed, and cannot be fetched: {done.stderr.strip()}")
        shutil.rmtree(folder, ignore_errors=True)
        unpacked.rename(folder)
