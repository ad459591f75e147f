"""Results as JSON: what was measured, on what, and what comes out of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

DIRECTORY = Path(__file__).parent / "results"


def write(path: Path, document: Mapping[str, Any]) -> None:
    """Write one benchmark's document, in place of an older one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def beside(results: Path) -> Path:
    """Return the directory of the reports that are written from a directory of results."""
    return results.parent if results == DIRECTORY else results
