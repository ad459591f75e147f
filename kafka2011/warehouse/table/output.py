"""Where the tasks of a load put their files: below one directory, of any file system that PyArrow can write to."""

from __future__ import annotations

import io
import os
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pyarrow.fs import FileSystem, LocalFileSystem

from kafka2011.disk import fsync_directory

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyarrow import NativeFile


class Output(NamedTuple):
    """The directory `staging` in the table at `table`, a path of `filesystem`. Pickles; all raises OSError."""

    filesystem: FileSystem
    table: str
    staging: str

    @contextmanager
    def create(self, name: str) -> Iterator[NativeFile]:
        """Open a new file in `staging` for writing; it survives a power cut once the block has ended without an error.

        Of directories only the last one is made, so that a task that nobody waits for any more writes nowhere.
        """
        path = f"{self.table}/{self.staging}/{name}"
        is_local = isinstance(self.filesystem, LocalFileSystem)
        if is_local:
            with suppress(FileExistsError):
                Path(path).parent.mkdir()
                fsync_directory(Path(path).parent.parent)
        with self.filesystem.open_output_stream(path) as file:
            yield file
        if is_local:
            with Path(path).open("rb") as written:
                os.fsync(written.fileno())
            fsync_directory(Path(path).parent)

    def lines(self, name: str) -> Iterator[str]:
        """Yield the lines of a file in `staging`, without what ends them."""
        with self.filesystem.open_input_stream(f"{self.table}/{self.staging}/{name}") as file:
            for line in io.TextIOWrapper(file, "utf-8", newline="\n"):
                yield line.rstrip("\n")

    def delete(self, name: str) -> None:
        """Delete a file in `staging`."""
        self.filesystem.delete_file(f"{self.table}/{self.staging}/{name}")
