"""Files of HDFS, through the Hadoop that comes with Spark; FileContext's rename without options never overwrites there.

Only the driver uses it. On a local path Hadoop looks whether the target is there and renames then, in two steps: two
loaders could both succeed, so there `files.LocalFiles` is used instead.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError

from kafka2011.warehouse.table.files import FileStatus

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from kafka2011.warehouse.table.files import Check

_ERRORS: dict[str, type[OSError]] = {
    "java.io.FileNotFoundException": FileNotFoundError,
    "org.apache.hadoop.fs.FileAlreadyExistsException": FileExistsError,
    "org.apache.hadoop.fs.ParentNotDirectoryException": NotADirectoryError,
    "org.apache.hadoop.security.AccessControlException": PermissionError,
}


class HadoopFiles:
    """Files of the file system that a URI belongs to; paths are URIs too."""

    def __init__(self, spark: SparkSession, uri: str) -> None:
        context = spark.sparkContext
        self._gateway: Any = context._gateway
        self._jvm: Any = context._jvm
        self._fs = self._jvm.org.apache.hadoop.fs
        with _as_os_error(uri):
            self._context = self._fs.FileContext.getFileContext(
                self._jvm.java.net.URI(uri), context._jsc.hadoopConfiguration()
            )

    def names(self, directory: str) -> list[str]:
        """List what is in a directory, sorted; nothing where there is none."""
        try:
            with _as_os_error(directory):
                found = self._context.util().listStatus(self._path(directory))
                return sorted(each.getPath().getName() for each in found)
        except FileNotFoundError:
            return []

    def walk(self, directory: str) -> list[FileStatus]:
        """List all files below a directory, sorted by path; nothing where there is none."""
        found = []
        try:
            with _as_os_error(directory):
                files = self._context.util().listFiles(self._path(directory), True)
                while files.hasNext():
                    each = files.next()
                    found.append(
                        FileStatus(each.getPath().toString(), each.getLen(), each.getModificationTime() / 1000)
                    )
        except FileNotFoundError:
            return []
        return sorted(found)

    def read(self, path: str) -> bytes:
        """Read a whole file. Raises FileNotFoundError."""
        with _as_os_error(path):
            stream = self._context.open(self._path(path))
            try:
                return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
            finally:
                stream.close()

    def write(self, path: str, data: bytes) -> None:
        """Write a whole file, in place of one that is there, and bring it to disk."""
        flag = self._fs.CreateFlag
        with _as_os_error(path):
            options = self._gateway.new_array(self._fs.Options.CreateOpts, 1)
            options[0] = self._fs.Options.CreateOpts.donotCreateParent()
            stream = self._context.create(
                self._path(path), self._jvm.java.util.EnumSet.of(flag.CREATE, flag.OVERWRITE), options
            )
            try:
                stream.write(bytearray(data))
                stream.hsync()
            finally:
                stream.close()

    def make_directory(self, path: str) -> None:
        """Make a directory and those above it, where they are missing."""
        with _as_os_error(path):
            self._context.mkdir(self._path(path), None, True)

    def modified_s(self, path: str) -> float:
        """Return when a file or directory was last changed. Raises FileNotFoundError."""
        with _as_os_error(path):
            modified_ms: int = self._context.getFileStatus(self._path(path)).getModificationTime()
            return modified_ms / 1000

    def delete(self, path: str) -> None:
        """Delete a file, or a directory with all that is in it; it may be gone already."""
        try:
            with _as_os_error(path):
                self._context.delete(self._path(path), True)
        except FileNotFoundError:
            pass

    def can_rename(self, source: str, directory: str) -> bool:  # noqa: ARG002 (the protocol's)
        """Whether both are on one file system: as far as is known, since both have one URI."""
        return True

    def publish(self, source: str, directory: str, name: str, check: Check) -> None:
        """Rename a directory to `name` in another directory, if `check` raises nothing; all in it was closed.

        Raises FileExistsError when the name is taken; nothing moves then.
        """
        check(self.names(directory), lambda path: self.read(f"{directory}/{path}"))
        with _as_os_error(f"{directory}/{name}"):
            options = self._gateway.new_array(self._fs.Options.Rename, 1)
            options[0] = self._fs.Options.Rename.NONE
            self._context.rename(self._path(source), self._path(f"{directory}/{name}"), options)

    def _path(self, text: str) -> Any:
        return self._fs.Path(text)


@contextmanager
def _as_os_error(path: str) -> Iterator[None]:
    """Raise what Hadoop raises as the OSError that stands for it, naming the path."""
    try:
        yield
    except Py4JJavaError as error:
        name = error.java_exception.getClass().getName()
        kind = _ERRORS.get(name, OSError)
        raise kind(f"{path}: {name}: {error.java_exception.getMessage()}") from error
