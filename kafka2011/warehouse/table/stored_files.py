"""Files in a store that several machines reach: HDFS, and S3 or what speaks like it.

The log of a table is the library's: deltalake writes it, with clients of its own. All other files go through PyArrow's
file systems: that of S3 comes with it, HDFS is one of fsspec's that needs no Java. Both find out for themselves where
the store is and who may use it, on the driver and on each executor: from AWS_* in the environment or from the machine's
role, and from Hadoop's configuration in HADOOP_CONF_DIR. Neither keys nor passwords pass through here.
"""

from __future__ import annotations

import time
from functools import cache
from typing import TYPE_CHECKING, TypeVar

from pyarrow.fs import AwsStandardS3RetryStrategy, FileSelector, FileSystem, FileType, S3FileSystem

from kafka2011.errors import missing_extra
from kafka2011.warehouse.table.files import FileStatus
from kafka2011.warehouse.table.s3_environment import check_environment, endpoint, region

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyarrow.fs import FileInfo

Result = TypeVar("Result")

CONNECT_TIMEOUT_S = 5
REQUEST_TIMEOUT_S = 20
"""A store that is silent for so long is asked again, or given up."""
TRIES = 4
TOO_OLD_S = 12 * 3600.0
"""Nobody can make a file in a store younger, so a cleaning may take one that a load wrote longer ago."""


class StoredFiles:
    """Files of the store that a URI belongs to; paths are URIs too."""

    def __init__(self, uri: str, clock_s: Callable[[], float] = time.time) -> None:
        scheme, _, rest = uri.partition("://")
        if scheme == "s3":
            check_environment(uri)
        self._has_directories = scheme == "hdfs"
        self._root = f"{scheme}://" if scheme == "s3" else f"{scheme}://{rest.partition('/')[0]}"
        self._clock_s = clock_s
        self.may_overwrite = scheme == "s3"
        self.storage_options = _s3_options() if scheme == "s3" else {}
        self.file_system = _s3(endpoint(), region()) if scheme == "s3" else _hdfs(rest.partition("/")[0])

    def inside(self, path: str) -> str:
        """Return the path as `file_system` takes it."""
        return path.removeprefix(self._root)

    def bounded(self, call: Callable[[], Result], path: str) -> Result:
        """Call something that asks the store. Raises TimeoutError, naming the path, when HDFS does not answer.

        S3's clients have limits of their own, those of HDFS have not.
        """
        if not self._has_directories:
            return call()
        from kafka2011.warehouse.table.hdfs import bounded  # noqa: PLC0415 (needs an extra)

        return bounded(call, path)

    def may_have(self, directory: str) -> bool:  # noqa: ARG002 (the protocol's)
        """Say that it may be: whoever opens it asks the store anyway."""
        return True

    def names(self, directory: str) -> list[str]:
        """List what is in a directory, sorted; nothing where there is none."""
        return sorted(info.base_name for info in self._list(directory, recursive=False))

    def walk(self, directory: str) -> list[FileStatus]:
        """List all files below a directory, sorted by path; nothing where there is none."""
        files = [info for info in self._list(directory) if info.type == FileType.File]
        return sorted(map(self._status, files))

    def read(self, path: str) -> bytes:
        """Read a whole file. Raises FileNotFoundError."""
        with self.file_system.open_input_file(self.inside(path)) as file:
            return bytes(file.read())

    def write(self, path: str, data: bytes) -> None:
        """Write a whole file, in place of one that is there; the store keeps it once this returns."""
        with self.file_system.open_output_stream(self.inside(path)) as file:
            file.write(data)

    def make_directory(self, path: str) -> None:
        """Make a directory and those above it in HDFS; S3 has none."""
        if self._has_directories:
            self.file_system.create_dir(self.inside(path), recursive=True)

    def delete(self, path: str) -> None:
        """Delete a file, or a directory with all that is in it; it may be gone already."""
        try:
            [info] = self.file_system.get_file_info([self.inside(path)])
            if info.type == FileType.Directory:
                self.file_system.delete_dir(self.inside(path))
            elif info.type == FileType.File:
                self.file_system.delete_file(self.inside(path))
        except FileNotFoundError:
            pass

    def old_directories(self, directory: str, prefix: str, before_s: float) -> list[str]:
        """Return the directories in a directory, of names with a prefix, in which nothing was written since."""
        old = []
        for info in self._list(directory, recursive=False):
            if info.type == FileType.Directory and info.base_name.startswith(prefix):
                path = self._root + info.path
                if max(map(_modified_s, [info, *self._list(path)])) < before_s:
                    old.append(path)
        return sorted(old)

    def secure(self, directory: str) -> list[FileStatus]:
        """List all files below a directory. Raises OSError when a cleaning may soon find them old."""
        return self._young(self.walk(directory))

    def keep(self, paths: Iterable[str]) -> list[FileStatus]:
        """Return these files. Raises FileNotFoundError when one is gone, and OSError as `secure` does."""
        infos: list[FileInfo] = self.file_system.get_file_info([self.inside(path) for path in paths])
        for info in infos:
            if info.type != FileType.File:
                raise FileNotFoundError(f"{self._root}{info.path} is gone")
        return self._young([self._status(info) for info in infos])

    def _young(self, files: list[FileStatus]) -> list[FileStatus]:
        for file in files:
            if self._clock_s() - file.modified_s > TOO_OLD_S:
                raise OSError(f"{file.path} was written more than {TOO_OLD_S / 3600:.0f} hours ago: load it again")
        return files

    def _status(self, info: FileInfo) -> FileStatus:
        return FileStatus(self._root + info.path, info.size, _modified_s(info))

    def secure_files(self, paths: Iterable[str]) -> None:
        """Nothing is left to do: what a store has taken, it keeps."""

    def _list(self, directory: str, *, recursive: bool = True) -> list[FileInfo]:
        selector = FileSelector(self.inside(directory), allow_not_found=True, recursive=recursive)
        infos: list[FileInfo] = self.file_system.get_file_info(selector)
        return infos


def _modified_s(info: FileInfo) -> float:
    """Return when it was changed; S3 does not say it of what it shows as a directory."""
    return 0.0 if info.mtime is None else info.mtime.timestamp()


def _s3_options() -> dict[str, str]:
    """Return the limits of deltalake's client, and that it may speak plain HTTP to an endpoint that says so."""
    options = {
        "connect_timeout": f"{CONNECT_TIMEOUT_S}s",
        "timeout": f"{REQUEST_TIMEOUT_S}s",
        "max_retries": str(TRIES - 1),
        "retry_timeout": f"{REQUEST_TIMEOUT_S * TRIES}s",
    }
    if endpoint().startswith("http://"):
        options["allow_http"] = "true"
    return options


@cache
def _s3(url: str, name: str) -> FileSystem:
    return S3FileSystem(
        endpoint_override=url or None,
        region=name or None,
        connect_timeout=CONNECT_TIMEOUT_S,
        request_timeout=REQUEST_TIMEOUT_S,
        retry_strategy=AwsStandardS3RetryStrategy(max_attempts=TRIES),
        allow_delayed_open=True,  # a small file is one request then
    )


@cache
def _hdfs(authority: str) -> FileSystem:
    try:
        from kafka2011.warehouse.table.hdfs import hdfs  # noqa: PLC0415 (as above)
    except ImportError as error:
        raise missing_extra(error) from error
    return hdfs(authority)
