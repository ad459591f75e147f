"""A topic's table, in Delta Lake: a load adds its files and notes its offsets in one entry of the table's log.

    {warehouse}/{topic}/_delta_log/                               the library's: entries, and checkpoints of them
    {warehouse}/{topic}/data/{attempt}/date=2011-06-12/*.parquet  what one load wrote, before and after its commit
    {warehouse}/{topic}/date=2011-06-12/*.parquet                 what compactions wrote

Files are committed where they lie: a commit is one new file in the log. The commit's number is the fence. It is
compared with the very version of the table that the entry is written behind, and the library may not try again behind
another one. A refused commit reads again: the number is free still (somebody has compacted), or it was overtaken.
"""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar
from uuid import uuid4

from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction

from kafka2011.warehouse.errors import GivenUpError, OvertakenError, UnknownOutcomeError, WarehouseError
from kafka2011.warehouse.table.columns import FIRST, first_schema, missing_columns
from kafka2011.warehouse.table.commits import Commit, Operation
from kafka2011.warehouse.table.data_files import DATE, columns_of, is_hidden, read_data_file
from kafka2011.warehouse.table.dataset import live_files
from kafka2011.warehouse.table.given_up import is_given_up
from kafka2011.warehouse.table.history import APPLICATION, COMPACTION, LOG, History, note_of
from kafka2011.warehouse.table.kept_table import KeptTable
from kafka2011.warehouse.table.locations import files_of, location_of, table_of
from kafka2011.warehouse.table.output import Output
from zk.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    import pyarrow as pa
    from deltalake import Field, Schema
    from deltalake.transaction import RemoveAction

    from kafka2011.warehouse.table.data_files import DataFile
    from zk.clock import Clock

logger = logging.getLogger(__name__)

Result = TypeVar("Result")

DATA = "data"
PROPERTIES = {
    "delta.checkpointInterval": "10",  # whoever opens a table reads at most so many entries, one by one
    "delta.enableExpiredLogCleanup": "false",  # cleaning alone removes entries, since it keeps what their commits say
    "delta.deletedFileRetentionDuration": "interval 4 hours",  # longer, and checkpoints are full of what was replaced
}

_RIVALS = 4
_RACES = 3
_TRIES = 20
"""A commit is refused so often by compactions and others that write no commits of ours."""
HOOKS = PostCommitHookProperties(create_checkpoint=True, cleanup_expired_logs=False)


class TopicTable:
    """The table of `topic`, which the first commit makes. `name` is the topic's unless it is given. For one thread.

    Raises WarehouseError where no table can be, and InvalidTopicError.
    """

    def __init__(
        self, warehouse: str | Path, topic: str, *, name: str | None = None, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self.topic = topic
        self.warehouse = str(warehouse)
        self.name = name or topic
        self.path = table_of(location_of(warehouse), self.name)
        if any(sign in self.path for sign in "#?% "):
            raise WarehouseError(f"{self.path} has a #, ?, % or space, which the log of a Delta table writes otherwise")
        self.files = files_of(self.path)
        self.clock = clock
        self.where = f"topic {topic}, table {self.path}"
        self._table = KeptTable(self.files, self.path, self.opened)
        self._in_doubt: set[str] = set()  # attempts that may yet turn out to be in the table
        self._begun: dict[str, int] = {}  # attempts, and the version that the table had when each began

    def delta(self) -> DeltaTable:
        """Return the table as the library knows it, as it is now. Raises WarehouseError when it is not there."""
        table = self.opened()
        if table is None:
            raise WarehouseError(f"{self.where} does not exist")
        return table

    def own(self) -> TopicTable:
        """Return the table of the topic's own name, beside which this one may be."""
        return TopicTable(self.warehouse, self.topic, clock=self.clock)

    def kept(self) -> DeltaTable | None:
        """Return the table as it is now, for use before the next call of a method; None when it is not there."""
        with self.translated_errors():
            return self._table.now()

    def seen(self) -> History | None:
        """Return the commits of the table as it is now, None where it is not there; use it before the next call."""
        table = self.kept()
        return None if table is None else self.history(table)

    def newest(self) -> Commit | None:
        """Return the newest commit, None before the first.

        Raises RolledBackError, and WarehouseError when the table has rows without offsets, or is another topic's.
        """
        history = self.seen()
        return None if history is None else self.newest_in(history)

    def newest_in(self, history: History) -> Commit | None:
        """Return the newest commit of the table as it was seen. Raises as `newest` does."""
        newest = history.newest()
        if newest is not None and newest.topic != self.topic:
            raise WarehouseError(f"{self.path} is a table of topic {newest.topic}, not of {self.topic}")
        return newest

    def commits(self, after: int = 0) -> Sequence[Commit]:
        """Return the commits with larger numbers, oldest first; what stands for forgotten ones too."""
        table = self.opened()
        with self.translated_errors():
            return [] if table is None else self.history(table).commits(after)

    def history(self, table: DeltaTable) -> History:
        """Return the commits of the table as it was opened."""
        return History(table, self.files, self.path, self.where)

    def paths_in(self, table: DeltaTable) -> list[str]:
        """Return the files of the table as it was opened."""
        return [f"{self.path}/{file.path}" for file in live_files(table)]

    def begin(self) -> str:
        """Make a directory for the files of one commit, in the table's own, where readers see no file of it yet."""
        version = self._table.version
        if version is None and (table := self.opened()) is not None:
            version = table.version()
        with self.translated_errors():
            staging = f"{self.path}/{DATA}/{uuid4().hex}"
            self.files.make_directory(staging)
        self._begun[attempt_of(staging)] = -1 if version is None else version
        return staging

    def output(self, staging: str) -> Output:
        """Return what tasks write files with below a directory that `begin` made."""
        return Output(self.files.file_system, self.files.inside(self.path), staging.removeprefix(f"{self.path}/"))

    def commit(
        self,
        staging: str,
        commit: Commit,
        written: Sequence[DataFile] | None = None,
        *,
        instead: Schema | None = None,
    ) -> None:
        """Make the files visible together with their offsets; fills in `attempt` and `size_bytes`.

        `written` are the files that are meant, as whoever has written them to an `output` says; without that, all that
        is there. With `instead` they take the place of the table's, and these columns those of the table.
        Raises OvertakenError when the number is taken, GivenUpError, and UnknownOutcomeError.
        """
        with self.translated_errors():
            files = self.staged(staging) if written is None else self._kept(written)
        if (rows := sum(file.rows for file in files)) != commit.rows:
            raise WarehouseError(f"{self.where}: {staging} has {rows} rows, and commit {commit.number} {commit.rows}")
        size_bytes = sum(file.action.size for file in files)
        commit = replace(commit, attempt=attempt_of(staging), size_bytes=size_bytes)
        self._commit_once(commit, [file.action for file in files], columns_of(files) if files else FIRST, instead)
        self._begun.pop(commit.attempt, None)

    def abandon(self, staging: str) -> None:
        """Remove what `begin` made, as far as it is still there, and unless it was committed or may yet be."""
        attempt = attempt_of(staging)
        if f"{self.path}/{DATA}/{attempt}" != staging:
            raise ValueError(f"{staging} is not below {self.path}/{DATA}")
        if attempt in self._in_doubt or any(commit.attempt == attempt for commit in self.commits()):
            logger.warning("%s: %s stays, it was committed or may have been", self.where, staging)
            return
        self._begun.pop(attempt, None)
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
            schema=(back or reached).schema,  # which the columns that it has now were made for
            complete_through_ms=back.complete_through_ms if back else None,
            replaces=tuple(range((back.number if back else 0) + 1, reached.number + 1)),
            extra=back.extra if back else {},
            attempt=uuid4().hex,
        )
        self._commit_once(commit, [], FIRST)
        return commit

    def _commit_once(
        self, commit: Commit, actions: Sequence[AddAction], columns: pa.Schema, instead: Schema | None = None
    ) -> None:
        """Write the entry of a commit behind a version in which its number comes next."""
        failure: Exception | None = None
        for _ in range(_TRIES):
            table = self._ensured(columns)
            if self._has_landed(self.history(table), commit):
                return
            try:
                missing = [] if instead else missing_columns(table, columns, self.where)
                if missing:
                    self._add_columns(table, missing)
                    continue  # of that version it is not known what came before
                self.write_entry(table, actions, _once(commit), instead)
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
                f"{self.where}: another process has committed {commit.number} first, and this commit was not"
                f" written. Start again from the newest commit"
            )
        if number < commit.number - 1:
            raise WarehouseError(f"{self.where}: commit {commit.number} cannot follow {number or 'none'}")
        return False

    def _look_whether_it_landed(self, commit: Commit, failure: Exception) -> None:
        """Return if a commit is in the table all the same: what failed came after. Raises UnknownOutcomeError."""
        try:
            landed = any(
                landed_commit.attempt == commit.attempt for landed_commit in self.commits(after=commit.number - 1)
            )
        except WarehouseError:
            landed = False
        if not landed:
            self._in_doubt.add(commit.attempt)
            raise UnknownOutcomeError(
                f"{self.where}: commit {commit.number} is not there, as far as can be seen. Its files stay: {failure}"
            ) from failure
        logger.warning("%s: commit %d is in the table, but: %s", self.where, commit.number, failure)

    def _kept(self, files: Sequence[DataFile]) -> Sequence[DataFile]:
        """Return the files if they are all there, and keep a cleaning that began before from finding them old."""
        wanted = {f"{self.path}/{file.action.path}": file.action.size for file in files}
        for path, size_bytes, _ in self.files.keep(list(wanted)):
            if size_bytes != wanted[path]:
                raise WarehouseError(f"{self.where}: {path} has {size_bytes} bytes, and {wanted[path]} were written")
        return files

    def staged(self, staging: str) -> list[DataFile]:
        """Read the footers of what a load wrote, and bring it to disk. Files without rows stay out of the table."""
        if f"{self.path}/{DATA}/{attempt_of(staging)}" != staging:
            raise ValueError(f"{staging} is no directory that `begin` of {self.where} made")
        data_files = [
            read_data_file(file, self.path, self.files)
            for file in self.files.secure(staging)
            if file.path.endswith(".parquet") and not is_hidden(file.path.removeprefix(f"{staging}/"))
        ]
        return [file for file in data_files if file.rows]

    def _ensured(self, columns: pa.Schema) -> DeltaTable:
        """Return the table, made now if it is not there."""
        with self.translated_errors():
            table = self._table.now()
        if table is not None and table.version():
            return table
        with self.translated_errors(), suppress(CommitFailedError):  # another one was faster
            self.asking(
                lambda: DeltaTable.create(
                    self.path,
                    first_schema(columns),
                    mode="ignore",
                    partition_by=[DATE],
                    configuration=PROPERTIES,
                    storage_options=self.files.storage_options,
                )
            )
        if self.files.may_overwrite:
            self._check_fence()
        return self.delta()

    def _check_fence(self) -> None:
        """Write entries of one version at once: where two of them come through, loads would lose their commits.

        The library looks before it writes, so only at the same moment does it show what the store refuses.
        """
        entry = CommitProperties({COMPACTION: "0"}, max_commit_retries=0)

        def write(table: DeltaTable) -> bool:
            try:
                self.write_entry(table, [], entry)
            except CommitFailedError:
                return False
            return True

        with self.translated_errors(), ThreadPoolExecutor(_RIVALS) as threads:
            for _ in range(_RACES):
                if sum(threads.map(write, [self.delta() for _ in range(_RIVALS)])) > 1:
                    raise WarehouseError(
                        f"{self.where}: this store overwrites what it should refuse (it does not know If-None-Match),"
                        " so that two loads at once would lose each other's commits. Use another one"
                    )

    def opened(self) -> DeltaTable | None:
        """Return the table as `delta` does, None when it is not there. Raises WarehouseError."""
        with self.translated_errors():
            if not self.files.may_have(f"{self.path}/{LOG}"):
                return None
            try:
                return self.asking(lambda: DeltaTable(self.path, storage_options=self.files.storage_options))
            except TableNotFoundError:
                return None

    def write_entry(
        self,
        table: DeltaTable,
        actions: Sequence[AddAction | RemoveAction],
        entry: CommitProperties,
        instead: Schema | None = None,
    ) -> None:
        """Write an entry behind the version that was opened; see `commit`. Raises CommitFailedError, GivenUpError."""
        paths = (action.path for action in actions if isinstance(action, AddAction))
        attempts = {attempt for attempt in map(attempt_in, paths) if attempt is not None}
        for attempt in attempts:
            if is_given_up(table, self.files, self.path, attempt, self._begun.get(attempt, -1)):
                raise GivenUpError(
                    f"{self.where}: a cleaning took the files of attempt {attempt} for those of a load that has died,"
                    " and nothing of it is in the table. Load again, and clean with a larger --older-than"
                )
        self.asking(
            lambda: table.create_write_transaction(
                list(actions),
                "append" if instead is None else "overwrite",
                instead or table.schema(),
                [DATE],
                commit_properties=entry,
                post_commithook_properties=HOOKS,
            )
        )
        for attempt in attempts:
            self._begun.pop(attempt, None)

    def _add_columns(self, table: DeltaTable, missing: list[Field]) -> None:
        self.asking(
            lambda: table.alter.add_columns(missing, commit_properties=_once(), post_commithook_properties=HOOKS)
        )

    def asking(self, call: Callable[[], Result]) -> Result:
        """Call the library, which asks the store that the table is in. Raises TimeoutError without an answer."""
        return self.files.bounded(call, self.path)

    def sync_log(self, *versions: int) -> None:
        """Bring entries to disk: the library does not, and a load that was reported must outlive a power cut."""
        names = [f"{version:020d}.{kind}" for version in versions for kind in ("json", "checkpoint.parquet")]
        with self.translated_errors():
            self.files.secure_files(f"{self.path}/{LOG}/{name}" for name in (*names, "_last_checkpoint"))

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


def attempt_of(staging: str) -> str:
    """Return the name of the attempt whose files are in a directory that `begin` has made."""
    return staging.rpartition("/")[2]


def attempt_in(path: str) -> str | None:
    """Return the attempt that wrote a file of the table, by its path there; None for a file from elsewhere."""
    directory, _, rest = path.partition("/")
    attempt, _, name = rest.partition("/")
    return attempt if directory == DATA and name else None


def _once(commit: Commit | None = None) -> CommitProperties:
    """Return what forbids the library to try an entry again behind one that came first."""
    if commit is None:
        return CommitProperties(max_commit_retries=0)
    note, transactions = note_of(commit), [Transaction(APPLICATION, commit.number)]
    return CommitProperties(custom_metadata=note, max_commit_retries=0, app_transactions=transactions)
