"""Counts the rows of one attempt at a commit, window by window, into files that the commit names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from kafka2011.audit.counts_file import encode, parts_of_reports
from kafka2011.audit.window_counts import WindowCounts
from kafka2011.audit.windows import Windows
from kafka2011.warehouse.loading.load_job import counted_in
from kafka2011.warehouse.table.counted import CommitCounts, Line
from kafka2011.warehouse.table.counts_store import CountsStore

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa

    from kafka2011.audit.counts_file import CountedPart
    from kafka2011.warehouse.loading.load_job import Count
    from kafka2011.warehouse.table.counted import CountsFile
    from kafka2011.warehouse.table.topic_table import TopicTable

MAX_HELD_MESSAGES = 500_000
"""Of how many messages counts are held in memory, and written as one file."""


class CountsKeeper(Protocol):
    """Keeps the files of counts of attempts; `CountsStore` is one."""

    def write(self, number: int, attempt: str, place: int, data: bytes) -> CountsFile:
        """Write one more file, and return it once it is on disk. Raises OSError."""

    def remove(self, files: Iterable[CountsFile]) -> None:
        """Remove files. Raises OSError."""


class RowCounts:
    """The counts of one attempt. Not thread-safe."""

    def __init__(self, store: CountsKeeper, topic: str, number: int, attempt: str, windows: Windows) -> None:
        self._store = store
        self._topic = topic
        self._number = number
        self._attempt = attempt
        self._held = WindowCounts("", "", "", windows)
        self._files: list[CountsFile] = []
        self._parts = 0
        self._last_ms: int | None = None

    def add(self, counts: Iterable[Count]) -> Sequence[CountedPart]:
        """Count rows; return what was written to a file, if anything. Raises OSError."""
        for count in counts:
            if len(count.ids):
                self._held.add(
                    self._topic, count.published_at_us, count.ids, 0.0, where=count.partition, places=count.places
                )
        return self._write() if self._held.messages >= MAX_HELD_MESSAGES else ()

    def flush(self) -> Sequence[CountedPart]:
        """Write what is held, and return it. Raises OSError."""
        return self._write() if self._held.messages else ()

    def named(self, line: Line, published: int) -> CommitCounts:
        """Return what the commit keeps, which comes after a line, when commits up to a number are published."""
        return CommitCounts(line, tuple(self._files), self._parts, self._last_ms, published)

    def abandon(self) -> None:
        """Remove the files. Raises OSError."""
        self._store.remove(self._files)
        self._files.clear()

    def _write(self) -> Sequence[CountedPart]:
        parts = parts_of_reports(self._held.take())
        self._files.append(self._store.write(self._number, self._attempt, len(self._files), encode(parts)))
        self._parts += len(parts)
        self._last_ms = (
            max(part.start_ms for part in parts)
            if self._last_ms is None
            else max(self._last_ms, *(part.start_ms for part in parts))
        )
        return parts


def count_rows(table: TopicTable, batches: Iterable[pa.RecordBatch], number: int, attempt: str) -> CommitCounts:
    """Count rows of a commit with this number and attempt, into files of the table. Raises OSError."""
    counts = RowCounts(CountsStore(table.files, table.path), table.topic, number, attempt, Windows())
    for batch in batches:
        if batch.num_rows:
            counts.add(counted_in(table.topic, batch))
    counts.flush()
    return counts.named(Line(), 0)
