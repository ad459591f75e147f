"""What a commit keeps for the audit: where the counts of its rows are, and which commits it came after. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from kafka2011.audit.table_report import LISTED_COMMITS, ListedCommit, TableDoubt
from zk.cluster import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping


class CountsFile(NamedTuple):
    """A file of counts in the table's directory, and the SHA-256 of its bytes, in hex."""

    name: str
    digest: str


@dataclass(frozen=True, slots=True)
class Line:
    """The commits whose rows are in a version of a table, newest first, and what is doubtful of them.

    With `is_whole`, nothing came before the last of `commits`; else older ones are known from older commits. Up to the
    offsets in `earlier`, rows were counted by a release that kept no counts.
    """

    version: int = -1
    commits: tuple[ListedCommit, ...] = ()
    is_whole: bool = True
    doubts: tuple[TableDoubt, ...] = ()
    earlier: Mapping[TopicPartition, int] = field(default_factory=dict)
    newest_ms: int = 0
    """The newest window that any of them counts."""

    def followed_by(self, commit: ListedCommit) -> Self:
        """Return the line with one more commit, and as few as are listed."""
        commits = (commit, *self.commits)
        is_whole = self.is_whole and len(commits) <= LISTED_COMMITS
        newest_ms = max(self.newest_ms, commit.last_ms or 0)
        return replace(self, commits=commits[:LISTED_COMMITS], is_whole=is_whole, newest_ms=newest_ms)

    def doubted(self, doubt: TableDoubt) -> Self:
        """Return the line with one more doubt, which takes the place of the one of its kind, for as long at least."""
        others = tuple(known for known in self.doubts if known.is_removal != doubt.is_removal)
        until_ms = max([doubt.until_ms, *(known.until_ms for known in self.doubts if known not in others)])
        kept = doubt._replace(until_ms=until_ms)
        return replace(self, doubts=(*others, kept))

    @property
    def removals(self) -> set[str]:
        """The names of what was removed from the table."""
        return {doubt.name for doubt in self.doubts if doubt.is_removal}


@dataclass(frozen=True, slots=True)
class CommitCounts:
    """The counts of one commit's rows: `parts` reports in `files`, the newest of the window `last_ms`.

    `line` is what was in the table before it. The counts of all commits up to number `published` were published then.
    """

    line: Line = Line()
    files: tuple[CountsFile, ...] = ()
    parts: int = 0
    last_ms: int | None = None
    published: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return it as what JSON can hold."""
        line = self.line
        return {
            "files": [list(file) for file in self.files],
            "parts": self.parts,
            "last_ms": self.last_ms,
            "published": self.published,
            "newest_ms": line.newest_ms,
            "version": line.version,
            "after": [list(commit) for commit in line.commits],
            "is_whole": line.is_whole,
            "doubts": [list(doubt) for doubt in line.doubts],
            "earlier": {where.znode_name: offset for where, offset in sorted(line.earlier.items())},
        }

    @classmethod
    def of(cls, document: Mapping[str, Any], topic: str) -> Self:
        """Read it. Raises KeyError, TypeError, ValueError, MalformedNode."""
        line = Line(
            int(document["version"]),
            tuple(_listed(*commit) for commit in document["after"]),
            bool(document["is_whole"]),
            tuple(_doubt(*doubt) for doubt in document["doubts"]),
            {TopicPartition.from_znode_name(topic, name): int(end) for name, end in document["earlier"].items()},
            int(document["newest_ms"]),
        )
        files = tuple(CountsFile(str(name), str(digest)) for name, digest in document["files"])
        return cls(line, files, int(document["parts"]), _or_none(document["last_ms"]), int(document["published"]))


def _listed(number: int, attempt: str, parts: int, last_ms: int | None) -> ListedCommit:
    return ListedCommit(int(number), str(attempt), int(parts), _or_none(last_ms))


def _doubt(name: str, until_ms: int, why: str, is_removal: bool) -> TableDoubt:
    return TableDoubt(str(name), int(until_ms), str(why), bool(is_removal))


def _or_none(value: int | None) -> int | None:
    return None if value is None else int(value)
