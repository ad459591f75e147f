"""The columns that a table has already, and what some of them become before a load."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafka2011.events.columns.kinds import Kind


class HeldColumn(NamedTuple):
    """A column of a table."""

    name: str
    type: Kind


class Widening(NamedTuple):
    """What a column becomes: a type, or JSON text."""

    type: Kind
    is_json: bool = False


class HeldColumns(NamedTuple):
    """The columns of a table as a load finds them.

    `schema_number` is that of the schema that was the newest at the newest commit. `json` are the columns that were
    rewritten as JSON text, and `fixed` those that cannot be rewritten as what schemas want: not all their values would
    stay as they are. `beside` are those of the topic's own table, while one beside it that is rebuilt has none yet.
    """

    columns: tuple[HeldColumn, ...]
    schema_number: int = 0
    json: frozenset[str] = frozenset()
    fixed: frozenset[str] = frozenset()
    beside: tuple[HeldColumn, ...] | None = None

    def find(self, name: str) -> HeldColumn | None:
        """Return the column of a name, for readers that ignore case."""
        return _find(self.columns, name)

    def find_beside(self, name: str) -> HeldColumn | None:
        """Return the column of a name of the topic's own table; None where that does not matter."""
        return None if self.beside is None else _find(self.beside, name)


def _find(columns: Sequence[HeldColumn], name: str) -> HeldColumn | None:
    return next((column for column in columns if column.name.lower() == name.lower()), None)
