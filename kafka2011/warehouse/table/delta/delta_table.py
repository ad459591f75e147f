"""A topic's table in Delta Lake: a load adds its files and notes its offsets in one entry of the table's log.

    {warehouse}/{topic}/_delta_log/                               the library's: entries, and checkpoints of them
    {warehouse}/{topic}/data/{attempt}/date=2011-06-12/*.parquet  what one load wrote, before and after its commit
    {warehouse}/{topic}/date=2011-06-12/*.parquet                 what compactions wrote

Files are committed where they lie: a commit is one new file in the log. The commit's number is the fence. It is
compared with the very version of the table that the entry is written behind, and the library may not try again behind
another one. A refused commit reads again: the number is free still (somebody has compacted), or it was overtaken.
"""

from __future__ import annotations

import logging
import os
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

from kafka2011.disk import fsync_directory, fsync_tree
from kafka2011.warehouse.errors import OvertakenError, UnknownOutcomeError, WarehouseError
from kafka2011.warehouse.table.commits import Commit, Operation
from kafka2011.warehouse.table.delta.columns import FIRST, first_schema, missing_columns
from kafka2011.warehouse.table.delta.data_files import DATE, columns_of, is_hidden, read_data_file
from kafka2011.warehouse.table.delta.dataset import live_files
from kafka2011.warehouse.table.delta.history import APPLICATION, LOG, History, note_of
from kafka2011.warehouse.table.files import LocalFiles
from kafka2011.warehouse.table.locations import location_of, scheme_of, table_of
from zk.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from deltalake.transaction import AddAction

    from kafka2011.warehouse.table.delta.data_files import DataFile
    from zk.clock import Clock

logger = logging.getLogger(__name__)

DATA = "data"
PROPERTIES = {
    "delta.checkpointInterval": "10",  # whoever opens a table reads at most so many entries, one by one
    "delta.enableExpiredLogCleanup": "false",  # `tables clean` alone removes entries, since it keeps the newest commit
}

_TRIES = 20
"""A commit is refused so often by compactions and others that write no commits of ours."""
HOOKS = PostCommitHookProperties(create_checkpoint=True, cleanup_expired_logs=False)


class TopicTable:
    """The table of `topic`, which the first commit makes. `name` is the topic's unless it is given.

    Raises WarehouseError where no table can be, and InvalidTopicError.
    """

    def __init__(
        self, warehouse: str | Path, topic: str, *, name: str | None = None, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self.topic = topic
        self.name = name or topic
        self.path = table_of(location_of(warehouse), self.name)
        self.files = LocalFiles()
        self.clock = clock
        self.where = f"topic {topic}, table {self.path}"
        self._in_doubt: set[str] = set()  # attempts that may yet turn out to be in the table
        if scheme_of(self.path):
            raise WarehouseError(f"{self.path} is not local: tables of Delta are, so far")
        if any(sign in self.path for sign in "#?% "):
            raise WarehouseError(f"{self.path} has a #, ?, % or space, which the log of a Delta table writes otherwise")

    def delta(self) -> DeltaTable:
        """Return the table as the library knows it, as it is now. Raises WarehouseError when it is not there."""
        table = self.opened()
        if table is None:
            raise WarehouseError(f"{self.where} does not exist")
        return table

    def newest(self) -> Commit | None:
        """Return the newest commit, None before the first.

        Raises RolledBackError, and WarehouseError when the table has rows without offsets, or is another topic's.
        """
        table = self.opened()
        newest = None if table is None else self.history(table).newest()
        if newest is not None and newest.topic != self.topic:
            raise WarehouseError(f"{self.path} is a table of topic {newest.topic}, not of {self.topic}")
        return newest

    def commits(self, after: int = 0) -> Sequence[Commit]:
        """Return the commits with larger numbers whose entries are still in the log, oldest first."""
        table = self.opened()
        found = [] if table is None else self.history(table).commits()
        return [each for each in found if each.number > after]

    def history(self, table: DeltaTable) -> History:
        """Return the commits of the table as it was opened."""
        return History(table, self.files, self.path, self.where)

    def paths_in(self, table: DeltaTable) -> list[str]:
        """Return the files of the table as it was opened."""
        return [f"{self.path}/{each.path}" for each in live_files(table)]

    def begin(self) -> str:
        """Make a directory for the files of one commit, in the table's own, where readers see no file of it yet."""
        with self.translated_errors():
            self._check_no_other_format()
            staging = f"{self.path}/{DATA}/{uuid4().hex}"
            self.files.make_directory(staging)
            return staging

    def commit(self, staging: str, commit: Commit) -> None:
        """Make the files visible together with their offsets; fills in `attempt` and `size_bytes`.

        Raises OvertakenError when the number is taken, and UnknownOutcomeError.
        """
        if commit.operation is Operation.COMPACT:
            raise ValueError("a Delta table is compacted by `compact`, which makes no commit of ours")
        with self.translated_errors():
            files = self.staged(staging)
        if (rows := sum(each.rows for each in files)) != commit.rows:
            raise WarehouseError(f"{self.where}: {staging} has {rows} rows, and commit {commit.number} {commit.rows}")
        size_bytes = sum(each.action.size for each in files)
        commit = replace(commit, attempt=_attempt(staging), size_bytes=size_bytes)
        self._commit_once(commit, [each.action for each in files], columns_of(files) if files else FIRST)

    def abandon(self, staging: str) -> None:
        """Remove what `begin` made, as far as it is still there, and unless it was committed or may yet be."""
        attempt = _attempt(staging)
        if f"{self.path}/{DATA}/{attempt}" != staging:
            raise ValueError(f"{staging} is not below {self.path}/{DATA}")
        if attempt in self._in_doubt or any(each.attempt == attempt for each in self.commits()):
            logger.warning("%s: %s stays, it was committed or may have been", self.where, staging)
            return
        with self.translated_errors():
            self.files.delete(staging)

    def settle_rollback(self, *, again: bool) -> Commit:
        """Say how loading goes on after a rollback: with what was taken out, `again`, or behind it.

        That is a commit of its own, with the number after the last one that was taken out: no number comes twice.
        """
        back, reached = self.history(self.delta()).rollback()
        commit = Commit(
            self.topic,
            reached.number + 1,
            Operation.ROLLBACK,
            int(self.clock.wall_s() * 1000),
            (back.offsets if back else {}) if again else reached.offsets,
            schema=reached.schema,
            complete_through_ms=back.complete_through_ms if back else None,
            replaces=tuple(range((back.number if back else 0) + 1, reached.number + 1)),
            extra=back.extra if back else {},
            attempt=uuid4().hex,
        )
        self._commit_once(commit, [], FIRST)
        return commit

    def _commit_once(self, commit: Commit, actions: Sequence[AddAction], columns: pa.Schema) -> None:
        """Write the entry of a commit behind a version in which its number comes next."""
        failure: Exception | None = None
        for _ in range(_TRIES):
            table = self._ensured(columns)
            if self._has_landed(self.history(table), commit):
                return
            try:
                missing = missing_columns(table, columns, self.where)
                if missing:
                    table.alter.add_columns(missing, commit_properties=_once(), post_commithook_properties=HOOKS)
                    continue  # of that version it is not known what came before
                table.create_write_transaction(
                    list(actions),
                    "append",
                    table.schema(),
                    [DATE],
                    commit_properties=_once(commit),
                    post_commithook_properties=HOOKS,
                )
            except CommitFailedError as error:
                failure = error
            except (DeltaError, OSError) as error:
                self._look_whether_it_landed(commit, error)
                return
            else:
                self.sync_log(table.version(), table.version() + 1)
                return
        raise WarehouseError(
            f"{self.where}: others keep changing the table, commit {commit.number} failed: {failure}"
        ) from failure

    def _has_landed(self, history: History, commit: Commit) -> bool:
        """Return whether a commit is the newest already, after a refusal; False says that its number comes next."""
        if commit.operation is Operation.ROLLBACK and history.number < commit.number:
            newest: Commit | None = history.rollback().reached
        else:
            newest = history.newest()
        number = newest.number if newest else 0
        if newest and (number, newest.attempt) == (commit.number, commit.attempt):
            return True  # a store that asks again after a lost answer meets its own work
        if number >= commit.number:
            raise OvertakenError(
                f"{self.where}: another one has committed {commit.number} first; nothing of this one is there. Begin"
                " again from the newest commit"
            )
        if number < commit.number - 1:
            raise WarehouseError(f"{self.where}: commit {commit.number} cannot follow {number or 'none'}")
        return False

    def _look_whether_it_landed(self, commit: Commit, failure: Exception) -> None:
        """Return if a commit is in the table all the same: what failed came after. Raises UnknownOutcomeError."""
        try:
            landed = any(each.attempt == commit.attempt for each in self.commits(after=commit.number - 1))
        except WarehouseError:
            landed = False
        if not landed:
            self._in_doubt.add(commit.attempt)
            raise UnknownOutcomeError(
                f"{self.where}: commit {commit.number} is not there, as far as can be seen. Its files stay: {failure}"
            ) from failure
        logger.warning("%s: commit %d is there, but: %s", self.where, commit.number, failure)

    def staged(self, staging: str) -> list[DataFile]:
        """Read the footers of what a load wrote, and bring it to disk. Files without rows stay out of the table."""
        if f"{self.path}/{DATA}/{_attempt(staging)}" != staging:
            raise ValueError(f"{staging} is no directory that `begin` of {self.where} made")
        if not Path(staging).is_dir():
            raise FileNotFoundError(f"{staging} is gone")
        fsync_tree(staging)
        found = []
        for each in self.files.walk(staging):
            if each.path.endswith(".parquet") and not is_hidden(each.path.removeprefix(f"{staging}/")):
                os.utime(each.path)  # or a cleaning that began before would find it old
                found.append(read_data_file(each, self.path))
        return [each for each in found if each.rows]

    def _ensured(self, columns: pa.Schema) -> DeltaTable:
        """Return the table, made now if it is not there."""
        table = self.opened()
        if table is not None:
            return table
        with self.translated_errors(), suppress(CommitFailedError):  # another one was faster
            DeltaTable.create(
                self.path, first_schema(columns), mode="ignore", partition_by=[DATE], configuration=PROPERTIES
            )
        return self.delta()

    def opened(self) -> DeltaTable | None:
        """Return the table as `delta` does, None when it is not there. Raises WarehouseError."""
        with self.translated_errors():
            if not Path(self.path, LOG).is_dir():
                return None
            try:
                return DeltaTable(self.path)
            except TableNotFoundError:
                return None

    def _check_no_other_format(self) -> None:
        other = next((name for name in self.files.names(self.path) if name.startswith("load_id=")), None)
        if other is not None:
            raise WarehouseError(f"{self.path} is a table of Parquet files, which has {other}: use another warehouse")

    def sync_log(self, *versions: int) -> None:
        """Bring entries to disk: the library does not, and a load that was reported must outlive a power cut."""
        names = [f"{version:020d}.{kind}" for version in versions for kind in ("json", "checkpoint.parquet")]
        with self.translated_errors():
            for name in (*names, "_last_checkpoint"):
                with suppress(FileNotFoundError), Path(self.path, LOG, name).open("rb") as file:
                    os.fsync(file.fileno())
            fsync_directory(Path(self.path, LOG))

    @contextmanager
    def translated_errors(self) -> Iterator[None]:
        """Raise errors of the library and the file system as WarehouseErrors that name topic and table."""
        try:
            yield
        except CommitFailedError:
            raise
        except (OSError, DeltaError) as error:
            said = str(error).partition("\n")[0]  # the library adds where in it that was
            raise WarehouseError(f"{self.where}: {said}") from error


def _attempt(staging: str) -> str:
    return staging.rpartition("/")[2]


def _once(commit: Commit | None = None) -> CommitProperties:
    """Return what forbids the library to try an entry again behind one that came first."""
    if commit is None:
        return CommitProperties(max_commit_retries=0)
    note, transactions = note_of(commit), [Transaction(APPLICATION, commit.number)]
    return CommitProperties(custom_metadata=note, max_commit_retries=0, app_transactions=transactions)
