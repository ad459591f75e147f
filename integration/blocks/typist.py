"""Types the blocks of a page, each in a process of its own, on a cluster that stands in for the page's."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from integration.blocks.gather import ROOT, Block, blocks_of
from integration.blocks.plans import Plan, Step
from kafka2011 import LocalCluster

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zk import LocalZooKeeper

TIMEOUT_S = 120.0
"""How long one block may take, unless a test says otherwise."""
BROKER = {"log.flush.interval": 1, "zk.sessiontimeout.ms": 4000}


def replaced(text: str, words: Mapping[str, str]) -> str:
    """Return a text with other words; each of those to be replaced must be there."""
    for old, new in words.items():
        assert old in text, f"{old!r} is not in the block"
        text = text.replace(old, new)
    return text


class Typist:
    """Types the blocks of a page: each in a process of its own, all in one directory."""

    def __init__(self, directory: Path, places: Mapping[str, str], zk_connect: str, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._directory = directory
        self._places = places
        self._former = ""
        kept = {key: value for key, value in os.environ.items() if not key.startswith("KAFKA2011_")}
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        home = str(directory)
        self._environ = {
            **kept,
            "PATH": path,
            "HOME": home,
            "KAFKA2011_ZK_CONNECT": zk_connect,
            "PYTHONUNBUFFERED": "1",
        }

    def here(self, text: str) -> str:
        """Return a text with this machine's places."""
        for old, new in self._places.items():
            text = text.replace(old, new)
        return text

    def type(self, block: Block, step: Step) -> str:
        """Run a block with what stands before and after it, and return what it printed. Fails where a command fails."""
        text = replaced(block.text, step.replaced)
        printed = self._shell(step.before)
        if block.language == "sh":
            printed += self._shell(text)
        else:
            script = (self._former if step.continues else "") + step.prelude + text + step.postlude
            self._former = script
            printed += self._run([sys.executable, "-c", self.here(script)], step)
        return printed + self._shell(step.after)

    def _shell(self, text: str) -> str:
        return self._run(["bash", "-euc", self.here(text)], Step("")) if text else ""

    def _run(self, command: list[str], step: Step) -> str:
        with subprocess.Popen(
            command, cwd=self._directory, env=self._environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            timer = threading.Timer(self._timeout_s, process.kill)
            timer.start()
            said: list[str] = []
            reader = threading.Thread(target=lambda: said.append(process.stderr.read() if process.stderr else ""))
            reader.start()
            try:
                printed = ""
                for line in process.stdout:
                    printed += line
                    if step.endless and re.search(step.prints, printed, re.MULTILINE):
                        process.send_signal(signal.SIGINT)
                        break
                process.wait(self._timeout_s)
            finally:
                timer.cancel()
                process.kill()
                reader.join(self._timeout_s)
        assert process.returncode == 0 or step.endless, "".join(said)
        return printed


def type_page(plan: Plan, zookeeper: LocalZooKeeper, directory: Path, timeout_s: float = TIMEOUT_S) -> None:
    """Run each block of a plan, in order, and compare what it prints. Fails where page or plan say otherwise."""
    blocks = blocks_of(plan.page, (ROOT / plan.page).read_text(encoding="utf-8"))
    (directory / "tables").mkdir()
    places = {"/data/": f"{directory}/tables/"}
    with ExitStack() as running:
        for number, address in enumerate(plan.clusters):
            chroot = f"{zookeeper.connect_string}/{plan.page.replace('/', '-')}-{number}"
            cluster = running.enter_context(LocalCluster(1, zk_connect=chroot, properties=BROKER))
            places[address] = cluster.zk_connect
        typist = Typist(directory, places, places[plan.clusters[0]] if plan.clusters else "", timeout_s)
        for step in plan.steps:
            [block] = [block for block in blocks if step.holding in block.text]
            printed = typist.type(block, step)
            assert re.search(step.prints, printed, re.MULTILINE), f"{block.place} printed:\n{printed}"
            assert block.prints in printed, f"{block.place} printed:\n{printed}"
