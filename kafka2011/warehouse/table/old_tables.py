"""Tables of version 0.1.0, directories of Parquet files: which commits they have, and which files count.

    {warehouse}/{name}/load_id=000001/_offsets.json                        a commit
    {warehouse}/{name}/load_id=000001/date=2011-06-12[/hour=09]/*.parquet  its rows

A directory whose rows a compaction has rewritten has its `_offsets.json` alone, or its rows still beside it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from kafka2011.warehouse.errors import WarehouseError
from kafka2011.warehouse.table.commits import Commit, Operation

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

COMMIT = re.compile(r"load_id=([0-9]{6,})")
_OFFSETS = "_offsets.json"
_PLACE = re.compile(r"(date=\d{4}-\d\d-\d\d)(?:/hour=(\d\d))?/([^/=]+)")
_HIDDEN = (".", "_")


class OldFile(NamedTuple):
    """A file of rows: where it is, where it belongs among those of its date, and how many there are."""

    path: Path
    place: str
    rows: int


def read_commits(directory: Path) -> list[Commit]:
    """Return the commits of the table in a directory, oldest first; there is at least one.

    Raises WarehouseError where a commit is missing, or something is there that no load has written, and OSError.
    """
    found = sorted(each.name for each in directory.iterdir()) if directory.is_dir() else []
    commits: list[Commit] = []
    for name in found:
        numbered = COMMIT.fullmatch(name)
        if numbered is None:
            if name.startswith(_HIDDEN):
                continue
            raise WarehouseError(f"{directory}/{name} was written by no load: move it out of the table")
        if int(numbered[1]) != len(commits) + 1:
            raise WarehouseError(f"{directory} has {name} but no commit {len(commits) + 1}: rows are missing")
        commits.append(_read(directory / name / _OFFSETS, len(commits) + 1))
    if not commits:
        raise WarehouseError(f"{directory} is no table of version 0.1.0")
    if {each.topic for each in commits} != {commits[0].topic}:
        raise WarehouseError(f"{directory} has commits of several topics")
    return commits


def _read(path: Path, number: int) -> Commit:
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError as error:
        raise WarehouseError(f"{path} is missing: how far the rows beside it go is unknown") from error
    commit = Commit.from_json(text, str(path))
    if commit.number != number:
        raise WarehouseError(f"{path} says that it is commit {commit.number}")
    return commit


def live_files(directory: Path, commits: Sequence[Commit]) -> list[OldFile]:
    """Return the files of the commits that no compaction has rewritten.

    Raises WarehouseError where their sizes or rows are not those that a commit wrote down, and OSError.
    """
    rewritten = {number for each in commits if each.operation is Operation.COMPACT for number in each.replaces}
    return [file for each in commits if each.number not in rewritten for file in _files_of(directory, each)]


def _files_of(directory: Path, commit: Commit) -> list[OldFile]:
    its_own = directory / f"load_id={commit.number:06d}"
    paths = sorted(its_own.rglob("*.parquet"))
    try:
        files = [OldFile(path, _place(path, its_own, commit.number), pq.read_metadata(path).num_rows) for path in paths]
    except pa.ArrowException as error:
        raise WarehouseError(f"{its_own}: {error}") from error
    size_bytes, rows = sum(path.stat().st_size for path in paths), sum(each.rows for each in files)
    if (size_bytes, rows) != (commit.size_bytes, commit.rows):
        raise WarehouseError(
            f"{its_own} has {rows} rows in {size_bytes} bytes, and its commit wrote {commit.rows} in"
            f" {commit.size_bytes}: files are missing, or were changed"
        )
    return files


def _place(path: Path, within: Path, number: int) -> str:
    found = _PLACE.fullmatch(str(path.relative_to(within)))
    if found is None:
        raise WarehouseError(f"{path} does not lie in a directory of a date: no load has written it")
    day, hour, name = found.groups(default="day")
    return f"{day}/{number:06d}-{hour}-{name}"
