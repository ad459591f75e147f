"""The base of all suites of other clients' tests."""

from __future__ import annotations

import os
import subprocess
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from proof.gateway_suites.served import Served

BUILT = Path(__file__).parents[2] / "build" / "suites"
FETCH_S = 600
SUITE_S = 1200


@dataclass(frozen=True, kw_only=True)
class Suite(ABC):
    """A suite by its heading on the page, and the gateway that it wants."""

    name: str
    port: int = 0
    """The port that its tests expect; 0 if they are told."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Settings of the gateway."""
    clusters: tuple[tuple[int, int], ...] = ((1, 1), (3, 4))
    """The number of brokers of each cluster, and its num.partitions."""

    @abstractmethod
    def missing(self) -> str:
        """Say what has to be there to run it, or return an empty text."""

    @abstractmethod
    def run(self, served: Served, output: Path) -> dict[str, str]:
        """Run its tests, which print to the file `output`, and return what became of each: pass, fail or skip."""


def checkout_of(variable: str) -> Path:
    """Return the checkout that an environment variable names."""
    return Path(os.environ[variable]).absolute()


def missing_checkout(variable: str, repository: str) -> str:
    """Say which checkout is to be named, unless it is."""
    return "" if os.environ.get(variable) else f"set {variable} to a checkout of https://github.com/{repository}"


def run_tests(output: Path, folder: Path, settings: Mapping[str, str], *command: str) -> None:
    """Run a program that tests: its status does not count, as some tests fail."""
    with output.open("wb") as file:
        subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, **settings},
            stdout=file,
            stderr=subprocess.STDOUT,
            timeout=SUITE_S + FETCH_S,
            check=False,
        )
