"""Removing files that no snapshot names: of loads that died, of snapshots that expired, of compactions' past.

Old are files in whose directory, one for each attempt to commit, nothing is young: a commit touches its own before it
begins, so that one that took long is not swept away under it.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

from kafka2011.warehouse.table.iceberg.storage import Storage

if TYPE_CHECKING:
    from pyiceberg.table import Table

logger = logging.getLogger(__name__)

DATA = "data"
_METADATA = "metadata"


class Cleaned(NamedTuple):
    """What was removed: directories of data, files (those in the directories included), and how large they were."""

    directories: int = 0
    files: int = 0
    size_bytes: int = 0


def clean(table: Table, before_s: float) -> Cleaned:
    """Remove what no snapshot names and nobody has written since `before_s`, in seconds since the epoch."""
    storage = Storage(table.io)
    named = _named(table, storage)
    total = Cleaned()
    data = f"{table.location().rstrip('/')}/{DATA}"
    for name, modified_s in storage.directories(data):
        total = _sum(total, _clean_attempt(storage, f"{data}/{name}", modified_s, named, before_s))
    for file in storage.walk(f"{table.location().rstrip('/')}/{_METADATA}"):
        if file.modified_s < before_s and storage.path(file.location) not in named:
            storage.remove_file(file.location)
            total = _sum(total, Cleaned(0, 1, file.size_bytes))
    return total


def _clean_attempt(storage: Storage, location: str, modified_s: float, named: set[str], before_s: float) -> Cleaned:
    files = list(storage.walk(location))
    unnamed = [file for file in files if storage.path(file.location) not in named]
    if max([modified_s, *(file.modified_s for file in files)]) >= before_s or (files and not unnamed):
        return Cleaned()
    size_bytes = sum(file.size_bytes for file in unnamed)
    if len(unnamed) == len(files):
        logger.info("Removing %s: no snapshot names it", location)
        storage.remove_directory(location)
        return Cleaned(1, len(unnamed), size_bytes)
    for file in unnamed:
        storage.remove_file(file.location)
    return Cleaned(0, len(unnamed), size_bytes)


def _named(table: Table, storage: Storage) -> set[str]:
    """Return the paths of all files that the table's metadata leads to, of every snapshot, branch and tag."""
    metadata = table.metadata
    named = {table.metadata_location, *(entry.metadata_file for entry in metadata.metadata_log)}
    named |= {each.statistics_path for each in (*metadata.statistics, *metadata.partition_statistics)}
    manifests: set[str] = set()
    for snapshot in metadata.snapshots:
        named.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(table.io):
            if manifest.manifest_path not in manifests:
                manifests.add(manifest.manifest_path)
                named.update(entry.data_file.file_path for entry in manifest.fetch_manifest_entry(table.io))
    return {storage.path(location) for location in named | manifests}


def _sum(one: Cleaned, other: Cleaned) -> Cleaned:
    return Cleaned(*(a + b for a, b in zip(one, other, strict=True)))
