"""Where a warehouse is: a directory of this machine, of HDFS, or of a bucket of S3."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from kafka2011.message.topic import validate_topic
from kafka2011.warehouse.errors import WarehouseError
from kafka2011.warehouse.table.files import LocalFiles
from kafka2011.warehouse.table.s3_environment import check_environment
from kafka2011.warehouse.table.stored_files import StoredFiles

if TYPE_CHECKING:
    from kafka2011.warehouse.table.files import Files

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_STORES = {"hdfs": "hdfs", "s3": "s3", "s3a": "s3"}
"""The schemes of stores, and what we call them: s3a is Hadoop's name for S3."""


def location_of(warehouse: str | Path) -> str:
    """Return an absolute path without a scheme for a local directory, else a URI; neither ends with a slash.

    Raises WarehouseError for a place where no warehouse can be.
    """
    text = str(warehouse)
    scheme = scheme_of(text)
    if scheme in {"", "file"}:
        try:
            path = Path(unquote(urlsplit(text).path) if scheme else text).expanduser().resolve()
        except RuntimeError as error:  # ~ without a home directory
            raise WarehouseError(f"{text} cannot be a warehouse: {error}") from error
        if path.parent == path:
            raise WarehouseError(f"{text} cannot be a warehouse: quarantine lies beside it, in a directory of its own")
        return str(path)
    if scheme not in _STORES:
        raise WarehouseError(f"{text}: a warehouse is a local directory, or hdfs://..., or s3://...")
    parts = urlsplit(text)
    names = [name for name in parts.path.split("/") if name]
    if not parts.netloc or not names or {".", ".."} & set(names):
        example = f"{_STORES[scheme]}://{'namenode:8020' if scheme == 'hdfs' else 'bucket'}/warehouse"
        raise WarehouseError(f"{text} cannot be a warehouse: it has to be a path such as {example}")
    if "@" in parts.netloc:
        raise WarehouseError(f"{scheme}://...@{parts.hostname}: a path must not have a name or password")
    return "/".join([f"{_STORES[scheme]}://{parts.netloc}", *names])


def check_reachable(warehouse: str | Path) -> None:
    """Raise WarehouseError where a warehouse's place cannot be one, or the environment does not say how to reach it.

    No request is sent.
    """
    if scheme_of(location_of(warehouse)) == "s3":
        check_environment(str(warehouse))


def files_of(location: str) -> Files:
    """Return what reads and writes there. Raises MissingExtraError when HDFS needs a library that is not here."""
    return StoredFiles(location) if scheme_of(location) else LocalFiles()


def table_of(location: str, name: str) -> str:
    """Return where a table lies in a warehouse."""
    validate_topic(name)
    return f"{location}/{name}"


def quarantine_of(location: str, name: str) -> str:
    """Return where messages lie that could not be decoded."""
    validate_topic(name)
    return f"{location}-quarantine/{name}"


def scheme_of(location: str) -> str:
    """Return the scheme of a URI, in lower case; empty for a path."""
    match = _SCHEME.match(location)
    return match.group()[:-1].lower() if match else ""
