"""A machine to operate: the commands of docs/how-to/operations.md run in it as they stand, in folders of its own."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING, Self

from integration.operations.service_manager import ServiceManager

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "how-to" / "operations.md"
COMMAND_TIMEOUT_S = 240
ZK_CONNECT = "zk-1:2181,zk-2:2181,zk-3:2181"
FOLDERS = ("/etc/zookeeper", "/var/lib/zookeeper", "/etc/kafka2011", "/var/lib/kafka2011", "/srv/kafka2011", "/backup")
STAND_INS = ("apt-get",)
"""Commands that would change this machine: nothing happens in their place."""

_FAST = {  # what a test cannot wait for
    "KAFKA2011_LOG_FLUSH_INTERVAL": "1",
    "KAFKA2011_ZK_SESSIONTIMEOUT_MS": "4000",
    "KAFKA2011_LOG_FILE_SIZE": "1000",
}


def blocks_of(heading: str) -> list[str]:
    """Return what the page has one type in, in the section under a heading."""
    section = PAGE.read_text(encoding="utf-8").split(f"\n## {heading}\n")[1].split("\n## ")[0]
    blocks = re.findall(r"^( *)```sh\n(.*?)^\1```", section, re.DOTALL | re.MULTILINE)
    return [dedent(block) for _, block in blocks]


class Machine:
    """Folders in place of the page's, services, and a PATH with stand-ins; a context manager.

    `replaced` says what else of the page is something else here.
    """

    def __init__(self, replaced: Mapping[str, str]) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="operations-"))
        self._replaced = {
            **replaced,
            **{folder: f"{self.directory}{folder}" for folder in FOLDERS},
            "/opt/kafka2011/bin/": f"{Path(sys.executable).parent}/",
            "bind.address=0.0.0.0": "port=0",
            "port=6668": "port=0",
            "hostname=broker-1.example.org": "hostname=127.0.0.1",
        }
        stand_ins = self.directory / "bin"
        stand_ins.mkdir()
        for name in STAND_INS:
            (stand_ins / name).write_text("#!/bin/sh\n")
            (stand_ins / name).chmod(0o755)
        kept = {key: value for key, value in os.environ.items() if not key.startswith("KAFKA2011_")}
        kept["PATH"] = f"{stand_ins}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        self.environ = {**kept, "KAFKA2011_ZK_CONNECT": self.rewritten(ZK_CONNECT)}
        self.path("/etc/kafka2011").mkdir(parents=True)
        self.services = ServiceManager(stand_ins, ROOT / "examples" / "systemd", self.rewritten, {**kept, **_FAST})

    def __enter__(self) -> Self:
        self.services.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.services.__exit__(kind, error, trace)
        shutil.rmtree(self.directory)

    def rewritten(self, text: str) -> str:
        """Return a command or a file with this machine's places."""
        for old, new in self._replaced.items():
            text = text.replace(old, new)
        return text

    def path(self, name: str) -> Path:
        """Return where a folder or a file of the page is."""
        return Path(self.rewritten(name))

    def run(self, text: str) -> str:
        """Have a shell do what the page says; return what was printed. Fails where a command fails."""
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", self.rewritten(text)],
            cwd=ROOT,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=COMMAND_TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, f"{text}\nended with {done.returncode}:\n{done.stdout}"
        return done.stdout

    def do(self, heading: str) -> str:
        """Do all that the page says under a heading; return what was printed."""
        return "".join(self.run(block) for block in blocks_of(heading))
