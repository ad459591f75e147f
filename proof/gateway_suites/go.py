"""Tests of clients in Go: their sources come from Go's module proxy."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from proof.gateway_suites.suite import BUILT, FETCH_S, SUITE_S, Suite, run_tests

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from proof.gateway_suites.served import Served


@dataclass(frozen=True, kw_only=True)
class GoSuite(Suite):
    """A module, the package with the tests, and the environment that they want; `{servers}` is the gateway."""

    module: str
    version: str
    package: str
    environment: Mapping[str, str]
    left_out: str = "^$"
    """Names of tests that are not run, as a regular expression."""

    def missing(self) -> str:
        """Say whether there is no Go."""
        return "" if shutil.which("go") else "there is no go here"

    def run(self, served: Served, output: Path) -> dict[str, str]:
        """Run the tests of the package."""
        return self.run_with(
            {name: text.format(servers=served.servers) for name, text in self.environment.items()}, output
        )

    def run_with(self, told: Mapping[str, str], output: Path, *more: str) -> dict[str, str]:
        """Run the tests of the package with these variables besides its own, and more options."""
        options = ("-json", "-count=1", f"-timeout={SUITE_S}s", f"-skip={self.left_out}", *more)
        run_tests(
            output,
            self.sources(),
            {**self.environment, **told, "GOFLAGS": "-mod=mod"},
            "go",
            "test",
            *options,
            self.package,
        )
        ended: dict[str, str] = {}
        for line in output.read_text("utf-8", "replace").splitlines():
            event = json.loads(line) if line.startswith("{") else {}
            if "Test" in event:
                if event["Action"] == "run":
                    ended[event["Test"]] = "fail"  # unless it ends otherwise
                if event["Action"] in {"pass", "fail", "skip"}:
                    ended[event["Test"]] = event["Action"]
        return ended

    def sources(self) -> Path:
        """Return a copy of the module's sources, fetched if they are not there."""
        target = BUILT / f"{self.module.rpartition('/')[2]}-{self.version}"
        if target.exists():
            return target
        found = subprocess.run(
            ["go", "mod", "download", "-json", f"{self.module}@{self.version}"],
            check=True,
            capture_output=True,
            timeout=FETCH_S,
        )
        part = target.with_name(f"{target.name}.part")
        shutil.rmtree(part, ignore_errors=True)
        shutil.copytree(json.loads(found.stdout)["Dir"], part)
        for path in part.rglob("*"):
            path.chmod(path.stat().st_mode | 0o200)
        part.rename(target)
        return target
