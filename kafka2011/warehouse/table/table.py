"""What a load needs of a table, whatever its format: the newest commit, room for files, and one atomic commit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafka2011.warehouse.table.commits import Commit


class Table(Protocol):
    """One topic's table. `parquet_table.ParquetTable` and `delta_table.TopicTable` are two.

    The number of a commit is its fence: numbers begin at 1 and have no gaps, and the second commit with the same
    number fails.
    """

    topic: str

    def newest(self) -> Commit | None:
        """Return the newest commit, None before the first. Raises WarehouseError when rows have no offsets."""

    def commits(self, after: int = 0) -> Sequence[Commit]:
        """Return the commits with larger numbers that are still known, oldest first."""

    def begin(self) -> str:
        """Make a directory outside the table, for the files of one commit, and return its path or URI.

        Parquet files go into `date=YYYY-MM-DD/`, or `date=.../hour=HH/`, under it.
        """

    def commit(self, staging: str, commit: Commit) -> None:
        """Make the files visible, together with their offsets, in one atomic step.

        Raises OvertakenError when the number is taken; the staging directory is left for `abandon`.
        """

    def abandon(self, staging: str) -> None:
        """Remove what `begin` made, as far as it is still there."""
