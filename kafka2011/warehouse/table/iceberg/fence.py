"""One commit of a table, in one transaction that only the next number passes.

The number is compared with the metadata that the transaction starts from; the catalogue refuses the transaction when
the current snapshot is no longer the one in there. pyiceberg, left to itself, tries a refused append again behind
whatever came first, without comparing anything: two loaders would both succeed. So it may not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.exceptions import CommitFailedException, ValidationException
from pyiceberg.table import Transaction

from kafka2011.warehouse.errors import OvertakenError, UnknownOutcomeError, WarehouseError
from kafka2011.warehouse.table.iceberg.history import commits_in, note_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.update import TableUpdate

    from kafka2011.warehouse.table.commits import Commit

    Change = Callable[[Transaction, dict[str, str]], None]
    """Makes one snapshot in a transaction, with these properties in its summary."""

NO_RETRIES = {"commit.retry.num-retries": "0"}
_TRIES = 5  # the catalogue also refuses when only a property has changed meanwhile


def commit_once(
    load: Callable[[], Table],
    commit: Commit,
    newest: Callable[[TableMetadata], int],
    change: Change,
    where: str,
) -> None:
    """Commit the change and the note of it together, where `newest` finds the number before the commit's.

    Raises OvertakenError when the number is taken, UnknownOutcomeError when the catalogue does not say what came of it,
    and WarehouseError.
    """
    failure: Exception | None = None
    for _ in range(_TRIES):
        table = _without_retries(load())
        _check_follows(newest(table.metadata), commit, where)
        transaction = _Transaction(table)
        note = note_of(commit)
        try:
            change(transaction, note)
            transaction.set_properties(note)
        except (ValueError, OSError, ValidationException) as error:
            raise WarehouseError(f"{where}, commit {commit.number}: {error}") from error
        try:
            transaction.commit_transaction()
        except CommitFailedException as error:
            failure = error
        except Exception as error:
            if not _has_landed(load, commit, where):
                raise UnknownOutcomeError(
                    f"{where}: commit {commit.number} is not there, as far as can be seen. Its files stay: {error}"
                ) from error
            return
        else:
            return
    raise WarehouseError(
        f"{where}: others keep changing the table, commit {commit.number} failed: {failure}"
    ) from failure


class _Transaction(Transaction):
    """One that makes a copy of the table's metadata when it has changed, not whenever somebody looks at it.

    An append looks some thirty times, and each copy has all snapshots: with a thousand that was most of a commit.
    """

    _seen: tuple[TableUpdate, ...] | None = None

    @property
    def table_metadata(self) -> TableMetadata:
        """The table's metadata as the transaction leaves it."""
        if self._seen is not self._updates:
            self._seen, self._copy = self._updates, super().table_metadata
        return self._copy


def _check_follows(newest: int, commit: Commit, where: str) -> None:
    if newest >= commit.number:
        raise OvertakenError(
            f"{where}: another one has committed {commit.number} first; nothing of this one is there. Begin again from"
            " the newest commit"
        )
    if newest < commit.number - 1:
        raise WarehouseError(f"{where}: commit {commit.number} cannot follow {newest or 'none'}")


def _without_retries(table: Table) -> Table:
    """See to it that the metadata in hand forbids retries, whatever somebody has set."""
    if NO_RETRIES.items() <= table.properties.items():
        return table
    return table.transaction().set_properties(NO_RETRIES).commit_transaction()


def _has_landed(load: Callable[[], Table], commit: Commit, where: str) -> bool:
    """Look whether a commit is in the table whose answer was lost."""
    try:
        metadata = load().metadata
    except Exception as error:
        raise UnknownOutcomeError(
            f"{where}: whether commit {commit.number} is there is not known, the catalogue does not answer: {error}"
        ) from error
    found = (each for each in commits_in(metadata, where) if each.number <= commit.number)
    newest = next(found, None)
    return newest is not None and (newest.number, newest.attempt) == (commit.number, commit.attempt)
