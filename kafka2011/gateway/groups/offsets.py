"""What groups have committed, in numbers of messages: read from 0.7's offsets and their notes, and written as those."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from gevent.pool import Pool

from kafka2011.gateway.groups.places import CommitPlace
from kafka2011.gateway.partitions import CURRENT_S
from kafka2011.gateway.protocol.errors import ErrorCode
from kafka2011.wire.protocol import LATEST
from zk.commit_notes import CommitNotes, GroupCommit
from zk.errors import MalformedNode, ZkError
from zk.offsets import MAX_INT64

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from kafka2011.gateway.catalogue import Catalogue
    from kafka2011.gateway.groups.lookups import Lookups, TopicNumber
    from zk.cluster import TopicPartition
    from zk.gateways import PartitionList

K = TypeVar("K")
T = TypeVar("T")

logger = logging.getLogger(__name__)

AT_ONCE = 8
"""How many places of one request are looked up at once: each may wait for a broker."""


class NumberedCommit(NamedTuple):
    """The number of the next message that a group wants of a partition, and what its client has written beside it."""

    number: int
    metadata: str = ""


NOTHING = NumberedCommit(-1)
"""What is answered where a group has committed nothing."""


class GroupOffsets:
    """Reads and writes the offsets of groups. Raises ZkError while ZooKeeper is away.

    One call waits no longer than CURRENT_S for brokers; what is not known by then is UNAVAILABLE.
    """

    def __init__(self, catalogue: Catalogue, lookups: Lookups, notes: CommitNotes) -> None:
        self._catalogue = catalogue
        self._lookups = lookups
        self._notes = notes
        self._numbers: dict[str, tuple[PartitionList, dict[TopicPartition, int]]] = {}

    def committed(self, group: str) -> list[TopicNumber]:
        """List the partitions of which a group has offsets, and which clients know."""
        every = [self.name_of(where) for where in self._notes.partitions(group)]
        return sorted(name for name in every if name is not None)

    def name_of(self, where: TopicPartition) -> TopicNumber | None:
        """Return what clients call a partition; None for one that has no number."""
        known = self._catalogue.lists.get(where.topic)
        if known is None:
            return None
        numbered, numbers = self._numbers.get(where.topic, (None, {}))
        if numbered is not known:
            numbers = {each: number for number, each in enumerate(known.partitions)}
            self._numbers[where.topic] = known, numbers
        return (where.topic, numbers[where]) if where in numbers else None

    def read(self, group: str, wanted: Collection[TopicNumber]) -> dict[TopicNumber, NumberedCommit | ErrorCode]:
        """Return what a group has committed of partitions; NOTHING where it has not, and behind the end of a log."""
        by_where = {where: name for name in wanted if (where := self._catalogue.partition(*name)) is not None}
        commits = self._notes.read_many(group, by_where)
        ends_s = time.monotonic() + CURRENT_S
        found = _at_once(
            lambda where: self._number_of(by_where[where], where, commits[where], ends_s - time.monotonic()), commits
        )
        known = {by_where[where]: answer for where, answer in found.items()}
        return {name: known.get(name, NOTHING) for name in wanted}

    def place(
        self, commits: Mapping[TopicNumber, NumberedCommit]
    ) -> tuple[dict[TopicPartition, GroupCommit], dict[TopicNumber, ErrorCode]]:
        """Return commits as ZooKeeper keeps them, and why others cannot be made."""
        ends_s = time.monotonic() + CURRENT_S
        found = _at_once(lambda name: self._place_of(name, commits[name], ends_s - time.monotonic()), commits)
        errors = {name: answer for name, answer in found.items() if isinstance(answer, ErrorCode)}
        placed = {}
        for name, answer in found.items():
            where = self._catalogue.partition(*name)
            if where is not None and not isinstance(answer, ErrorCode):
                placed[where] = answer
        return placed, errors

    def write(self, group: str, commits: Mapping[TopicNumber, NumberedCommit]) -> dict[TopicNumber, ErrorCode]:
        """Commit for a group without members, whatever it had committed; return what became of each."""
        placed, errors = self.place(commits)
        outcomes = dict.fromkeys(commits, ErrorCode.NONE) | errors
        for where, outcome in self._notes.write_many(group, placed).items():
            name = self.name_of(where)
            if name is not None and isinstance(outcome, ZkError):
                logger.warning("group %s: the offset of %s was not written: %s", group, where, outcome)
                outcomes[name] = ErrorCode.COORDINATOR_NOT_AVAILABLE
        return outcomes

    def delete(self, group: str, names: Collection[TopicNumber]) -> dict[TopicNumber, ErrorCode]:
        """Forget what a group has committed of partitions; return what became of each."""
        by_name = {name: self._catalogue.partition(*name) for name in names}
        self._notes.delete(group, [where for where in by_name.values() if where is not None])
        return {
            name: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if where is None else ErrorCode.NONE
            for name, where in by_name.items()
        }

    def _number_of(
        self, name: TopicNumber, where: TopicPartition, commit: GroupCommit | MalformedNode, timeout_s: float
    ) -> NumberedCommit | ErrorCode:
        if isinstance(commit, MalformedNode):
            logger.warning("an offset cannot be read: %s", commit)
            return ErrorCode.UNKNOWN_SERVER_ERROR
        if commit.number is not None and commit.number < 0:
            return NumberedCommit(commit.number, commit.metadata)
        looked = self._lookups.number_of(name, CommitPlace(commit.position, commit.within), timeout_s)
        if looked.error:
            return looked.error
        if looked.number < 0:
            logger.warning("%s: position %d, which was committed, is behind the end of the log", where, commit.position)
            return NOTHING
        # Of a number that was above the log's end, the place is that end; below the log's start, the start counts.
        return NumberedCommit(max(looked.number, commit.number or 0), commit.metadata)

    def _place_of(self, name: TopicNumber, commit: NumberedCommit, timeout_s: float) -> GroupCommit | ErrorCode:
        nearest = MAX_INT64 if commit.number == LATEST else max(commit.number, 0)
        looked = self._lookups.place_of(name, nearest, timeout_s)
        number = None if looked.number == commit.number else commit.number
        return looked.error or GroupCommit(*looked.place, commit.metadata, number=number)


def _at_once(look_up: Callable[[K], T], keys: Collection[K]) -> dict[K, T]:
    every = list(keys)
    answers = Pool(AT_ONCE).map(look_up, every) if len(every) > 1 else map(look_up, every)
    return dict(zip(every, answers, strict=True))
