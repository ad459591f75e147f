"""The table of what clients do with error codes, in table.json."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from proof.answer_codes.gateway import Fault


class Table:
    """Results by way, fault and client: what the client did, and the version of its request."""

    def __init__(self, results: dict[str, dict[str, list[Any]]]) -> None:
        self._results = results
        self._lock = threading.Lock()

    @classmethod
    def read(cls, path: Path) -> Table:
        """Read the table; an empty one if there is no file."""
        return cls(json.loads(path.read_text("utf-8")) if path.exists() else {})

    def write(self, path: Path) -> None:
        """Write the table, a line for each fault."""
        with self._lock:
            lines = [f"{json.dumps(key)}: {json.dumps(self._results[key])}" for key in sorted(self._results)]
            path.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")

    def result(self, way: str, fault: Fault, client: str) -> list[Any] | None:
        """Return what a client did, None if that was not measured."""
        return self._results.get(f"{way} {fault}", {}).get(client)

    def note(self, way: str, fault: Fault, client: str, did: str, version: int) -> None:
        """Keep a result."""
        with self._lock:
            self._results.setdefault(f"{way} {fault}", {})[client] = [did, version]
