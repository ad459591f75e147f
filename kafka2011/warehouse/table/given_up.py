"""Attempts at commits whose files a cleaning removes, named in the log before it does, so that none is committed.

A cleaning cannot know whether somebody still means to commit files that no entry names. So it first writes an entry
that names their attempts, behind the version in which it saw that nothing of them is in the table. Whoever commits
writes behind a version too, in which the attempt must not have been given up. Of the two entries one comes first, and
the other writer reads it and stops. No clock takes part in that, so it holds whatever age of files was asked for.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from deltalake import CommitProperties, Transaction

from kafka2011.warehouse.table.history import COMPACTION, read_entry

if TYPE_CHECKING:
    from collections.abc import Iterable

    from deltalake import DeltaTable

    from kafka2011.warehouse.table.files import Files

_GIVEN_UP = "kafka2011.given_up"
"""The key of the attempts in an entry. As an application, its number is the version of the newest such entry."""


def giving_up(table: DeltaTable, attempts: Iterable[str]) -> CommitProperties:
    """Return what the next entry of a table says to give up attempts. It fails if that is not the next entry."""
    said = {"attempts": sorted(attempts), "before": table.transaction_version(_GIVEN_UP)}
    return CommitProperties(
        custom_metadata={_GIVEN_UP: json.dumps(said, separators=(",", ":")), COMPACTION: "0"},  # it brings no rows
        max_commit_retries=0,
        app_transactions=[Transaction(_GIVEN_UP, table.version() + 1)],
    )


def is_given_up(table: DeltaTable, files: Files, path: str, attempt: str, after: int) -> bool:
    """Return whether an entry behind version `after` of the table at a path has given up an attempt.

    True where such an entry is no longer in the log: nobody can tell then.
    """
    version = table.transaction_version(_GIVEN_UP)
    while version is not None and version > after:
        entry = read_entry(files, path, version)
        if entry is None or _GIVEN_UP not in entry:
            return True
        said = json.loads(entry[_GIVEN_UP])
        if attempt in said["attempts"]:
            return True
        version = said["before"]
    return False
