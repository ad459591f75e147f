"""Draws the README's picture of a terminal: runs its first steps and saves what they print as an SVG.

`.venv/bin/python -m scripts.terminal_picture`, on a machine where the README's ports are free.
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

PICTURE = Path(__file__).parent.parent / "docs" / "pictures" / "first-steps.svg"
STEPS = (
    "kafka2011 cluster --background",
    "kafka2011 topics create views",
    "printf 'one\\ntwo\\n' | kafka2011 produce views",
    "kafka2011 consume views --group reports --from-beginning --max-messages 2",
    "kafka2011 groups",
)
END = "kafka2011 cluster --stop"
COLUMNS = 86
TIMEOUT_S = 120


def draw() -> str:
    """Return the picture of a terminal in which the steps were typed. Raises CalledProcessError when one fails."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO())
    with tempfile.TemporaryDirectory() as home:
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        environ = {**os.environ, "HOME": home, "PATH": path, "COLUMNS": str(COLUMNS), "TMPDIR": "/tmp"}  # noqa: S108

        def type_in(line: str) -> str:
            done = subprocess.run(  # noqa: S603 - the lines above
                ["/bin/bash", "-c", line], env=environ, capture_output=True, text=True, check=True, timeout=TIMEOUT_S
            )
            return done.stdout.replace(home, "~")

        try:
            for step in STEPS:
                console.print(Text(f"$ {step}", style="bold"))
                console.print(Text(type_in(step).rstrip()))
        finally:
            type_in(END)
    # The picture loads no fonts from elsewhere.
    return re.sub(r"@font-face \{.*?\}\s*", "", console.export_svg(title="kafka2011", theme=MONOKAI), flags=re.DOTALL)


if __name__ == "__main__":
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    PICTURE.write_text(draw(), encoding="utf-8")
