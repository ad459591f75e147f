"""What a table says of each of its commits: how far every partition was loaded, and what came of it.

Pure. The newest commit of a table is the only place where its offsets are stored; see `topic_table`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Self

from kafka2011.json_document import read_document
from kafka2011.warehouse.errors import MalformedCommitError
from kafka2011.warehouse.table.counted import CommitCounts
from zk.cluster import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

VERSION = 1
WATERMARK = "seen_ms"
"""The name, among the extra fields, of when the ends that a counted load has reached were looked up."""
AUDIT_ENDS = "audit_ends"
"""The same of the topic `audit`: where its partitions ended when the windows were judged that are complete."""
_COUNTS = ("start", "end", "rows", "quarantined", "lost_bytes", "empty_bytes")


class Operation(StrEnum):
    """What a commit did."""

    LOAD = "load"
    SWAP = "swap"
    """Put the rows and the offsets of a rebuilt table in place of all that was there."""
    FORGOTTEN = "forgotten"
    """Stands for commits whose entries a cleaning has removed: what they came to, see `forgetting`."""
    REDRIVE = "redrive"
    """Decoded messages that `replaces` had put into quarantine; no partition moved."""
    ROLLBACK = "rollback"
    """Took note that the commits that it `replaces` were rolled back; its offsets are where to go on."""


@dataclass(frozen=True, slots=True)
class LoadedRange:
    """What one commit read of one partition: from byte `start` of the log to byte `end`, all of it accounted for.

    `lost_bytes` were no longer in the log, `empty_bytes` belonged to compressed sets without a message: of both there
    are no rows. The rest is covered by `rows` and by `quarantined` messages.
    """

    partition: TopicPartition
    start: int
    end: int
    rows: int = 0
    quarantined: int = 0
    lost_bytes: int = 0
    empty_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit of a table: everything that the next load and a reader of the table must know of it.

    `offsets` has every partition that was ever loaded, moved by this commit or not: the next load starts there.
    Events published before `complete_through_ms` are all in the table, as far as the audit can tell; None: unknown.
    `schema` is the number of the topic's newest schema when it was made.
    `replaces` are numbers of earlier commits. `counts` is what the audit counts of it, None where nobody counted;
    `was_counted` says that a release did so which kept no counts.
    """

    topic: str
    number: int
    operation: Operation
    written_at_ms: int
    offsets: Mapping[TopicPartition, int]
    ranges: tuple[LoadedRange, ...] = ()
    rows: int = 0
    quarantined: int = 0
    size_bytes: int = 0
    schema: int = 0
    complete_through_ms: int | None = None
    replaces: tuple[int, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)
    """What reports and others write down with it; JSON."""
    attempt: str = ""
    """Tells it from another attempt at the same number: the name of its staging directory. Tables fill it in."""
    counts: CommitCounts | None = None
    was_counted: bool = False

    def to_json(self) -> str:
        """Return it as JSON text."""
        counts = {} if self.was_counted else {"counts": None if self.counts is None else self.counts.to_json()}
        return json.dumps(
            {
                "version": VERSION,
                "topic": self.topic,
                "number": self.number,
                "kind": self.operation.value,
                "written_at_ms": self.written_at_ms,
                "offsets": {where.znode_name: offset for where, offset in sorted(self.offsets.items())},
                "ranges": [
                    {"partition": loaded.partition.znode_name, **{name: getattr(loaded, name) for name in _COUNTS}}
                    for loaded in self.ranges
                ],
                "rows": self.rows,
                "quarantined": self.quarantined,
                "size_bytes": self.size_bytes,
                "schema": self.schema,
                "complete_through_ms": self.complete_through_ms,
                "replaces": list(self.replaces),
                "extra": dict(self.extra),
                "attempt": self.attempt,
                **counts,
            },
            indent=1,
        )

    @classmethod
    def from_json(cls, text: str, where: str) -> Self:
        """Read it. Raises MalformedCommitError, naming `where` it stood."""
        complaint = f"{where} is not what a load writes"
        return read_document(text, cls._of, MalformedCommitError, complaint, version=VERSION)

    @classmethod
    def _of(cls, document: dict[str, Any]) -> Self:
        topic, counts = document["topic"], document.get("counts")
        return cls(
            topic,
            int(document["number"]),
            Operation(document["kind"]),
            int(document["written_at_ms"]),
            {TopicPartition.from_znode_name(topic, name): int(offset) for name, offset in document["offsets"].items()},
            tuple(_range(topic, stored) for stored in document["ranges"]),
            int(document["rows"]),
            int(document["quarantined"]),
            int(document["size_bytes"]),
            int(document["schema"]),
            document["complete_through_ms"],
            tuple(map(int, document["replaces"])),
            document["extra"],
            document["attempt"],
            None if counts is None else CommitCounts.of(counts, topic),
            "counts" not in document and WATERMARK in document["extra"],
        )


def together(ranges: Iterable[LoadedRange]) -> tuple[LoadedRange, ...]:
    """Return one range for each partition that has some, in order, with what they come to."""
    by_partition: dict[TopicPartition, LoadedRange] = {}
    for loaded in ranges:
        before = by_partition.get(loaded.partition, LoadedRange(loaded.partition, loaded.start, loaded.end))
        sums = (getattr(before, name) + getattr(loaded, name) for name in _COUNTS[2:])
        by_partition[loaded.partition] = LoadedRange(loaded.partition, before.start, loaded.end, *sums)
    return tuple(by_partition.values())


def since_swap(commits: Sequence[Commit]) -> Sequence[Commit]:
    """Return the commits that have brought what is in a table: the newest swap, and those behind it."""
    swaps = (place for place, commit in enumerate(commits) if commit.operation is Operation.SWAP)
    return commits[max(swaps, default=0) :]


def unpublished(commits: Sequence[Commit]) -> list[Commit]:
    """Return the commits whose counts are not known to be published, as the newest counted one of them says."""
    published = next((commit.counts.published for commit in reversed(commits) if commit.counts is not None), 0)
    return [commit for commit in commits if commit.number > published and commit.counts is not None]


def _range(topic: str, stored: Mapping[str, Any]) -> LoadedRange:
    numbers = {name: int(stored[name]) for name in _COUNTS}
    return LoadedRange(TopicPartition.from_znode_name(topic, stored["partition"]), **numbers)
