"""The demo with all its tiers: what README promises of `make demo`."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from integration.cli.calling import command
from tests.support.busy import RUNNABLE, busy

if TYPE_CHECKING:
    from typing import Any

LINES = 2000
LINE = '10.0.0.{} - - [17/May/2015:10:05:{:02} +0000] "GET /jobs/{} HTTP/1.1" 200 42 "-" "a browser"\n'
TIMEOUT_S = 900

pytestmark = pytest.mark.timeout(TIMEOUT_S + 60)


def processes_that_name(directory: Path) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(directory) in words and path.parent.name != str(os.getpid()):
            found.append(words)
    return found


@pytest.mark.parametrize("load", [1, RUNNABLE])
@pytest.mark.parametrize("tiers", ["quick", "all"])
def test_every_line_of_a_log_is_in_every_tier(tiers: str, load: int, tmp_path: Path) -> None:
    """Once in the warehouse, none in quarantine, a clean audit, a page of reports, and no process left.

    However busy the machine is.
    """
    log = tmp_path / "access.log"
    log.write_text("".join(LINE.format(number % 250, number % 60, number) for number in range(LINES)))
    directory, report = tmp_path / "demo", tmp_path / "report"
    words = ("demo", "--tiers", tiers, "--file", log, "--directory", directory, "--report", report, "--json")
    with busy(TIMEOUT_S, load - 1):
        done = subprocess.run(command(*words), capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)["tiers"]
    names = ["collector", "online", "mirror", *(["warehouse"] if tiers == "all" else [])]
    assert [(rate["tier"], rate["events"]) for rate in result["rates"]] == [(name, LINES) for name in names]
    assert (result["gaps"], result["quarantined"]) == (0, 0)
    if tiers == "all":
        assert (result["rows"], result["latency"][0]) == (LINES, LINES)
        page = (report / "report.html").read_text()
        assert "What the audit has concluded of these days" in page
    assert processes_that_name(directory) == []
