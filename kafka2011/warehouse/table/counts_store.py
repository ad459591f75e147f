"""Files of counts in a table's own directory, beside what is kept of old commits; readers do not see them.

    {warehouse}/{topic}/_kafka2011/counts/{number}-{attempt}-00000

A commit names its files, each with a digest. They are on disk before it is made, and can go once their counts were
published.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, NamedTuple

from kafka2011.audit.counts_file import MalformedCountsError, decode
from kafka2011.warehouse.errors import WarehouseError
from kafka2011.warehouse.table.counted import CountsFile
from kafka2011.warehouse.table.forgetting import DIRECTORY

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafka2011.audit.counts_file import CountedPart
    from kafka2011.warehouse.table.files import Files

_COUNTS = "counts"


class StoredCounts(NamedTuple):
    """A file of counts as its name tells: its commit, if there is one, and when it was written."""

    path: str
    number: int
    attempt: str
    modified_s: float


class CountsStore:
    """The files of counts of the table at a path."""

    def __init__(self, files: Files, table: str) -> None:
        self._files = files
        self._directory = f"{table}/{DIRECTORY}/{_COUNTS}"

    def write(self, number: int, attempt: str, place: int, data: bytes) -> CountsFile:
        """Write one more file for an attempt at a commit, and return it once it is on disk. Raises OSError."""
        name = f"{number:012d}-{attempt}-{place:05d}"
        self._files.make_directory(self._directory)
        self._files.write(f"{self._directory}/{name}", data)
        self._files.secure_files([f"{self._directory}/{name}"])
        return CountsFile(name, hashlib.sha256(data).hexdigest())

    def read(self, file: CountsFile, topic: str) -> list[CountedPart]:
        """Return what a file of a commit counts. Raises WarehouseError where it is not what the commit has named."""
        path = f"{self._directory}/{file.name}"
        try:
            data = self._files.read(path)
        except OSError as error:
            raise WarehouseError(f"topic {topic}: the counts in {path} cannot be read: {error}") from error
        if hashlib.sha256(data).hexdigest() != file.digest:
            raise WarehouseError(f"topic {topic}: {path} is not the file of counts that its commit names")
        try:
            return decode(data, topic)
        except MalformedCountsError as error:
            raise WarehouseError(f"topic {topic}: {path}: {error}") from error

    def stored(self) -> list[StoredCounts]:
        """List all files. Raises OSError."""
        found = []
        for file in self._files.walk(self._directory):
            number, _, rest = file.path.rpartition("/")[2].partition("-")
            attempt, dash, _ = rest.rpartition("-")
            if dash and number.isdecimal():
                found.append(StoredCounts(file.path, int(number), attempt, file.modified_s))
        return found

    def remove(self, files: Iterable[CountsFile]) -> None:
        """Remove what an attempt that failed has written. Raises OSError."""
        for file in files:
            self._files.delete(f"{self._directory}/{file.name}")
