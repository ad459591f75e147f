"""A table that is opened once and brought up to date since: what it costs does not grow with the files that it has.

Somebody may have removed the table meanwhile, and made another one, which the library would not notice: it only looks
for entries behind those that it knows. So the bytes of one that it knows are compared first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from deltalake.exceptions import DeltaError

from kafka2011.warehouse.table.history import entry_path

if TYPE_CHECKING:
    from collections.abc import Callable

    from deltalake import DeltaTable

    from kafka2011.warehouse.table.files import Files


class _Known(NamedTuple):
    table: DeltaTable
    version: int
    entry: bytes


class KeptTable:
    """The table at a path; whoever gets it uses it up before anybody asks again. For one thread."""

    def __init__(self, files: Files, path: str, open_table: Callable[[], DeltaTable | None]) -> None:
        self._files = files
        self._path = path
        self._open_table = open_table
        self._known: _Known | None = None

    @property
    def version(self) -> int | None:
        """The version that `now` returned last, None where there was none."""
        return None if self._known is None else self._known.version

    def now(self) -> DeltaTable | None:
        """Return the table as it is now, None where there is none. Raises as opening does, and OSError."""
        known, self._known = self._known, None
        table = self._open_table() if known is None or not self._updated(known) else known.table
        if table is not None:
            version = table.version()
            entry = known.entry if known is not None and known.version == version else self._entry(version)
            self._known = None if entry is None else _Known(table, version, entry)
        return table

    def _updated(self, known: _Known) -> bool:
        if self._entry(known.version) != known.entry:
            return False
        try:
            self._files.bounded(known.table.update_incremental, self._path)
        except DeltaError:
            return False  # opening it anew shows what is wrong
        return True

    def _entry(self, version: int) -> bytes | None:
        try:
            return self._files.read(entry_path(self._path, version))
        except FileNotFoundError:
            return None
