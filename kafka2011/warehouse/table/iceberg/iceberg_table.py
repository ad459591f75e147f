"""A topic's table in Iceberg: a load adds its files and notes its offsets in one snapshot.

    {location}/data/{attempt}/date=2011-06-12/hour=09/*.parquet  what one load wrote, before and after its commit
    {location}/metadata/                                         pyiceberg's: snapshots, with a commit in each of ours

Files are committed where they lie: a commit is one step of the catalogue. The commit's number is the fence. It is
compared with the very metadata that the transaction starts from, which may not have another current snapshot when the
transaction ends; pyiceberg is told not to try again, because it would not compare the number again.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import uuid4

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, RESTError, TableAlreadyExistsError
from sqlalchemy.exc import SQLAlchemyError

from kafka2011.message.topic import validate_topic
from kafka2011.warehouse.errors import OvertakenError, UnknownOutcomeError, WarehouseError
from kafka2011.warehouse.table.commits import Commit, Operation
from kafka2011.warehouse.table.iceberg import cleaning, compaction
from kafka2011.warehouse.table.iceberg.catalog import NAMESPACE, location_of_table, open_catalog
from kafka2011.warehouse.table.iceberg.fence import NO_RETRIES, commit_once
from kafka2011.warehouse.table.iceberg.footers import footer_schema, read_footer
from kafka2011.warehouse.table.iceberg.history import commit_in, commits_in, forgettable, newest_in, rollback_in
from kafka2011.warehouse.table.iceberg.schema import BY_HOUR, FIRST_SCHEMA, evolve
from kafka2011.warehouse.table.iceberg.storage import Storage
from zk.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from pyiceberg.table import Table, Transaction
    from pyiceberg.table.metadata import TableMetadata

    from kafka2011.warehouse.table.iceberg.cleaning import Cleaned
    from kafka2011.warehouse.table.iceberg.fence import Change
    from kafka2011.warehouse.table.iceberg.footers import Footer
    from zk.clock import Clock

logger = logging.getLogger(__name__)

ORPHAN_LIFETIME_S = 24 * 3600.0
"""Files that no snapshot names belong to a load that is running, unless they are as old as this."""

_PROPERTIES = {
    "format-version": "2",
    **NO_RETRIES,
    "commit.manifest-merge.enabled": "true",  # else every load adds a manifest that every reader has to open
    "write.metadata.delete-after-commit.enabled": "true",  # each commit writes all of the metadata again
    "write.parquet.compression-codec": "zstd",
}
_HIDDEN = (".", "_")


class IcebergTable:
    """The table of `topic`, in the catalogue with these properties of pyiceberg's, else in the warehouse's own.

    `name` is the topic's unless it is given. The table is made by the first `begin`. Raises WarehouseError where there
    is no catalogue, and InvalidTopicError.
    """

    def __init__(
        self,
        warehouse: str | Path,
        topic: str,
        *,
        name: str | None = None,
        catalog: Catalog | Mapping[str, str] | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.topic = topic
        self.name = name or topic
        validate_topic(self.name)
        self.identifier = (NAMESPACE, self.name)
        self.catalog = catalog if isinstance(catalog, Catalog) else open_catalog(warehouse, catalog)
        self._warehouse = None if catalog else warehouse  # another catalogue knows itself where a table goes
        self._clock = clock
        self._where = f"topic {topic}, Iceberg table {'.'.join(self.identifier)}"
        self._in_doubt: set[str] = set()  # attempts that may yet turn out to be in the table

    def iceberg(self) -> Table:
        """Return the table as pyiceberg knows it, as it is now. Raises WarehouseError when it is not there."""
        with self._translated_errors():
            try:
                return self.catalog.load_table(self.identifier)
            except NoSuchTableError as error:
                raise WarehouseError(f"{self._where} does not exist") from error

    def newest(self) -> Commit | None:
        """Return the newest commit, None before the first.

        Raises RolledBackError, and WarehouseError when the table has rows without offsets.
        """
        metadata = self._metadata()
        return newest_in(metadata, self._where) if metadata else None

    def commits(self, after: int = 0) -> Sequence[Commit]:
        """Return the commits with larger numbers whose snapshots are still there, oldest first."""
        metadata = self._metadata()
        return [] if metadata is None else [each for each in self.commits_of(metadata) if each.number > after]

    def commits_of(self, metadata: TableMetadata) -> Sequence[Commit]:
        """Return the commits whose snapshots are still there in this metadata of the table, oldest first."""
        return list(commits_in(metadata, self._where))[::-1]

    def begin(self) -> str:
        """Make a directory for the files of one commit, in the table's own, where readers see no file of it yet.

        Returns a path on a local disk, else a URI.
        """
        with self._translated_errors():
            table = self._ensured()
            location = _data(table, uuid4().hex)
            Storage(table.io).make_directory(location)
            return location.removeprefix("file://")

    def commit(self, staging: str, commit: Commit) -> None:
        """Make the files visible together with their offsets; fills in `attempt` and `size_bytes`.

        Raises OvertakenError when the number is taken, and UnknownOutcomeError.
        """
        if commit.operation is Operation.COMPACT:
            raise ValueError("an Iceberg table is compacted by `compact`: rows are removed where others are added")
        with self._translated_errors():
            footers = self._footers(staging)
        if (rows := sum(each.rows for each in footers)) != commit.rows:
            raise WarehouseError(f"{self._where}: {staging} has {rows} rows, and commit {commit.number} {commit.rows}")
        size_bytes = sum(each.size_bytes for each in footers)
        columns = footer_schema(footers) if footers else None

        def add(transaction: Transaction, note: dict[str, str]) -> None:
            if columns is not None:
                evolve(transaction, columns, self._where)
            transaction.add_files([each.location for each in footers], snapshot_properties=note)

        self._commit_once(replace(commit, attempt=_attempt(staging), size_bytes=size_bytes), add)

    def abandon(self, staging: str) -> None:
        """Remove what `begin` made, as far as it is still there, and unless it was committed or may yet be."""
        attempt = _attempt(staging)
        with self._translated_errors():
            metadata = self._metadata()
            if attempt in self._in_doubt or (metadata and _names(metadata, attempt, self._where)):
                logger.warning("%s: %s stays, it was committed or may have been", self._where, staging)
                return
            table = self.iceberg()
            Storage(table.io).remove_directory(_data(table, attempt))

    def compact(self, before_ms: int | None = None, target_bytes: int = compaction.TARGET_BYTES) -> Commit | None:
        """Rewrite the small files of hours that ended by then into few, in one commit; None when there are none.

        By now, unless a time is given. Another commit may come first without harm. Raises OvertakenError when that
        removed the same files.
        """
        newest = self.newest()
        if newest is None:
            return None
        table = self.iceberg()
        now_ms = int(self._clock.wall_s() * 1000)
        groups = compaction.plan(table, now_ms if before_ms is None else before_ms, target_bytes)
        if not groups:
            return None
        staging = self.begin()
        try:
            rewritten = compaction.rewrite(table, groups, f"{_data(table, _attempt(staging))}")
            return self._commit_compaction(rewritten, _attempt(staging))
        except UnknownOutcomeError:
            raise
        except BaseException:
            self.abandon(staging)
            raise

    def clean(self, older_than_s: float = ORPHAN_LIFETIME_S) -> Cleaned:
        """Remove files that no snapshot names any more, or never did, from directories where nothing is younger.

        A load must not take longer than that: it would fail when it commits.
        """
        with self._translated_errors():
            return cleaning.clean(self.iceberg(), self._clock.wall_s() - older_than_s)

    def expire(self, older_than_s: float = ORPHAN_LIFETIME_S) -> int:
        """Forget snapshots that are so old, and return how many; their files stay until `clean`.

        The current one stays, those of branches and tags, and the newest that has offsets. Raises RolledBackError:
        what was taken out could not be brought back any more.
        """
        before_ms = int((self._clock.wall_s() - older_than_s) * 1000)
        with self._translated_errors():
            table = self.iceberg()
            old = forgettable(table.metadata, before_ms, self._where)
            if not old:
                return 0
            try:
                table.maintenance.expire_snapshots().by_ids(old).commit()
            except CommitFailedException as error:
                raise WarehouseError(f"{self._where} was changed by others just now, no snapshot expired") from error
        return len(old)

    def settle_rollback(self, *, again: bool) -> Commit:
        """Say how loading goes on after a rollback: with what was taken out, `again`, or behind it.

        That is a commit of its own, with the number after the last one that was taken out: no number comes twice.
        """
        with self._translated_errors():
            back, reached = rollback_in(self.iceberg().metadata, self._where)
        offsets = (back.offsets if back else {}) if again else reached.offsets
        commit = Commit(
            self.topic,
            reached.number + 1,
            Operation.ROLLBACK,
            int(self._clock.wall_s() * 1000),
            offsets,
            schema=reached.schema,
            complete_through_ms=back.complete_through_ms if back else None,
            replaces=tuple(range((back.number if back else 0) + 1, reached.number + 1)),
            extra=back.extra if back else {},
            attempt=uuid4().hex,
        )

        def nothing(transaction: Transaction, note: dict[str, str]) -> None:
            transaction.add_files([], snapshot_properties=note)

        self._commit_once(commit, nothing, lambda metadata: rollback_in(metadata, self._where)[1].number)
        return commit

    def _commit_compaction(self, rewritten: Sequence[compaction.Rewritten], attempt: str) -> Commit:
        """Commit it behind whatever has come first: that took none of the files, or is noticed."""
        tries = 5
        while True:
            newest = self.newest()
            assert newest is not None
            commit = replace(
                newest,
                number=newest.number + 1,
                operation=Operation.COMPACT,
                written_at_ms=int(self._clock.wall_s() * 1000),
                ranges=(),
                rows=sum(each.rows for each in rewritten),
                quarantined=0,
                size_bytes=sum(each.size_bytes for each in rewritten),
                replaces=(),
                extra={**newest.extra, **compaction.counts(rewritten)},  # the next load goes on from what it holds
                attempt=attempt,
            )
            try:
                self._commit_once(commit, lambda transaction, note: compaction.swap(transaction, rewritten, note))
            except OvertakenError:
                tries -= 1
                if not tries:
                    raise
            else:
                return commit

    def _commit_once(
        self, commit: Commit, change: Change, newest: Callable[[TableMetadata], int] | None = None
    ) -> None:
        def number_in(metadata: TableMetadata) -> int:
            found = newest_in(metadata, self._where)
            return found.number if found else 0

        try:
            with self._translated_errors():
                commit_once(self.iceberg, commit, newest or number_in, change, self._where)
        except UnknownOutcomeError:
            self._in_doubt.add(commit.attempt)
            raise

    def _footers(self, staging: str) -> list[Footer]:
        """Read the footers of what a load wrote. Files without rows stay out of the table."""
        table = self.iceberg()
        storage = Storage(table.io)
        location = _data(table, _attempt(staging))
        if storage.path(location) != storage.path(staging):
            raise ValueError(f"{staging} is no directory that `begin` of {self._where} made")
        storage.mark(location)
        storage.sync(location)
        found = (
            read_footer(table.io, each.location, each.size_bytes)
            for each in storage.walk(location)
            if each.name.endswith(".parquet") and not any(part.startswith(_HIDDEN) for part in each.name.split("/"))
        )
        return [each for each in found if each.rows]

    def _metadata(self) -> TableMetadata | None:
        with self._translated_errors():
            try:
                return self.catalog.load_table(self.identifier).metadata
            except NoSuchTableError:
                return None

    def _ensured(self) -> Table:
        """Return the table, made now if it is not there."""
        if not self.catalog.table_exists(self.identifier):
            location = None if self._warehouse is None else location_of_table(self._warehouse, self.name)
            try:
                self.catalog.create_table(
                    self.identifier, FIRST_SCHEMA, location, partition_spec=BY_HOUR, properties=_PROPERTIES
                )
            except (TableAlreadyExistsError, CommitFailedException):  # another one was faster
                logger.debug("%s was made by another process", self._where)
        return self.catalog.load_table(self.identifier)

    @contextmanager
    def _translated_errors(self) -> Iterator[None]:
        """Raise errors of the catalogue and the file system as WarehouseErrors that name topic and table."""
        try:
            yield
        except (OSError, SQLAlchemyError, RESTError) as error:
            raise WarehouseError(f"{self._where}: {error}") from error


def _attempt(staging: str) -> str:
    return staging.rstrip("/").rpartition("/")[2]


def _data(table: Table, attempt: str) -> str:
    return f"{table.location().rstrip('/')}/{cleaning.DATA}/{attempt}"


def _names(metadata: TableMetadata, attempt: str, where: str) -> bool:
    commits = (commit_in(snapshot, where) for snapshot in metadata.snapshots)
    return any(commit is not None and commit.attempt == attempt for commit in commits)
