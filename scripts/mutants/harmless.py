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
    """One entry of the list; it stands for every such change of every such line of the module."""

    module: str
    line: str
    becomes: str
    why: str


def read_harmless(path: Path) -> list[Harmless]:
    """Return the entries of a list."""
    return [Harmless(**entry) for entry in tomllib.loads(path.read_text())["harmless"]]


def without_match(entries: Iterable[Harmless], changes: dict[str, list[Change]]) -> list[Harmless]:
    """Return the entries that stand for none of the changes of these modules: their line was rewritten."""
    known = {(module, change.old_line, change.new_line) for module, made in changes.items() for change in made}
    return [entry for entry in entries if entry.module in changes and _key(entry) not in known]


def matters(module: str, change: Change, entries: Iterable[Harmless]) -> bool:
    """Return whether a change is not in the list."""
    return all(_key(entry) != (module, change.old_line, change.new_line) for entry in entries)


def _key(entry: Harmless) -> tuple[str, str, str]:
    return entry.module, entry.line, entry.becomes
