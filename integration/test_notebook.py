"""The notebook in `examples/notebook` runs from its first cell to its last, and draws what it says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parents[1] / "examples" / "notebook" / "figures.ipynb"
TIMEOUT_S = 120
CHECKS = """
import json
assert list(produced) == [1, 50]
assert all(len(points) == 10 for points in produced.values())
assert len(consumed) == 5
assert all(len(figure.axes[0].lines) == lines for figure, lines in ((figure_4, 4), (figure_5, 2)))
figure_4.savefig("figure-4.png")
counts = {"views": views.height, "pages": by_page.height, "rows": len(table), "bytes": int(table["bytes"].sum())}
print(json.dumps(counts))
"""


def code_of(notebook: Path) -> str:
    """Return the code of all cells: plain Python, which needs no kernel."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")


def test_it_runs(tmp_path: Path) -> None:
    """With fewer messages; the tables have every message."""
    pytest.importorskip("matplotlib")
    pytest.importorskip("polars")
    code = code_of(NOTEBOOK)
    few = code.replace("MESSAGES = 100_000", "MESSAGES = 10_000")
    assert few != code
    done = subprocess.run(
        [sys.executable, "-c", few + CHECKS],
        cwd=tmp_path,
        env={**os.environ, "MPLBACKEND": "Agg"},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert (found["views"], found["pages"], found["rows"]) == (1000, 7, 1000)
    assert found["bytes"] == sum(10 + len(f'{{"user": {user}, "page": "/{user % 7}"}}') for user in range(1000))
    assert (tmp_path / "figure-4.png").stat().st_size > 10_000


def test_it_is_stored_without_outputs() -> None:
    """Figures of one machine are nobody else's; cells have what the format asks for."""
    document = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    assert (document["nbformat"], document["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in document["cells"]}) == len(document["cells"])
    for cell in document["cells"]:
        assert cell["cell_type"] == "markdown" or (cell["outputs"], cell["execution_count"]) == ([], None)
