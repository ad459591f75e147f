"""What scripts/setup.sh installs can be installed on every Debian that is tried (`make proof` does it)."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ARCHIVE = ROOT / "integration" / "debian" / "archive.sh"
UNREADABLE = 3
TIMEOUT_S = 100


@pytest.mark.parametrize(("suite", "java"), [("bookworm", "openjdk-17"), ("trixie", "openjdk-21")])
def test_the_packages_are_there(suite: str, java: str) -> None:
    """A Debian that has nothing yet can install them, and Java comes with them."""
    listed = subprocess.run([ROOT / "scripts" / "setup.sh", "packages"], capture_output=True, text=True, check=True)
    asked = subprocess.run(
        [ARCHIVE, suite, "simulate", *listed.stdout.split()],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    if asked.returncode == UNREADABLE:
        pytest.skip(asked.stderr)
    assert asked.returncode == 0, asked.stdout + asked.stderr
    installed = {line.split()[1] for line in asked.stdout.splitlines() if line.startswith("Inst ")}
    assert installed >= {f"{java}-jre-headless", "python3-venv", "gcc"}
