"""Runs an experiment at toy size, with our own broker alone, and looks at what it leaves."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
WITHOUT_WAITS = "integration.paper_benchmarks.programs.without_waits"
WITH_SPARK = ("spark", "load", "load_cost", "pipeline")
"""These take longest."""
LONGEST = ("sweep", "beside")
"""Of those without Spark. Most of what they run is run by `systems` and by tests of limits, too."""


def run_toy(
    name: str, directory: Path, timeout_s: float, *options: str, program: str = "paper_benchmarks"
) -> dict[str, Any]:
    """Have it make its document and its chapter; no data of it stays. Returns what it measured.

    `program` is the module that runs it: `WITHOUT_WAITS` is the quicker one.
    """
    data, results = directory / "data", directory / "results"
    data.mkdir()
    arguments = ["--size", "toy", "--system", "kafka2011", "--data", data, "--results", results]
    done = subprocess.run(
        [sys.executable, "-m", program, name, *map(str, arguments), *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    document = json.loads((results / f"{name}.json").read_text(encoding="utf-8"))
    assert (document["benchmark"], document["size"]) == (name, "toy")
    assert document["machine"]["file_system"]
    report = "".join((results / page).read_text(encoding="utf-8") for page in ("RESULTS.md", "DETAILS.md"))
    assert "the figures mean nothing" in report
    assert all(picture.name in report for picture in (results / "pictures").glob("*.svg"))
    assert not list(data.iterdir())
    body: dict[str, Any] = document["body"]
    return body
