"""The list of changes that do not matter: each with the reason, found again by the text of its line."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from scripts.mutants.changes import Change


@dataclass(frozen=True)
class Harmless:
    """One entry of the list; it stands for every such change of every such line of the module (`after` this one)."""

    module: str
    line: str
    becomes: str
    why: str
    after: str | None = None

    def stands_for(self, module: str, change: Change) -> bool:
        """Say whether it is about a change of a module."""
        return (self.module, self.line, self.becomes) == (module, change.old_line, change.new_line) and self.after in {
            None,
            change.line_before,
        }


def read_harmless(path: Path) -> list[Harmless]:
    """Return the entries of a list, one for each line that a line may become."""
    listed = tomllib.loads(path.read_text())["harmless"]
    return [
        Harmless(entry["module"], entry["line"], becomes, entry["why"], entry.get("after"))
        for entry in listed
        for becomes in entry["becomes"]
    ]


def without_match(entries: Iterable[Harmless], changes: dict[str, list[Change]]) -> list[Harmless]:
    """Return the entries that stand for none of the changes of these modules: their line was rewritten."""
    return [
        entry
        for entry in entries
        if entry.module in changes and not any(entry.stands_for(entry.module, each) for each in changes[entry.module])
    ]
