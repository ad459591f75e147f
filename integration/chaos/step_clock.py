"""A wall clock of one process that can be off, by way of a preloaded library."""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

_STEP = struct.Struct("d")


def build_step_clock(directory: Path) -> Path | None:
    """Compile what lets a process's wall clock step; None where there is no compiler."""
    library = directory / "step_clock.so"
    source = Path(__file__).with_name("step_clock.c")
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return None
    command = [compiler, "-O2", "-shared", "-fPIC", "-o", str(library), str(source)]
    return library if subprocess.run(command, check=False, capture_output=True).returncode == 0 else None


class StepClock:
    """The wall clock of one process. `prefix` goes before its command; `path` is a file that says how far it is off."""

    def __init__(self, library: Path | None, path: Path) -> None:
        self._path = path
        self._path.write_bytes(_STEP.pack(0.0))
        self.can_step = library is not None
        self.prefix = ("env", f"LD_PRELOAD={library}", f"CHAOS_CLOCK={path.absolute()}") if library else ()

    def step(self, seconds: float) -> None:
        """Set it off by so much, if it can step."""
        with self._path.open("r+b") as file:
            file.write(_STEP.pack(seconds))
