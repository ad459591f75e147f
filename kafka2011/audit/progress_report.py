"""Progress reports: what an instance has counted all of. Silence proves nothing.

An instance is one process of a tier. For each topic it publishes reports of counts and of progress, all numbered from 0
on, so that a lost one is noticed. Its first one, *begun*, is confirmed before its first event of the topic is published
or passed on; its last one, *closed*, says that nothing more will come.

    a source, such as a producer, says `through T`: whatever it has stamped before T is counted in what it numbered
    before, or was reported as failed to its publisher; and it will stamp nothing before T any more
    a reader says which offsets of partitions it has reported, and where partitions ended at a time R

Times are ms since 1970, by the instance's clock. R is never later than ZooKeeper's time: a reader whose clock is ahead
does not claim to have read what was published after it looked.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from zk.cluster import TopicPartition


class Reported(NamedTuple):
    """Offsets of a partition that were reported: from `start` up to but not including `end`."""

    where: TopicPartition
    start: int
    end: int


class Ends(NamedTuple):
    """Where a partition began and ended; None if that could not be looked up."""

    where: TopicPartition
    start: int | None
    end: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressReport:
    """The progress of one instance in one topic.

    `home` is the id of the cluster it reports to. The report holds once everything numbered from `first` on is
    there: for a source those are the only numbers that count anything stamped at `through_ms` or later.
    It `follows` instances that have ended if it sends again whatever they have not reported.
    `ends` were asked for at `ends_at_ms`. With `copies` the topic is `audit` itself, and the reported offsets were
    copied from the cluster with that id, home of other instances. All of this was so by `clock_ms`, by ZooKeeper of its
    home; None if that is unknown.
    """

    tier: str
    instance: str
    topic: str
    number: int
    first: int
    at_ms: int
    home: str = ""
    follows: tuple[str, ...] = ()
    through_ms: int | None = None
    is_last: bool = False
    cluster: str = ""
    reported: tuple[Reported, ...] = ()
    ends_at_ms: int | None = None
    ends: tuple[Ends, ...] = ()
    copies: str = ""
    clock_ms: int | None = None
    report_id: str = field(default_factory=lambda: str(uuid.uuid4()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """An operator's word that nothing more is expected of the named instance, partition or cluster."""

    accepted: str
    at_ms: int
    acceptance_id: str = field(default_factory=lambda: str(uuid.uuid4()))
