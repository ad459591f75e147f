"""Local files that are on disk before anything names them.

pyiceberg syncs none: after a power cut the catalogue, which does, could name metadata that was lost, and a table with
it.
"""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import TYPE_CHECKING, cast

from pyarrow.fs import LocalFileSystem
from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO

from kafka2011.disk import fsync_directory

if TYPE_CHECKING:
    from pyiceberg.io import OutputStream


class SyncedFileIO(PyArrowFileIO):
    """pyiceberg's, for the property `py-io-impl` of a catalogue."""

    def new_output(self, location: str) -> PyArrowFile:
        """Return what writes a file."""
        output = super().new_output(location)
        scheme, netloc, path = self.parse_location(location, self.properties)
        fs = self.fs_by_scheme(scheme, netloc)
        return SyncedFile(location, path, fs) if isinstance(fs, LocalFileSystem) else output


class SyncedFile(PyArrowFile):
    """A local file that is synced when it is closed, with the directory that it is in."""

    def create(self, overwrite: bool = False) -> OutputStream:
        """Open it for writing. Raises FileExistsError unless it may be overwritten."""
        path = Path(self._path)
        path.parent.mkdir(parents=True, exist_ok=True)
        return cast("OutputStream", io.BufferedWriter(_Synced(path, "wb" if overwrite else "xb")))


class _Synced(io.FileIO):
    def close(self) -> None:
        if not self.closed:
            os.fsync(self.fileno())
            fsync_directory(os.path.dirname(self.name))  # noqa: PTH120 (it is text)
        super().close()
