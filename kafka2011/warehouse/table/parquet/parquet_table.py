"""A topic's table as directories of Parquet files, one for each commit.

    {warehouse}/{name}/load_id=000001/_offsets.json                       the commit
    {warehouse}/{name}/load_id=000001/date=2011-06-12[/hour=09]/*.parquet its rows
    {warehouse}-staging/{name}/{attempt}/                                 what no commit has made visible yet

A commit is one rename of a staging directory, offsets included, to the next number. The number is the fence: whoever
comes second finds it taken. A directory stays, with its `_offsets.json`, when a compaction has taken its rows, so that
a loader that was stalled meanwhile finds its number taken too.
"""

from __future__ import annotations

import logging
import re
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import uuid4

from kafka2011.warehouse.errors import OvertakenError, WarehouseError
from kafka2011.warehouse.table.commits import Commit
from kafka2011.warehouse.table.locations import files_of, location_of, quarantine_of, staging_of, table_of
from zk.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from kafka2011.warehouse.table.files import Files
    from zk.clock import Clock

logger = logging.getLogger(__name__)

OFFSETS_NAME = "_offsets.json"
STAGING_LIFETIME_S = 24 * 3600.0
"""A staging directory in which nothing was written for so long is that of a dead load."""

_DIRECTORY = re.compile(r"load_id=([0-9]{6,})")
_HIDDEN = (".", "_")


class ParquetTable:
    """The table of `topic` in a warehouse, a local path or a URI of HDFS; `name` is the topic's unless it is given.

    Raises WarehouseError for an object store, and InvalidTopicError.
    """

    def __init__(
        self,
        warehouse: str | Path,
        topic: str,
        *,
        name: str | None = None,
        spark: SparkSession | None = None,
        files: Files | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        location = location_of(warehouse)
        self.topic = topic
        self.name = name or topic
        self.path = table_of(location, self.name)
        self.staging = staging_of(location, self.name)
        self.quarantine = quarantine_of(location, topic)
        self.files = files or files_of(location, spark)
        self._clock = clock
        self._newest: Commit | None = None  # what `newest` has returned

    def newest(self) -> Commit | None:
        """Return the newest commit, None before the first.

        Raises WarehouseError when a directory has rows without offsets, when a commit is missing, and when the table is
        another topic's.
        """
        with self._translated_errors():
            numbers = self._checked_numbers()
            self._newest = self._read(numbers[-1]) if numbers else None
        if self._newest is not None and self._newest.topic != self.topic:
            raise WarehouseError(f"{self.path} is a table of topic {self._newest.topic}, not of {self.topic}")
        return self._newest

    def commits(self, after: int = 0) -> Sequence[Commit]:
        """Return the commits with larger numbers, oldest first. Raises WarehouseError as `newest` does."""
        with self._translated_errors():
            return [self._read(number) for number in self._checked_numbers() if number > after]

    def begin(self) -> str:
        """Make a staging directory and return its path. Those of dead loads are removed first.

        Raises WarehouseError when it could not be renamed into the table.
        """
        with self._translated_errors():
            self.remove_leftovers()
            staging = f"{self.staging}/{uuid4().hex}"
            self.files.make_directory(self.path)
            self.files.make_directory(staging)
            if not self.files.can_rename(staging, self.path):
                self.files.delete(staging)
                raise WarehouseError(
                    f"{self.staging} and {self.path} are on different file systems, and nothing is renamed from one to"
                    " another: if the warehouse is a mount point, use a directory below it"
                )
            return staging

    def commit(self, staging: str, commit: Commit) -> None:
        """Make the files visible together with their offsets: one rename to the commit's number.

        Fills in `attempt` and `size_bytes`. Raises OvertakenError when the number is taken, or when the commit before
        it is not the one that `newest` has returned.
        """
        attempt = staging.rpartition("/")[2]
        with self._translated_errors():
            rows = [each for each in self.files.walk(staging) if each.path.endswith(".parquet")]
            commit = replace(commit, attempt=attempt, size_bytes=sum(each.size_bytes for each in rows))
            self._check_fits(commit)
            self.files.write(f"{staging}/{OFFSETS_NAME}", commit.to_json().encode())
            try:
                self.files.publish(staging, self.path, directory_name(commit.number), self._follows(commit))
            except FileExistsError as error:
                # A file system that asks again after a lost answer meets its own work.
                if self._read(commit.number).attempt != attempt:
                    raise self._overtaken(commit) from error

    def abandon(self, staging: str) -> None:
        """Remove what `begin` made, as far as it is still there."""
        if not staging.startswith(f"{self.staging}/"):
            raise ValueError(f"{staging} is not below {self.staging}")
        with self._translated_errors():
            self.files.delete(staging)

    def remove_leftovers(self, older_than_s: float = STAGING_LIFETIME_S) -> list[str]:
        """Remove staging directories in which nothing was written for so long, and return their paths.

        A load that is still alive then fails when it commits, with nothing in the table.
        """
        removed = []
        with self._translated_errors():
            for name in self.files.names(self.staging):
                path = f"{self.staging}/{name}"
                try:
                    written_s = max([self.files.modified_s(path), *(each.modified_s for each in self.files.walk(path))])
                except FileNotFoundError:
                    continue  # it was committed or removed just now
                if self._clock.wall_s() - written_s > older_than_s:
                    logger.warning("Removing %s: nothing was written there for %.0f s", path, older_than_s)
                    self.files.delete(path)
                    removed.append(path)
        return removed

    def remove_rows(self, number: int) -> bool:
        """Remove the files of a commit that was replaced, and say whether there were any. Its number stays taken."""
        with self._translated_errors():
            directory = self.directory(number)
            names = [name for name in self.files.names(directory) if name != OFFSETS_NAME]
            for name in names:
                self.files.delete(f"{directory}/{name}")
            return bool(names)

    def directory(self, number: int) -> str:
        """Return where the files of a commit lie."""
        return f"{self.path}/{directory_name(number)}"

    def _checked_numbers(self) -> list[int]:
        numbers = numbers_among(self.files.names(self.path), self.path)
        for number in numbers:
            if OFFSETS_NAME not in self.files.names(self.directory(number)):
                raise WarehouseError(
                    f"{self.directory(number)} has no {OFFSETS_NAME}: how far its rows go is unknown, and loading on"
                    " could repeat or miss some. Move it out of the table if no load has written it"
                )
        return numbers

    def _read(self, number: int) -> Commit:
        path = f"{self.directory(number)}/{OFFSETS_NAME}"
        return Commit.from_json(self.files.read(path).decode("utf-8", "replace"), path)

    def _check_fits(self, commit: Commit) -> None:
        if commit.topic != self.topic:
            raise ValueError(f"a commit of topic {commit.topic} does not belong into {self.path}, of {self.topic}")
        if commit.number < 1:
            raise ValueError(f"{self.path}: the first commit is number 1, not {commit.number}")

    def _follows(self, commit: Commit) -> Callable[[Sequence[str], Callable[[str], bytes]], None]:
        """Return what checks, of the directory that is renamed into, that a commit comes next there."""

        def check(names: Sequence[str], read: Callable[[str], bytes]) -> None:
            last = max(numbers_among(names, self.path), default=0)
            if last >= commit.number:
                raise self._overtaken(commit)
            if last < commit.number - 1:
                raise WarehouseError(f"{self.path}: commit {commit.number} cannot follow {last or 'none'}")
            known = self._newest
            if known is not None and known.number == last:
                path = f"{directory_name(last)}/{OFFSETS_NAME}"
                found = Commit.from_json(read(path).decode("utf-8", "replace"), f"{self.path}/{path}")
                if found.attempt != known.attempt:  # another table was put in its place
                    raise self._overtaken(commit)

        return check

    def _overtaken(self, commit: Commit) -> OvertakenError:
        return OvertakenError(
            f"topic {self.topic}: another one has committed {commit.number} to {self.path} first; nothing of this one"
            " is there. Begin again from the newest commit"
        )

    @contextmanager
    def _translated_errors(self) -> Iterator[None]:
        """Raise errors of the file system as WarehouseErrors that name topic and path."""
        try:
            yield
        except OSError as error:
            raise WarehouseError(f"topic {self.topic}, table {self.path}: {error}") from error


def directory_name(number: int) -> str:
    """Return the name of a commit's directory."""
    return f"load_id={number:06d}"


def numbers_among(names: Sequence[str], path: str) -> list[int]:
    """Return the numbers of the commits among the names in a table's directory, in order.

    Raises WarehouseError for what plain readers would read as rows and no load has written, and for missing numbers.
    """
    numbers = []
    for name in names:
        found = _DIRECTORY.fullmatch(name)
        if found:
            numbers.append(int(found.group(1)))
        elif not name.startswith(_HIDDEN):
            raise WarehouseError(f"{path}/{name} was written by no load: move it out of the table")
    numbers.sort()
    for number, expected in zip(numbers, range(1, len(numbers) + 1), strict=True):
        if number != expected:
            raise WarehouseError(
                f"{path} has commit {number} but not {expected}: rows are missing."
                f" Bring {directory_name(expected)} back"
            )
    return numbers
