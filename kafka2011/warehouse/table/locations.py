"""Where a warehouse is: a directory of this machine, or a URI of a file system whose rename is atomic."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from kafka2011.message.topic import validate_topic
from kafka2011.warehouse.errors import WarehouseError
from kafka2011.warehouse.table.files import LocalFiles

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafka2011.warehouse.table.files import Files

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_HADOOP = ("hdfs", "viewfs")
_OBJECT_STORES = frozenset(
    ("s3", "s3a", "s3n", "gs", "abfs", "abfss", "wasb", "wasbs", "adl", "oss", "cos", "cosn", "obs", "oci", "swift")
)


def location_of(warehouse: str | Path) -> str:
    """Return an absolute path without a scheme for a local directory, else a URI; neither ends with a slash.

    Raises WarehouseError for a place where directories are not renamed atomically.
    """
    text = str(warehouse)
    scheme = scheme_of(text)
    if scheme in {"", "file"}:
        path = Path(unquote(urlsplit(text).path) if scheme else text).expanduser().resolve()
        if path.parent == path:
            raise WarehouseError(f"{text} cannot be a warehouse: staging lies beside it, in a directory of its own")
        return str(path)
    if scheme in _OBJECT_STORES:
        raise WarehouseError(
            f"{text} is an object store, where no directory is renamed atomically: a reader could see half a load, and"
            " two loaders could both succeed. Load into a local directory, or into HDFS"
        )
    if scheme not in _HADOOP:
        raise WarehouseError(f"{text}: a warehouse is a local directory, or one of {' or '.join(_HADOOP)}")
    return text.rstrip("/")


def files_of(location: str, spark: SparkSession | None = None) -> Files:
    """Return what reads and writes there. Raises WarehouseError when Hadoop is needed and no session was given."""
    if not scheme_of(location):
        return LocalFiles()
    if spark is None:
        raise WarehouseError(f"{location} is reached through Hadoop, which needs a Spark session")
    from kafka2011.warehouse.table.hadoop_files import HadoopFiles  # noqa: PLC0415 (needs PySpark)

    return HadoopFiles(spark, location)


def table_of(location: str, name: str) -> str:
    """Return where a table lies in a warehouse."""
    validate_topic(name)
    return f"{location}/{name}"


def staging_of(location: str, name: str) -> str:
    """Return where files lie that no commit of a table has made visible yet."""
    validate_topic(name)
    return f"{location}-staging/{name}"


def quarantine_of(location: str, name: str) -> str:
    """Return where messages lie that could not be decoded."""
    validate_topic(name)
    return f"{location}-quarantine/{name}"


def scheme_of(location: str) -> str:
    """Return the scheme of a URI, in lower case; empty for a path."""
    found = _SCHEME.match(location)
    return found.group()[:-1].lower() if found else ""
