"""The evidence: everything instances have stated, and what remains in doubt.

A tier has every event of a topic published before T when it lacks nothing that producers have counted, and none of
these is in doubt:

    a   the topic audit was read to its ends as of R, and T is at least a margin before R. Statements of another
        cluster's instances arrive by a mirror, so the mirror's statement counts: "copied to its ends of R"
    b   every instance that has begun is through T or has closed, and none of its numbers is missing
    c   every partition that the tier reads from is reported to its end as of a time R, a margin after T

Each doubt holds from some time on. The margin allows for clocks that differ and brokers that flush late; an instance
whose clock is further off is discovered only when its statements are read, and may then undo an earlier result.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from kafka2011.audit.heard import Heard, Reach
from kafka2011.audit.report import AUDIT_TOPIC, AuditReport
from kafka2011.audit.statement import Acceptance, Statement

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from kafka2011.audit.statement import Ends
    from zk.cluster import TopicPartition

DEFAULT_MARGIN_MS = 60_000
DEFAULT_DEAD_AFTER_MS = 3_600_000
REMOVED = "removed reports"
"""The name that an operator accepts when reports were deleted from the topic audit before they were read."""
AGAIN_MS = 1_800_000
"""How far back complete windows are checked again: an instance whose clock is behind may be discovered late."""


class Doubt(NamedTuple):
    """Why events published at `since_ms` or later (None: any events) cannot be judged.

    `accept` is the name that an operator may accept to end the doubt; empty if only time or a repair ends it.
    """

    since_ms: int | None
    why: str
    accept: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One reading of the topic audit: begun at `at_ms`, up to the ends of all partitions that could be read.

    `home` is the id of the cluster. `faults` say what could not be read. Reports of instances last heard of more
    than half an hour before `since_ms` may have been deleted; None: none were.
    """

    at_ms: int
    home: str = ""
    faults: tuple[str, ...] = ()
    since_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Rules:
    """How far apart clocks may be, and how long an instance may be silent before it counts as dead."""

    margin_ms: int = DEFAULT_MARGIN_MS
    dead_after_ms: int = DEFAULT_DEAD_AFTER_MS


DEFAULT_RULES = Rules()


@dataclass(slots=True)
class _Reader:
    """A tier's statements about the partitions of one topic in one cluster."""

    statements: dict[tuple[str, int], Statement] = field(default_factory=dict)


class Evidence:
    """The numbers of all reports, all statements and acceptances; `add` them in any order, repeatedly too."""

    def __init__(self) -> None:
        self._heard: dict[str, dict[tuple[str, str], Heard]] = defaultdict(dict)  # by topic; tier and instance
        self._readers: dict[tuple[str, str], dict[str, _Reader]] = defaultdict(dict)  # by topic and tier; cluster
        self._copies: dict[str, _Reader] = {}  # by the home cluster of the copied reports
        self._accepted: dict[str, int] = {}

    def add(self, each: AuditReport | Statement | Acceptance) -> None:
        """Add a report, statement or acceptance."""
        if isinstance(each, Acceptance):
            self._accepted[each.accepted] = max(each.at_ms, self._accepted.get(each.accepted, each.at_ms))
            return
        heard = self._heard[each.topic].setdefault((each.tier, each.instance), Heard(each.tier, each.instance))
        if isinstance(each, AuditReport):
            heard.add_report(each)
            return
        heard.add_statement(each)
        if each.copies:
            reader = self._copies.setdefault(each.copies, _Reader())
        elif each.through_ms is None:
            reader = self._readers[each.topic, each.tier].setdefault(each.cluster, _Reader())
        else:
            return
        reader.statements[each.instance, each.number] = each

    @property
    def topics(self) -> set[str]:
        """All topics in reports and statements, except the topic audit itself."""
        return self._heard.keys() - {AUDIT_TOPIC}

    def tiers_of(self, topic: str) -> list[str]:
        """Return the tiers that reported on a topic, sorted."""
        return sorted({heard.tier for heard in self._of(topic)})

    def names(self) -> set[str]:
        """Return the names that may be accepted: instances, partitions, and clusters whose reports come by a mirror."""
        instances = {heard.instance for every in self._heard.values() for heard in every.values()}
        homes = {heard.home for every in self._heard.values() for heard in every.values()} | self._copies.keys()
        readers = [reader for each in self._readers.values() for reader in each.values()] + list(self._copies.values())
        partitions = {
            str(each.where) for reader in readers for statement in reader.statements.values() for each in statement.ends
        }
        return instances | homes | partitions | {REMOVED}

    def is_counted(self, topic: str) -> bool:
        """Say whether any source, such as a producer, has reported on a topic."""
        return any(heard.is_source for heard in self._of(topic))

    def lost_reports(self, topic: str, tier: str, from_ms: int | None = None) -> int:
        """Return how many numbers of a tier's instances are missing in a topic."""
        return sum(heard.missing(from_ms) for heard in self._of(topic) if heard.tier == tier)

    def doubts(
        self,
        topic: str,
        tiers: Iterable[str],
        reading: Reading,
        from_ms: int | None = None,
        rules: Rules = DEFAULT_RULES,
    ) -> list[Doubt]:
        """Return the doubts about a topic in some tiers, for events published at `from_ms` or later."""
        if from_ms is None:
            from_ms = reading.since_ms
        return [
            *self._of_reading(reading, from_ms, rules),
            *self._of_copies(topic, reading, rules),
            *self._of_sources(topic, reading, from_ms, rules),
            *(doubt for tier in tiers for doubt in self.doubts_of_tier(topic, tier, rules)),
        ]

    # Inside ----------------------------------------------------------------------------------------------------------

    def _of(self, topic: str) -> list[Heard]:
        return list(self._heard.get(topic, {}).values())

    def _of_reading(self, reading: Reading, from_ms: int | None, rules: Rules) -> Iterator[Doubt]:
        """Yield the doubts of (a) about the cluster itself."""
        for fault in reading.faults:
            yield Doubt(None, fault)
        if reading.since_ms is not None and from_ms is not None and from_ms < reading.since_ms:
            oldest_ms = reading.since_ms - AGAIN_MS
            if self._accepted.get(REMOVED, oldest_ms - 1) < oldest_ms:
                yield Doubt(None, "reports were removed before they were read", REMOVED)
        yield Doubt(reading.at_ms - rules.margin_ms, "the topic audit was read then")

    def _of_copies(self, topic: str, reading: Reading, rules: Rules) -> Iterator[Doubt]:
        """Yield the doubts of (a) about clusters whose reports come by a mirror."""
        homes = {heard.home for heard in self._of(topic) if heard.home} | self._copies.keys()
        for home in sorted(homes - {reading.home}):
            reader = self._copies.get(home)
            if reader is None:
                yield Doubt(None, f"reports of cluster {home} come by no mirror that says so", home)
                continue
            newest_ms = max(each.at_ms for each in reader.statements.values())
            if self._accepted.get(home, newest_ms - 1) >= newest_ms:
                continue
            told = [each for each in reader.statements.values() if each.at_ms <= reading.at_ms - rules.margin_ms]
            copied_ms = self._ends_reached_ms(told)
            why = f"reports of cluster {home} are copied by a mirror"
            yield Doubt(None if copied_ms is None else copied_ms - rules.margin_ms, why, home)

    def _of_sources(self, topic: str, reading: Reading, from_ms: int | None, rules: Rules) -> Iterator[Doubt]:
        """Yield the doubts of (b)."""
        sources = [heard for heard in self._of(topic) if heard.is_source]
        followed = frozenset[str]().union(*(heard.follows for heard in sources))
        for heard in sources:
            if heard.instance in followed:
                continue  # its successor sends and reports again whatever it has not reported
            last_ms = -1 if heard.last_ms is None else heard.last_ms
            if self._accepted.get(heard.instance, last_ms - 1) >= last_ms:
                continue
            if not heard.is_numbered:
                yield Doubt(None, f"{heard.instance} does not number its reports", heard.instance)
            elif not heard.has_closed(from_ms):
                through_ms = heard.through_ms(from_ms)
                if through_ms is None and heard.first_ms is not None:  # its `begun` was not read, and may be earlier
                    through_ms = heard.first_ms - AGAIN_MS
                lost = heard.missing(from_ms)
                if lost:
                    why = f"{lost} of its reports are missing"
                elif reading.at_ms - last_ms > rules.dead_after_ms:
                    why = "died"
                else:
                    why = "has said nothing since"
                yield Doubt(through_ms, f"{heard.instance} {why}", heard.instance)

    def doubts_of_tier(self, topic: str, tier: str, rules: Rules = DEFAULT_RULES) -> list[Doubt]:
        """Return only the doubts about what a tier has read: messages missing before them are lost."""
        if any(heard.is_source for heard in self._of(topic) if heard.tier == tier):
            return []
        readers = self._readers.get((topic, tier))
        if not readers:
            return [Doubt(None, f"tier {tier} has said nothing of topic {topic}")]
        return list(self._of_readers(topic, tier, readers, rules))

    def _of_readers(self, topic: str, tier: str, readers: Mapping[str, _Reader], rules: Rules) -> Iterator[Doubt]:
        """Yield the doubts of (c)."""
        for cluster, reader in sorted(readers.items()):
            read_ms = self._ends_reached_ms(list(reader.statements.values()))
            where = f" in {cluster}" if cluster else ""
            why = f"tier {tier} has not said that it has read all of topic {topic}{where}"
            yield Doubt(None if read_ms is None else read_ms - rules.margin_ms, why)

    def _ends_reached_ms(self, statements: Sequence[Statement]) -> int | None:
        """Return the newest time as of which every partition is reported to its end; None if there is none."""
        reaches: dict[TopicPartition, Reach] = defaultdict(Reach)
        named: set[TopicPartition] = set()
        for each in statements:
            named.update(ends.where for ends in each.ends)
            named.update(reported.where for reported in each.reported)
            heard = self._heard[each.topic][each.tier, each.instance]
            if each.reported and heard.has_all(each.first, each.number):
                for reported in each.reported:
                    reaches[reported.where].add(reported)
        accepted = {where for where in named if str(where) in self._accepted}
        reached = {where: reach.end(skips_gaps=where in accepted) for where, reach in reaches.items()}
        wanted = named - accepted
        return max((_at(each) for each in statements if _is_reached(each, wanted, reached)), default=None)


def _is_reached(statement: Statement, wanted: Iterable[TopicPartition], reached: Mapping[TopicPartition, int]) -> bool:
    """Say whether all partitions were reported to the ends that a statement names."""
    if statement.ends_at_ms is None:
        return False
    ends = {each.where: each for each in statement.ends}
    return all(where in ends and _is_all(ends[where], reached.get(where, 0)) for where in wanted)


def _is_all(ends: Ends, reached: int) -> bool:
    return ends.end is not None and (ends.end == ends.start or reached >= ends.end)


def _at(statement: Statement) -> int:
    assert statement.ends_at_ms is not None
    return statement.ends_at_ms
