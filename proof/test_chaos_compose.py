"""Chaos on the containers of docker-compose.yml: every rule holds, and nothing of it stays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING

import pytest

from integration.chaos.containers import project_name
from integration.compose.clusters import why_no_docker

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parent.parent
IMAGE = "kafka2011:test"
BUILD_TIMEOUT_S = 1500
RUN_TIMEOUT_S = 600

pytestmark = pytest.mark.timeout(BUILD_TIMEOUT_S + RUN_TIMEOUT_S)


class Run:
    """One run of the command line, in a directory of its own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        options = ["--backend", "compose", "--minutes", "0.75", "--directory", str(directory)]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "integration.chaos", *options],
            cwd=ROOT,
            env={**os.environ, "KAFKA_IMAGE": IMAGE},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def lines(self) -> IO[str]:
        """Return what it prints, to be read further after some of it."""
        assert self.process.stdout is not None
        return self.process.stdout

    def remains(self) -> list[str]:
        """Return the containers, networks and volumes that are there of it."""
        name = project_name(self.directory / "processes")
        every = (["ps", "--all"], ["network", "ls"], ["volume", "ls"])
        found = [
            subprocess.run(
                ["docker", *words, "--quiet", f"--filter=label=com.docker.compose.project={name}"],
                capture_output=True,
                text=True,
                check=True,
            ).stdout.split()
            for words in every
        ]
        return [each for some in found for each in some]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    """Begin a run; skip where there is no Docker."""
    reason = why_no_docker()
    if reason is not None:
        pytest.skip(reason)
    begun = Run(tmp_path / "run")
    yield begun
    begun.process.terminate()
    begun.process.communicate(timeout=RUN_TIMEOUT_S)


def test_a_run_is_clean(run: Run) -> None:
    """Three quarters of a minute of faults break no rule, and leave no container, network or volume."""
    said = "".join(run.lines())
    assert run.process.wait(RUN_TIMEOUT_S) == 0, said
    assert "\nconfirmed, lost " in said
    assert "VIOLATED" not in said
    assert run.remains() == []


def test_an_interrupted_run_leaves_nothing(run: Run) -> None:
    """Ctrl-C in the midst of it takes all containers, networks and volumes away."""
    for line in run.lines():
        if " faults in " in line and "seed" not in line:
            break
    assert run.remains()
    run.process.send_signal(signal.SIGINT)
    said = "".join(run.lines())
    assert run.process.wait(RUN_TIMEOUT_S) != 0, said
    assert run.remains() == []
