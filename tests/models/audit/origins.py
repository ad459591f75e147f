"""Two origins of a declared pipeline, one of which may never be reached, and clocks that are a day apart.

Either each process has a clock of its own that may be off by a day, and ZooKeepers have the right time, or the other
way round: where both are wrong nobody can know anything. A producer whose clock is far behind is exempt until a
report of it was read.
"""

from __future__ import annotations

import random
from itertools import repeat
from typing import TYPE_CHECKING

from kafka2011.audit.expected import ExpectedReports
from kafka2011.audit.report import AUDIT_TOPIC
from tests.models.audit.clusters import BROKERS, VIEWS, Cluster
from tests.models.audit.copying import Copying
from tests.models.audit.world import RULES, WINDOW_MS, World
from tests.support.pipelines import OF_ONE_ORIGIN, two_origins

if TYPE_CHECKING:
    from kafka2011.audit.state import AuditState
    from tests.models.audit.world import Producer

DAY_MS = 86_400_000 // 1000
"""A day, if the margin of 60 ms is a minute."""
ROUNDS = 10

PIPELINE = two_origins(
    ("east", "live"),
    ("id-of-live", "L"),
    ('zookeeper = "west:2181"', 'zookeeper = "west:2181"\nid = "W"'),
    ("id-of-offline", "O"),
    ("warehouse", "load"),
    (OF_ONE_ORIGIN, ""),
)


class MissedGapError(AssertionError):
    """All is well again, and nobody has said that messages are lost."""


class Origins(World):
    """One walk, drawn from its seed."""

    def prepare(self) -> None:
        """Draw which clocks are wrong, and what the mirror of the second origin does."""
        self.luck = luck = random.Random(self.chance.random())
        self.clocks = luck.choice(("near", "near", "own", "own", "zookeeper"))
        self.west = Cluster("W", self.chance)
        if self.clocks == "zookeeper":
            for cluster in (self.live, self.west, self.offline):
                cluster.skew_ms = luck.choice((0, luck.randint(-DAY_MS, DAY_MS)))
        self.loss = luck.choice((0.005, 0.05))
        self.is_reached = luck.random() < 0.85
        self.is_silent = luck.random() < 0.1

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.has_mirror = True
        self.loses_reports = self.loses_reports and self.luck.random() < 0.3
        second = Copying(self.west, "west", self.reader_skew(), repeat(None))
        if self.is_silent:
            second.topics = (VIEWS,)
        self.mirrors = [self.mirror, second]
        for mirror in self.mirrors if self.is_reached else [self.mirror]:
            mirror.steps = self.mirroring(mirror)
            for _ in range(50):
                next(mirror.steps)
        self.auditor.pipeline = PIPELINE
        self.auditor.expect = self.expected_by_auditor
        if self.luck.random() < 0.3:
            self.happenings = (*self.happenings, (0.003, self.put_back))
        self.begin([])
        self.begin([])

    def reader_skew(self) -> int:
        """Return how far ahead the clock of a mirror or the loader is."""
        return self.wild_skew() if self.clocks == "own" else self.skew()

    def wild_skew(self) -> int:
        return self.luck.choice((self.skew(), self.luck.randint(-DAY_MS, DAY_MS)))

    def producer_skew(self) -> int:
        return self.wild_skew() if self.clocks == "own" and self.luck.random() < 0.3 else self.skew()

    def origins(self) -> tuple[Cluster, ...]:
        """Return where a producer may publish."""
        return (self.live, self.west)

    def a_mirror(self) -> Copying:
        """Return the mirror that something happens to."""
        return self.luck.choice(self.mirrors)

    def restart_mirror(self, _alive: list[Producer]) -> None:
        mirror = self.a_mirror()
        if self.is_reached or mirror is self.mirror:
            mirror.steps = self.mirroring(mirror)

    def move_clocks(self, alive: list[Producer]) -> None:
        super().move_clocks(alive)
        self.mirrors[1].skew_ms = self.reader_skew()
        self.auditor.skew_ms = self.reader_skew()

    def move_brokers(self, alive: list[Producer]) -> None:
        super().move_brokers(alive)
        self.west.away = self.luck.choice((set(), set(), {self.luck.choice((0, 1))}))

    def put_back(self, _alive: list[Producer]) -> None:
        """Let the topic audit of an origin be as it was a while ago; it has lost the reports since."""
        mirror = self.a_mirror()
        to_ms = self.now_ms - self.luck.randint(0, 200)
        for broker in BROKERS:
            log = mirror.source.logs[AUDIT_TOPIC, broker]
            kept = [entry for entry in log if entry.appended_ms <= to_ms]
            if len(kept) < len(log):
                mirror.cut = {**mirror.seen}
                self.lost_reports += len(log) - len(kept)
                log[:] = kept

    def expected(self, is_partial: bool) -> ExpectedReports:
        """Return what the loader knows to be declared."""
        here = PIPELINE.clusters["offline"]
        return ExpectedReports(
            pipeline=PIPELINE, here=here, home="O", existing=(VIEWS,), is_partial=is_partial, asking="load"
        )

    def expected_by_auditor(self, before: AuditState | None) -> ExpectedReports:
        found = self.expected(False)
        found.asking = ""
        found.heard |= frozenset() if before is None else before.heard
        return found

    def settle(self) -> None:
        """Mend all, wait, and see that what was lost is said to be, where clocks are right and no report was lost."""
        super().settle()
        self.auditor.skew_ms = 0
        for _ in range(ROUNDS):
            self.now_ms += 2 * RULES.margin_ms
            for mirror in self.mirrors:
                for _ in range(60):
                    next(mirror.steps)
            for _ in range(60):
                self.loaders.go_on()
            for _ in range(5):
                next(self.audit)
        counted = [each for each in self.events() if each.state == "confirmed" and not each.by.is_dead]
        is_well = self.clocks == "near" and self.is_reached and not self.is_silent and not self.lost_reports
        is_well = is_well and not self.loaders.is_damaged
        if is_well and self.verdict is not None:
            gaps = {account.start_ms for account in self.verdict.gaps}
            for event in counted:
                is_lost = event.number in self.doomed and event.number not in self.loaders.table.rows
                if is_lost and event.stamped_us // 1000 // WINDOW_MS * WINDOW_MS not in gaps:
                    raise MissedGapError(f"at {self.now_ms}, nobody misses {event}: {self.verdict.unknowns[:3]}")

    def is_done(self) -> bool:
        """Say whether the loader has told of the last event, where that can be told."""
        is_well = self.clocks == "near" and self.is_reached and not self.is_silent
        homes = {who.cluster.home for who in self.producers if who.has_ended}
        return not is_well or homes < {"L", "W"} or super().is_done()
