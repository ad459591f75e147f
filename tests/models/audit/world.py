"""The audit's shipped rules among producers, a mirror and a loader, any of which dies or is late at any step.

Everybody is a generator that gives way after each step; a walk, drawn from a seed, says who goes on and what fails.
The loader judges through when it has everything, and `World.check` knows better.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from itertools import count, repeat
from typing import TYPE_CHECKING, Any

import numpy as np

from kafka2011.audit.cluster_clock import earlier_ms
from kafka2011.audit.encoding import AUDIT_COUNT, report_from, to_event
from kafka2011.audit.progress import Instance
from kafka2011.audit.progress_report import Acceptance, ProgressReport
from kafka2011.audit.report import AUDIT_TOPIC, AuditReport, Places
from kafka2011.audit.scan import Rules
from kafka2011.audit.unpublished import UnpublishedReports
from kafka2011.audit.windows import Windows
from kafka2011.events.codec import Event as AvroEvent
from tests.models.audit.auditing import Auditor
from tests.models.audit.clusters import BROKERS, SKEW_MS, VIEWS, AwayError, Cluster
from tests.models.audit.copying import Copying
from tests.models.audit.loader import Loaders
from tests.models.audit.troubles import TableTroubles
from zk.cluster import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    from kafka2011.audit.encoding import AnyReport
    from kafka2011.audit.expected import ExpectedReports
    from kafka2011.audit.verdict import Verdict
    from tests.models.audit.clusters import AuditRead

    Step = Generator[None, None, None]

WINDOW_MS = 10
WINDOWS = Windows(WINDOW_MS, 0)
RULES = Rules(margin_ms=60, dead_after_ms=400, flush_ms=20)
AGAIN_MS = BACK_MS = 200
"""So long before the windows that it wants a reader of reports begins, and it wants them from so long before."""
WILD_MS = 150
"""A clock that is so far behind."""
STEPS = 500
AUDITOR_SPEED = 0.05
JUDGED_AFTER_MS = 60
"""So long before what is known an audit judges for good."""


class FalseCompleteError(AssertionError):
    """The loader has said that it has everything, and it has not."""


class FalseGapError(AssertionError):
    """The audit has said that messages are missing, and they are only late."""


class StuckError(AssertionError):
    """All is well again, and the loader still cannot tell."""


@dataclass(eq=False)
class Event:
    """One event. `state` is what its producer knows."""

    number: int
    by: Producer = field(repr=False)
    stamped_us: int
    state: str = "under way"
    is_in_log: bool = False


@dataclass(eq=False)
class Producer:
    """One process of the tier of producers, which reports into the cluster that it publishes to."""

    name: str
    cluster: Cluster
    skew_ms: int
    events: list[Event] = field(default_factory=list)
    is_dead: bool = False
    is_accepted: bool = False
    is_ending: bool = False
    is_quiet: bool = False
    """Whether it publishes no more events, and goes on to report."""
    has_ended: bool = False
    speed: float = 0.5
    steps: Step | None = None


def place_of(broker: int, topic: str = VIEWS) -> TopicPartition:
    return TopicPartition(topic, broker, 0)


class World:
    """One walk, drawn from its seed."""

    def __init__(self, seed: int) -> None:
        self.chance = chance = random.Random(seed)
        self.now_ms = 1_000_000
        self.live, self.offline = Cluster("L", chance), Cluster("O", chance)
        self.prepare()
        self.producers: list[Producer] = []
        self.names = count(1)
        self.numbers = count(1)
        self.verdict: Verdict | None = None  # the audit's newest
        self.has_losses = self.loses_reports = chance.random() < 0.3
        self.is_wild = chance.random() < 0.2
        self.lost_events = 0
        self.lost_reports = 0
        self.doomed: set[int] = set()  # events that no mirror copies
        self.told = 0
        self.mirror = Copying(self.live, "live", self.reader_skew(), repeat(None))
        self.loader_skew_ms = self.reader_skew()
        self.mirrors = [self.mirror]
        self.has_mirror = chance.random() < 0.8
        if self.has_mirror:
            self.mirror.steps = self.mirroring(self.mirror)
        for _ in range(50):  # it stands before anybody publishes
            next(self.mirror.steps)
        self.now_ms += 100
        self.rules, self.windows, self.again_ms = RULES, WINDOWS, AGAIN_MS
        self.table_chance = random.Random(f"{seed} tables")  # so that walks are as they are without it
        self.loaders = Loaders(self)
        self.troubles = TableTroubles(self)
        self.auditor = Auditor(seed, self.offline, RULES, WINDOW_MS, JUDGED_AFTER_MS)
        self.audit = self.auditor.running(lambda: self.now_ms, self.check_verdict)
        self.happenings: tuple[tuple[float, Callable[[list[Producer]], None]], ...] = (
            (0.03, self.begin),
            (0.004, self.kill),
            (0.005, self.end_one),
            (0.01, self.move_brokers),
            (0.004, self.restart_mirror),
            (0.004, lambda _: self.loaders.restart(self.loaders.table)),
            (0.001, self.jump),
            (0.02, self.accept),
            (0.03, self.move_clocks),
        )

    def skew(self) -> int:
        return self.chance.randint(-SKEW_MS, SKEW_MS)

    # What other worlds have in another way ---------------------------------------------------------------------------

    calm = False
    """Whether nothing fails any more."""
    is_exempt = False
    """Whether a log was put back and has grown again before anybody looked: nobody can notice that."""
    loss = 0.005
    """How likely the mirror loses an event, where there are losses."""

    def prepare(self) -> None:
        """Do what comes before anything is said."""

    def reader_skew(self) -> int:
        """Return how far ahead the clock of a mirror or the loader is."""
        return self.skew()

    def producer_skew(self) -> int:
        skew_ms = self.skew()
        return -WILD_MS if self.is_wild and self.chance.random() < 0.5 else skew_ms

    def origins(self) -> tuple[Cluster, ...]:
        """Return where a producer may publish."""
        return (self.live, self.live, self.offline) if self.has_mirror else (self.offline,)

    def expected(self, is_partial: bool) -> ExpectedReports | None:
        """Return what the loader knows to be declared."""
        return None

    # The tiers -------------------------------------------------------------------------------------------------------

    def publish(self, cluster: Cluster, outbox: Sequence[AnyReport], favourite: int = 0) -> Step:
        """Publish reports until each is confirmed; any may arrive twice, late or, after it was confirmed, be lost."""
        left = list(outbox)
        while left:
            each = self.chance.choice(left)
            broker = favourite if self.chance.random() < 0.8 else self.chance.choice(BROKERS)
            fate = "well" if self.calm else self.chance.choice(("well", "well", "well", "unknown", "fails"))
            try:
                if fate != "fails":
                    lost = self.loses_reports and not self.calm and self.chance.random() < 0.02
                    lost = lost and getattr(each, "number", 0) != 0  # of whom nobody has heard, nobody misses a word
                    self.lost_reports += lost
                    if not lost:
                        assert not isinstance(each, Acceptance)
                        timed = replace(each, clock_ms=cluster.clock_ms(self.now_ms))
                        said = report_from(AvroEvent(AUDIT_COUNT, to_event(timed, 0, "")))
                        cluster.append(AUDIT_TOPIC, broker, said, self.now_ms)
                if fate == "well":
                    yield
                    cluster.noted.add(broker)
                    left.remove(each)
            except AwayError:
                pass
            yield

    def producing(self, who: Producer) -> Step:
        """Publish events and count them, from `begun` to `closed`."""
        chance, cluster, favourite = self.chance, who.cluster, self.chance.choice(BROKERS)
        unpublished = UnpublishedReports(Instance("producer", who.name, cluster.home), WINDOWS)

        def now_us() -> int:
            return (self.now_ms + who.skew_ms) * 1000

        yield from self.publish(cluster, unpublished.begin_source(VIEWS, now_us()), favourite)
        outbox: list[AuditReport | ProgressReport] = []
        while not who.is_ending or outbox:
            what = chance.random()
            under_way = [event for event in who.events if event.state == "under way"]
            if what < 0.35 and not who.is_ending and not who.is_quiet:
                who.events.append(Event(next(self.numbers), who, unpublished.stamp(VIEWS, now_us())))
            elif what < 0.7 and under_way:
                self.end(unpublished, chance.choice(under_way))
            elif not outbox:
                before_s = chance.choice((float("inf"), (self.now_ms - WINDOW_MS * chance.randint(1, 4)) / 1000))
                outbox = unpublished.take(now_us(), before_s)
                yield from self.publish(cluster, outbox, favourite)
                outbox = []
            yield
        is_hasty = not self.calm and chance.random() < 0.5
        while under_way := [event for event in who.events if event.state == "under way"]:
            if is_hasty and chance.random() < 0.3:  # it closes with events under way
                yield from self.publish(cluster, unpublished.take(now_us(), is_last=True), favourite)
                is_hasty, who.speed = False, who.speed if self.calm else 0.01
            self.end(unpublished, under_way[0])
            yield
        yield from self.publish(cluster, unpublished.take(now_us(), is_last=True), favourite)
        who.has_ended = True

    def end(self, unpublished: UnpublishedReports, event: Event) -> None:
        """Let one event arrive, or not, and its producer learn of it, or not."""
        broker = self.chance.choice(BROKERS)
        fate = "well" if self.calm else self.chance.choice(("well", "well", "well", "unknown", "fails"))
        cluster = event.by.cluster
        try:
            if fate != "fails":
                cluster.append(VIEWS, broker, event, self.now_ms)
                event.is_in_log = True
        except AwayError:
            fate = "fails"
        if fate == "unknown" and self.chance.random() < 0.5:
            return  # and is sent again
        event.state = "confirmed" if fate == "well" else "failed"
        if fate == "well":
            ids = np.array([event.number], np.uint64)
            unpublished.count(VIEWS, np.array([event.stamped_us]), ids, self.now_ms / 1000)
        unpublished.ended(VIEWS, [event.stamped_us])

    def mirroring(self, mirror: Copying) -> Step:
        """Copy what is new, report it, and only then commit, as one process from its begin on."""
        chance, source = self.chance, mirror.source
        who = Instance("mirror", f"mirror-{next(self.names)}", "O", cluster=mirror.name)
        unpublished = UnpublishedReports(who, WINDOWS)

        def now_ms() -> int:
            return self.now_ms + mirror.skew_ms

        topics = mirror.topics
        for topic in topics:
            copies = source.home if topic == AUDIT_TOPIC else ""
            yield from self.publish(self.offline, unpublished.begin_reader(topic, now_ms() * 1000, copies))
        at = dict(mirror.copied)
        while True:
            topic, broker = chance.choice(topics), chance.choice(BROKERS)
            if (topic, broker) in mirror.stuck:
                yield
                continue
            yield from self.copy(source, unpublished, at, topic, broker)
            if chance.random() < 0.4:
                ends = {}
                for each in topics:
                    if chance.random() < 0.7:
                        looked_ms = earlier_ms(now_ms(), source.clock_ms(self.now_ms))
                        ends[each] = (looked_ms, self.ends(source, each))
                        yield
                due = dict(at)
                if chance.random() < 0.3:  # what is old enough alone proves nothing of offsets
                    before_s = self.now_ms / 1000 - WINDOW_MS / 1000
                    yield from self.publish(self.offline, unpublished.take(now_ms() * 1000, before_s))
                yield from self.publish(self.offline, unpublished.take(now_ms() * 1000, ends=ends))
                found = ends.get(AUDIT_TOPIC, (0, {}))[1]
                told = {where.broker_id: each[1] for where, each in found.items() if each is not None}
                self.is_exempt = mirror.told(told) or self.is_exempt
                mirror.copied.update(due)
            yield

    def copy(
        self,
        source: Cluster,
        unpublished: UnpublishedReports,
        at: dict[tuple[str, int], int],
        topic: str,
        broker: int,
    ) -> Step:
        """Copy some of a partition, and count what was copied."""
        start = at.get((topic, broker), 0)
        if start > len(source.logs[topic, broker]):  # the log was put back: whoever is beyond its end begins again
            start = 0
        upto = start
        try:
            most = 50 if self.calm else self.chance.randint(1, 8)
            for offset, entry in list(source.read(topic, broker, start, self.now_ms))[:most]:
                is_lost = self.has_losses and not self.calm and topic == VIEWS and self.chance.random() < self.loss
                self.lost_events += is_lost
                if is_lost:
                    self.doomed.add(entry.payload.number)
                if topic == AUDIT_TOPIC or entry.payload.number not in self.doomed:
                    self.offline.append(topic, broker, entry.payload, self.now_ms)
                upto = offset + 1
                yield
        except AwayError:
            pass
        if upto > start:
            payloads = [entry.payload for entry in source.logs[topic, broker][start:upto]]
            count_read(unpublished, place_of(broker, topic), payloads, start, self.now_ms)
            at[topic, broker] = upto

    def ends(self, cluster: Cluster, topic: str) -> dict[TopicPartition, tuple[int, int] | None]:
        found: dict[TopicPartition, tuple[int, int] | None] = {}
        for broker in BROKERS:
            try:
                found[place_of(broker, topic)] = (0, cluster.end(topic, broker, self.now_ms))
            except AwayError:
                found[place_of(broker, topic)] = None
        return found

    def read_reports(self, from_ms: int | None, found: list[Any], faults: list[str], read: AuditRead) -> Step:
        """Read one partition of the topic audit after the other, from some time before what is wanted."""
        for broker in BROKERS:
            try:
                for offset, entry in self.offline.read(AUDIT_TOPIC, broker, 0, self.now_ms):
                    read.ends[broker, 0] = max(offset + 1, read.ends.get((broker, 0), 0))
                    read.late.note(entry.payload, (broker, 0), offset)
                    if from_ms is None or entry.appended_ms + self.loader_skew_ms >= from_ms - BACK_MS:
                        found.append(entry.payload)
            except AwayError:
                if broker in self.offline.noted:
                    faults.append(f"broker {broker} is away")
            yield

    def check(self, through_ms: int | None, rows: frozenset[int], known: set[str]) -> None:
        """Look whether anything published before that time is not in the table.

        Only an instance whose clock is far off, and of which nobody has read yet, may be overlooked.
        """
        if through_ms is None:
            return
        self.told += 1
        if self.is_exempt:
            return
        for event in self.owed(through_ms, known):
            if event.number not in rows:
                raise FalseCompleteError(f"through {through_ms}, and it is not there: {event}")

    def check_verdict(self, verdict: Verdict, known: set[str], began_ms: int) -> None:
        """Look whether a window with a final verdict and without a gap has anything that the table lacks.

        Of the table an audit knows what was reported and could be read when it began. A gap must be one.
        """
        self.verdict = verdict
        gaps = {account.start_ms for account in verdict.gaps}
        lossy = {e.stamped_us // 1000 // WINDOW_MS * WINDOW_MS for e in self.events() if e.number in self.doomed}
        if gaps - lossy and not self.loaders.is_damaged:
            raise FalseGapError(f"at {self.now_ms}, nothing is lost in {min(gaps - lossy)}: {verdict.gaps[0]}")
        if verdict.settled_ms is None or self.is_exempt:
            return
        stated = self.loaders.stated_since(self.offline, began_ms)
        for event in self.owed(verdict.settled_ms // WINDOW_MS * WINDOW_MS, known):
            is_there = any(event.number in each.rows for each in stated)
            if not is_there and event.stamped_us // 1000 // WINDOW_MS * WINDOW_MS not in gaps:
                raise FalseCompleteError(f"settled until {verdict.settled_ms}, and nobody misses {event}")

    def events(self) -> Iterator[Event]:
        """Yield all events."""
        return (event for who in self.producers for event in who.events)

    def owed(self, before_ms: int, known: set[str]) -> Iterator[Event]:
        """Yield the events stamped before a time that producers must have counted, or have yet to count."""
        for who in self.producers:
            if who.is_accepted or (abs(who.skew_ms) > SKEW_MS and who.name not in known):
                continue
            for event in who.events:
                is_owed = event.state == "confirmed" or (event.state == "under way" and not who.is_dead)
                if is_owed and event.stamped_us < before_ms * 1000:
                    yield event

    # The walk --------------------------------------------------------------------------------------------------------

    def walk(self, steps: int = STEPS) -> None:
        """Let all of them go on, and fail, in any order; then mend everything and see that the loader can tell."""
        for _ in range(steps):
            self.now_ms += self.chance.choice((0, 0, 0, 1, 1, 2, 5))
            self.trouble()
            self.go_on()
        self.settle()

    def go_on(self, *, loads: bool = True) -> None:
        alive = [each for each in self.producers if not each.is_dead]
        for who in self.chance.sample(alive, k=len(alive)):
            if who.steps is not None and self.chance.random() < who.speed:
                next(who.steps, None)
        for mirror in self.mirrors:
            if self.chance.random() < mirror.speed:
                next(mirror.steps)
        if loads and self.chance.random() < self.loader_speed:
            self.loaders.go_on()
        if self.auditor.chance.random() < AUDITOR_SPEED:
            next(self.audit)

    loader_speed = 0.5

    def stall(self, alive: list[Producer]) -> None:
        """Let somebody stand still for a while, or go on."""
        chance, what = self.chance, self.chance.random()
        if what < 0.03 and alive:
            chance.choice(alive).speed = chance.choice((0.0, 0.0, 0.5))
        elif what < 0.05:
            self.a_mirror().stuck ^= {(chance.choice((VIEWS, VIEWS, AUDIT_TOPIC)), chance.choice(BROKERS))}
        elif what < 0.055:
            self.a_mirror().speed = chance.choice((0.0, 0.2, 0.9, 0.9))
        elif what < 0.065:
            self.loader_speed = chance.choice((0.0, 0.1, 0.5, 0.5))

    def trouble(self) -> None:
        """Let something happen now and then."""
        alive = [each for each in self.producers if not each.is_dead and not each.has_ended]
        self.stall(alive)
        for likelihood, happen in self.happenings:
            if self.chance.random() < likelihood:
                happen(alive)
        self.troubles.happen()

    def zk_ms(self) -> int:
        """Return ZooKeeper's time, where the loader reports."""
        return self.offline.clock_ms(self.now_ms)

    def loader_ms(self) -> int:
        return self.now_ms + self.loader_skew_ms

    def kill(self, alive: list[Producer]) -> None:
        if alive:
            self.chance.choice(alive).is_dead = True

    def end_one(self, alive: list[Producer]) -> None:
        if alive:
            self.chance.choice(alive).is_ending = True

    def move_brokers(self, _alive: list[Producer]) -> None:
        cluster = self.chance.choice((self.live, self.offline))
        cluster.away = self.chance.choice((set(), set(), {self.chance.choice(BROKERS)}))

    def restart_mirror(self, _alive: list[Producer]) -> None:
        if self.has_mirror:
            mirror = self.a_mirror()
            mirror.steps = self.mirroring(mirror)

    def a_mirror(self) -> Copying:
        """Return the mirror that something happens to."""
        return self.mirror

    def jump(self, _alive: list[Producer]) -> None:
        self.now_ms += self.chance.choice((100, 1000))

    def move_clocks(self, alive: list[Producer]) -> None:
        for who in alive:
            if abs(who.skew_ms) <= SKEW_MS:
                who.skew_ms = self.skew()
        self.mirror.skew_ms, self.loader_skew_ms = self.reader_skew(), self.reader_skew()

    def begin(self, alive: list[Producer]) -> None:
        if len(alive) >= 3:
            return
        cluster = self.chance.choice(self.origins())
        who = Producer(f"producer-{next(self.names)}", cluster, self.producer_skew())
        who.steps = self.producing(who)
        self.producers.append(who)

    def accept(self, _alive: list[Producer] | None = None) -> None:
        """Let an operator accept who has died, as far as that is known."""
        for who in self.producers:
            if who.is_dead and not who.is_accepted:
                try:
                    accepted = Acceptance(accepted=who.name, at_ms=self.now_ms + SKEW_MS)
                    self.offline.append(AUDIT_TOPIC, self.chance.choice(BROKERS), accepted, self.now_ms)
                    who.is_accepted = True
                except AwayError:
                    pass

    def settle(self) -> None:
        """Mend all, end all, and wait."""
        self.calm = True
        for mirror in self.mirrors:
            mirror.speed, mirror.stuck, mirror.source.away = 0.9, set(), set()
        self.offline.away = set()
        for who in self.producers:
            who.is_ending, who.speed = True, 0.9
        for _ in range(5000):
            self.now_ms += 1
            self.accept()
            self.go_on(loads=False)
            if all(who.is_dead or who.has_ended for who in self.producers):
                break
        self.now_ms += 2 * RULES.margin_ms
        for _ in range(500):  # so that the mirror has copied all, and looked
            for mirror in self.mirrors:
                next(mirror.steps)
        self.now_ms += 2 * RULES.margin_ms
        self.loaders.newest = None
        for _ in range(3000):
            self.loaders.go_on()
            if self.is_done():
                return
        raise StuckError(f"at {self.now_ms}: {self.loaders.newest}")

    def is_done(self) -> bool:
        """Say whether the loader has told of the last event, where that can be told."""
        newest_us = max((event.stamped_us for event in self.events()), default=0)
        if not self.producers or self.lost_events or self.lost_reports or self.loaders.is_damaged:
            return True
        said = self.loaders.newest
        return said is not None and said.through_ms is not None and said.through_ms * 1000 > newest_us - 10_000


def count_read(
    unpublished: UnpublishedReports, where: TopicPartition, payloads: Sequence[Any], start: int, now_ms: int
) -> None:
    """Count what was read of a partition; of the topic audit only how far."""
    events = [each if isinstance(each, Event) else None for each in payloads]
    good = [(start + index, event) for index, event in enumerate(events) if event is not None]
    unpublished.count_read(
        where,
        np.array([event.stamped_us for _, event in good], np.int64),
        np.array([event.number for _, event in good], np.uint64),
        Places(np.array([offset for offset, _ in good], np.int64), np.zeros(len(good), np.int32)),
        (start, start + len(payloads)),
        now_ms / 1000,
    )


def walks(seeds: range, *, mends: bool = True, world: type[World] = World) -> int:
    """Walk in a world once for each seed, and return how often a loader could tell. An error names its seed.

    Unless it `mends` all in the end, it does not matter whether the loader can tell then.
    """
    told = 0
    for seed in seeds:
        walked = world(seed)
        try:
            walked.walk()
        except StuckError as error:
            if mends:
                raise StuckError(f"seed {seed}: {error}") from error
        except AssertionError as error:
            raise type(error)(f"seed {seed}: {error}") from error
        told += walked.told
    return told
