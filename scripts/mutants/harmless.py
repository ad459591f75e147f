"""The list of changes that do not matter: each with the reason, and known by its place and what is changed there."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from pathlib import Path

    from scripts.mutants.changes import Change


class Harmless(NamedTuple):
    """One entry of the list: `old` that becomes `new` where the name of the place ends so."""

    place: str
    old: str
    new: str
    why: str
    number: int | None = None
    """Which of several such changes it stands for; None: all of them."""

    def stands_for(self, change: Change) -> bool:
        """Return whether it is about a change."""
        return (
            self.is_in(change.place)
            and (self.old, self.new) == (change.old, change.new)
            and self.number in {None, change.number}
        )

    def is_in(self, place: str) -> bool:
        """Return whether it is about a place."""
        return f".{place}".endswith(f".{self.place}")

    def __str__(self) -> str:
        return f"{self.place}: {self.old} -> {self.new}"


def read_harmless(path: Path) -> list[Harmless]:
    """Return the entries of a list, one for each text that another may become."""
    listed = tomllib.loads(path.read_text())["harmless"]
    return [
        Harmless(entry["in"], entry["old"], new, entry["why"], entry.get("number"))
        for entry in listed
        for new in entry["new"]
    ]


def stale(entries: Iterable[Harmless], changes: Collection[Change]) -> list[Harmless]:
    """Return the entries that stand for none of all changes: their code was rewritten, moved or removed."""
    return [entry for entry in entries if not any(entry.stands_for(change) for change in changes)]
