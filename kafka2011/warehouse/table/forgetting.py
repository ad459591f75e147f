"""What is kept of commits whose entries of the log are removed: what waits in quarantine, and what all came to.

    {warehouse}/{topic}/_kafka2011/commits-000000028800.json   of the commits up to that number

A newer file takes in what the older ones say. The last two stay: the newest may have been cut short by a power cut,
before any entry was removed that only it knows.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from kafka2011.json_document import read_document
from kafka2011.warehouse.errors import MalformedCommitError
from kafka2011.warehouse.table.commits import Commit, Operation, since_swap, together, unpublished
from kafka2011.warehouse.table.quarantine import awaiting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafka2011.warehouse.table.files import Files

DIRECTORY = "_kafka2011"
"""Readers, and the library's cleaning, leave directories alone whose names begin so."""
_PREFIX = "commits-"
_LOADS = "loads"
_VERSION = 1
_KEPT = frozenset({Operation.ROLLBACK, Operation.SWAP})


def loads_in(commit: Commit) -> int:
    """Return how many loads a commit stands for."""
    if commit.operation is Operation.FORGOTTEN:
        return int(commit.extra[_LOADS])
    return int(commit.operation is Operation.LOAD)


def summary_of(commits: Sequence[Commit]) -> list[Commit]:
    """Return fewer commits that say the same of quarantine, counts to be published, rollbacks and swaps."""
    commits = since_swap(commits)
    waiting = {commit.number for commit in (*awaiting(commits), *unpublished(commits)) if _has_files(commit)}
    kept = [commit for commit in commits if commit.number in waiting or commit.operation in _KEPT]
    rest = [commit for commit in commits if commit not in kept]
    if not rest:
        return kept
    rows, size_bytes = sum(commit.rows for commit in rest), sum(commit.size_bytes for commit in rest)
    ranges = together(its_range for commit in rest for its_range in commit.ranges)
    of_all = Commit(
        rest[-1].topic,
        rest[-1].number,
        Operation.FORGOTTEN,
        rest[-1].written_at_ms,
        {},
        ranges,
        rows,
        size_bytes=size_bytes,
        extra={_LOADS: sum(loads_in(commit) for commit in rest)},
    )
    return sorted([*kept, of_all], key=lambda commit: commit.number)


def _has_files(commit: Commit) -> bool:
    """Say whether a commit names files that are still wanted: of quarantine, or of counts."""
    return bool(commit.quarantined or (commit.counts is not None and commit.counts.files))


def keep(files: Files, table: str, commits: Sequence[Commit]) -> None:
    """Write down what is to be kept of commits, all that are known up to some number. Raises OSError."""
    names = _names(files, table)
    document = {"version": _VERSION, "commits": [json.loads(commit.to_json()) for commit in summary_of(commits)]}
    files.make_directory(f"{table}/{DIRECTORY}")
    path = f"{table}/{DIRECTORY}/{_PREFIX}{commits[-1].number:012d}.json"
    files.write(path, json.dumps(document, separators=(",", ":")).encode())
    files.secure_files([path])
    for name in names[:-1]:
        files.delete(f"{table}/{DIRECTORY}/{name}")


def kept_commits(files: Files, table: str) -> list[Commit]:
    """Return what was kept, oldest first. Raises MalformedCommitError, and OSError."""
    failure: MalformedCommitError | None = None
    for name in reversed(_names(files, table)):
        path = f"{table}/{DIRECTORY}/{name}"
        try:
            text = files.read(path).decode("utf-8", "replace")
            return read_document(text, _commits, MalformedCommitError, f"{path} is malformed", version=_VERSION)
        except MalformedCommitError as error:
            failure = failure or error
    if failure is not None:
        raise failure
    return []


def _names(files: Files, table: str) -> list[str]:
    return [name for name in files.names(f"{table}/{DIRECTORY}") if name.startswith(_PREFIX)]


def _commits(document: dict[str, Any]) -> list[Commit]:
    return [Commit.from_json(json.dumps(commit), "what was kept of a commit") for commit in document["commits"]]
