"""Quarantine: messages that could not be decoded, as JSON lines in a tree beside the tables.

    {warehouse}-quarantine/{topic}/load_id=000007/{attempt}-00000.json

They are written before the load is committed, and count only if the table's commit of that number has that attempt.
What a loader that was killed has left stays: it may be that of another table of the topic, a rebuilt one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka2011.warehouse.errors import WarehouseError
from kafka2011.warehouse.table.commits import Operation, since_swap
from kafka2011.warehouse.table.locations import files_of, location_of, quarantine_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kafka2011.warehouse.table.commits import Commit
    from kafka2011.warehouse.table.files import Files

FILE_BYTES = 16 * 1024 * 1024
"""So much is held in memory, and written as one file."""


def awaiting(commits: Sequence[Commit]) -> list[Commit]:
    """Return the commits of a table whose quarantine counts: those that no redrive has taken over."""
    commits = since_swap(commits)
    done = {number for commit in commits if commit.operation is Operation.REDRIVE for number in commit.replaces}
    return [commit for commit in commits if commit.quarantined and commit.number not in done]


def open_quarantine(warehouse: str, topic: str) -> Quarantine:
    """Return the quarantine of a topic. Raises WarehouseError."""
    location = location_of(warehouse)
    return Quarantine(files_of(location), quarantine_of(location, topic))


class Quarantine:
    """The quarantine of one topic, at `path`."""

    def __init__(self, files: Files, path: str) -> None:
        self._files = files
        self.path = path

    def directory(self, number: int) -> str:
        """Return where the quarantined messages of a commit are."""
        return f"{self.path}/load_id={number:06d}"

    def write(self, number: int, attempt: str, lines: Iterable[str]) -> int:
        """Write lines for an attempt at a commit; return how many files they are in. Raises OSError."""
        held: list[bytes] = []
        size_bytes = files = 0
        for line in lines:
            held.append(line.encode() + b"\n")
            size_bytes += len(held[-1])
            if size_bytes >= FILE_BYTES:
                self._write(number, attempt, files, held)
                files += 1
                held, size_bytes = [], 0
        if held:
            self._write(number, attempt, files, held)
            files += 1
        return files

    def _write(self, number: int, attempt: str, file: int, lines: list[bytes]) -> None:
        self._files.make_directory(self.directory(number))
        self._files.write(f"{self.directory(number)}/{attempt}-{file:05d}.json", b"".join(lines))

    def paths(self, number: int, attempt: str) -> list[str]:
        """Return the files of a commit."""
        directory = self.directory(number)
        return [f"{directory}/{name}" for name in self._files.names(directory) if name.startswith(f"{attempt}-")]

    def read(self, number: int, attempt: str) -> Iterator[tuple[str, bytes]]:
        """Yield path and content of each file of a commit. Raises OSError."""
        for path in self.paths(number, attempt):
            yield path, self._files.read(path)

    def lines(self, commits: Iterable[Commit]) -> Iterator[str]:
        """Yield the lines of commits. Raises WarehouseError where one has not as many as it says, and OSError."""
        for commit in commits:
            texts = [text for _, text in self.read(commit.number, commit.attempt)]
            lines = [line.decode() for text in texts for line in text.splitlines() if line]
            if len(lines) != commit.quarantined:
                raise WarehouseError(
                    f"{self.directory(commit.number)} has {len(lines)} messages, and commit {commit.number} says"
                    f" {commit.quarantined}"
                )
            yield from lines

    def remove(self, number: int, attempt: str) -> None:
        """Remove what an attempt that failed has written."""
        for path in self.paths(number, attempt):
            self._files.delete(path)
