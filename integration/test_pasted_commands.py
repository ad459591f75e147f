"""What README and docs/reference/commands.md have a newcomer type is pasted here, on the ports that it names."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from integration.pasting import AFTERWARDS, ROOT, first_steps, paste, why_no_own_network

TIMEOUT_S = 480
"""Three times what a machine takes that is as busy as in proof/test_debian.py."""

pytestmark = pytest.mark.timeout(TIMEOUT_S + 60)


def test_the_first_steps(tmp_path: Path) -> None:
    """The README's lines lead to the messages that it shows; so do the commands that somebody tries next."""
    why = why_no_own_network()
    if why is not None:
        pytest.skip(f"a network of its own, with the README's ports, cannot be had: {why}")
    commands = (ROOT / "docs" / "reference" / "commands.md").read_text(encoding="utf-8").splitlines()
    assert set(AFTERWARDS) <= set(commands)
    steps = first_steps()
    assert "pip install" in steps.setup  # this environment has it already
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("KAFKA2011_", "XDG_"))}
    environ = {**kept, "HOME": str(tmp_path), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    said = paste("\n".join((steps.text, "echo == and then", *AFTERWARDS)), sys.executable, tmp_path, environ, TIMEOUT_S)
    first, then = said.split("== and then\n")
    assert first.endswith(steps.prints)
    assert sorted(then.splitlines()[-2:]) == ["one", "two"]
