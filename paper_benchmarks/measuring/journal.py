"""What an experiment has measured so far, so that one that was interrupted goes on where it was.

A line of JSON for each sample, behind one that says what is measured, where, and by which code: if that is no longer
so, it begins anew.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from paper_benchmarks.measuring.worker import ROOT

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_CODE = ("kafka2011", "zk", "paper_benchmarks")


class Journal:
    """One experiment's. Samples have keys; `finish` removes it once their document is written."""

    def __init__(self, path: Path, what: Mapping[str, Any]) -> None:
        self._path = path
        self._found: dict[str, Any] = {}
        head = json.dumps({**what, "code": code_digest()}, sort_keys=True)
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        if lines and lines[0] == head:
            self._found = dict(map(json.loads, filter(_is_whole, lines[1:])))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join([head, *map(json.dumps, self._found.items())]) + "\n", encoding="utf-8")

    def __len__(self) -> int:
        return len(self._found)

    def get(self, key: str) -> Any:
        """Return a sample; None when there is none of that key."""
        return self._found.get(key)

    def add(self, key: str, sample: Any) -> None:
        """Keep a sample."""
        self._found[key] = sample
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps([key, sample]) + "\n")

    def finish(self) -> None:
        """Remove it."""
        self._path.unlink(missing_ok=True)


def _is_whole(line: str) -> bool:
    """Say whether a line was written to its end."""
    return line.endswith("]")


def code_digest() -> str:
    """Return what changes with any code that is measured, or measures."""
    digest = hashlib.sha256()
    for package in _CODE:
        for path in sorted((ROOT / package).rglob("*")):
            if path.suffix in {".py", ".so"}:
                digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
