"""Named scenarios of the model: each brings about what an audit once said "complete" of though events were absent.

Nothing happens in them but what they say. Of every absent event an operator asks: is there an output that says so?
`see_absent` asks it of the audit, and whenever the loader goes on the model asks it of the table.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING

from kafka2011.audit.progress import Instance
from kafka2011.audit.report import AUDIT_TOPIC
from kafka2011.audit.table_report import TableReport
from kafka2011.audit.unpublished import UnpublishedReports
from tests.models.audit.clusters import BROKERS, VIEWS
from tests.models.audit.origins import DAY_MS, Origins
from tests.models.audit.tables import Logged, Table
from tests.models.audit.world import (
    RULES,
    WINDOW_MS,
    WINDOWS,
    FalseCompleteError,
    Producer,
    StuckError,
    World,
    count_read,
    place_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kafka2011.audit.verdict import Verdict
    from tests.models.audit.clusters import Cluster

_MOST_STEPS = 5000
_ROUNDS = 4


class Script(World):
    """A world in which all goes well until a scenario says otherwise. Its loader reads the cluster of the producers."""

    calm = True

    def __init__(self) -> None:
        super().__init__(seed=0)
        self.has_losses = self.loses_reports = self.is_wild = False
        self.happenings = ()
        self.producers.clear()

    def skew(self) -> int:
        """Return that clocks are right."""
        return 0

    def publish_events(self, cluster: Cluster, *, events: int = 8, skew_ms: int = 0) -> Producer:
        """Let a producer publish some events and count them."""
        who = Producer(f"producer-{next(self.names)}", cluster, skew_ms)
        who.steps = self.producing(who)
        self.producers.append(who)
        self.until(lambda: len(who.events) >= events)
        who.is_quiet = True
        self.until(lambda: all(event.state == "confirmed" for event in who.events))
        return who

    def until(self, is_so: Callable[[], bool]) -> None:
        """Let producers go on until something is so."""
        for _ in range(_MOST_STEPS):
            if is_so():
                return
            self.now_ms += 1
            self.let_producers()
        raise AssertionError("it never is")

    def let_producers(self) -> None:
        for who in self.producers:
            if who.steps is not None:
                next(who.steps, None)

    def rest(self) -> None:
        """Let time pass, in which mirrors, loaders and the audit do all that they can."""
        for _ in range(_ROUNDS):
            self.now_ms += RULES.margin_ms
            for _ in range(20):
                self.let_producers()
            self.now_ms += RULES.margin_ms
            for mirror in self.mirrors:
                for _ in range(80):
                    next(mirror.steps)
            for _ in range(30):
                self.loaders.go_on()
            for _ in range(8):
                next(self.audit)

    def see_complete(self) -> None:
        """See that the audit says of all events that they arrived."""
        verdict = self.judged()
        newest_ms = max(event.stamped_us for event in self.events()) // 1000
        if verdict.settled_ms is None or verdict.settled_ms <= newest_ms:
            raise StuckError(f"the audit cannot tell: {verdict.unknowns}")
        assert not verdict.gaps
        assert {event.number for event in self.events()} == self.loaders.table.rows

    def see_absent(self, says: str, table: Table | None = None) -> None:
        """See that events are absent from a table, that the audit says so of each, and what it says.

        `says` is a part of what it says is unknown, or "gap".
        """
        verdict, rows = self.judged(), (table or self.loaders.table).rows
        absent = [event for event in self.events() if event.state == "confirmed" and event.number not in rows]
        assert absent
        gaps = {account.start_ms for account in verdict.gaps}
        for event in absent:
            window_ms = event.stamped_us // 1000 // WINDOW_MS * WINDOW_MS
            is_settled = verdict.settled_ms is not None and window_ms + WINDOW_MS <= verdict.settled_ms
            if is_settled and window_ms not in gaps:
                raise FalseCompleteError(f"nobody misses {event}")
        if says == "gap":
            assert gaps, verdict.unknowns
        else:
            assert any(says in unknown.why for _, unknown in verdict.unknowns), verdict.unknowns

    def judged(self) -> Verdict:
        assert self.verdict is not None
        return self.verdict

    def remove_segments(self) -> None:
        """Let retention remove all events that are in the loader's cluster."""
        for broker in BROKERS:
            self.offline.first[broker] = len(self.offline.logs[VIEWS, broker])
        self.loaders.table.is_damaged = True


class ScriptOfOrigins(Script, Origins):
    """The same with the declared pipeline of two origins, whose events pass a mirror each."""

    def prepare(self) -> None:
        """Draw as others do, and then let clocks be right and all be reached."""
        super().prepare()
        for cluster in (self.live, self.west, self.offline):
            cluster.skew_ms = 0
        self.clocks, self.is_reached, self.is_silent = "near", True, False


# The table says less than it did --------------------------------------------------------------------------------------


def a_table_is_rolled_back(world: Script) -> None:
    """Restore an earlier version: reports cannot be taken back, but counts hold only while their commit is there."""
    world.publish_events(world.offline)
    world.rest()
    version = len(world.loaders.table.log) - 1
    world.publish_events(world.offline)
    world.rest()
    world.see_complete()
    world.loaders.table.restore(version)
    world.rest()
    world.see_absent("tier load has not said that it has read all")
    world.loaders.table.go_on_from(world.loader_ms(), world.loaders.attempt(), is_reloading=False)
    world.publish_events(world.offline)
    world.rest()
    world.see_absent("gap")


def a_copy_is_put_back(world: Script) -> None:
    """Restore an older copy, after which the numbers of commits come again, for other rows."""
    world.publish_events(world.offline)
    world.rest()
    copied = list(world.loaders.table.log)
    world.publish_events(world.offline)
    world.rest()
    world.see_complete()
    lost = {logged.commit.number for logged in world.loaders.table.log[len(copied) :] if logged.commit}
    world.loaders.table.log[:] = copied
    world.remove_segments()
    world.publish_events(world.offline)
    world.rest()
    assert lost & {commit.number for commit in world.loaders.table.history().commits()}
    world.see_absent("gap")


# Two tables, one tier -------------------------------------------------------------------------------------------------


def two_tables_report_as_one_tier(world: Script) -> None:
    """Stop to load the first table. The second one, which has all, must not speak for it."""
    first = world.loaders.table
    world.publish_events(world.offline)
    world.rest()
    world.see_complete()
    world.loaders.stop(first)
    world.loaders.begin_rival()
    world.publish_events(world.offline)
    world.rest()
    world.see_absent("has not said that it has read all", first)


def two_tables_report_as_one_tier_after_zookeeper_was_lost(world: Script) -> None:
    """Lose the claim, and let neither read what the other one has reported."""
    first = world.loaders.table
    world.publish_events(world.offline)
    world.rest()
    world.see_complete()
    claims, reports = world.loaders.claims, [world.offline.logs[AUDIT_TOPIC, broker] for broker in BROKERS]
    before = claims.now
    claims.now = None
    hidden = [(log, entry) for log in reports for entry in log if isinstance(entry.payload, TableReport)]
    for log, entry in hidden:
        log.remove(entry)
    second = world.loaders.begin_rival()
    world.publish_events(world.offline)
    world.loaders.stop(first)
    for _ in range(60):
        world.now_ms += 1
        world.loaders.go_on()
    assert second.rows > first.rows
    claims.now = before
    for log, entry in hidden:
        log.insert(0, entry)
    world.loaders.stop(second)
    world.rest()
    world.see_absent("tables one and two report as tier load at once", first)


# Silence --------------------------------------------------------------------------------------------------------------


def an_origin_is_never_heard_of(world: ScriptOfOrigins) -> None:
    """Let neither events nor reports of an origin arrive: only the declaration says that there should be any."""
    world.mirrors[1].steps = repeat(None)
    for log in world.offline.logs.values():  # as if its mirror had never begun
        log[:] = [entry for entry in log if getattr(entry.payload, "cluster", "") != world.mirrors[1].name]
    world.publish_events(world.live)
    world.publish_events(world.west)
    world.rest()
    world.see_absent("tier mirror has never reported on topic views in cluster west")


def an_origin_whose_reports_are_not_copied(world: ScriptOfOrigins) -> None:
    """Lose events of an origin that are in no report that arrives."""
    west = world.mirrors[1]
    west.topics = (VIEWS,)
    west.steps = world.mirroring(west)
    for log in world.offline.logs.values():
        log[:] = [entry for entry in log if getattr(entry.payload, "copies", "") != world.west.home]
    world.publish_events(world.live)
    lost = world.publish_events(world.west)
    world.doomed.update(event.number for event in lost.events)
    world.lost_events = len(lost.events)
    world.rest()
    world.see_absent("no mirror says that it copies reports of cluster west")


# Retention before the commit ------------------------------------------------------------------------------------------


def retention_before_the_commit(world: Script) -> None:
    """Kill a load that has counted and not committed, and remove what it has read before the next one begins."""
    world.publish_events(world.offline)
    world.rest()
    world.see_complete()
    table = world.loaders.table
    world.publish_events(world.offline)
    files = len(table.files)
    while len(table.files) == files:
        world.now_ms += 1
        world.loaders.go_on()
    world.loaders.restart(table)
    world.remove_segments()
    world.publish_events(world.offline)
    world.rest()
    world.see_absent("gap")


def retention_before_the_commit_of_an_earlier_release(world: Script) -> None:
    """Do the same to a load that has reported before its commit: what its table has not reached does not count."""
    table = world.loaders.table
    world.loaders.stop(table)
    loader = UnpublishedReports(Instance("load", "loader-of-1.0", world.offline.home), WINDOWS)
    _do(world, world.publish(world.offline, loader.begin_reader(VIEWS, world.now_ms * 1000)))
    rows = set[int]()
    for is_committed in (True, False):
        world.publish_events(world.offline)
        world.now_ms += RULES.margin_ms
        ends = {place_of(broker): len(world.offline.logs[VIEWS, broker]) for broker in BROKERS}
        newest = table.history().present()
        for where, end in ends.items():
            start = 0 if newest is None else newest.offsets[where]
            payloads = [entry.payload for entry in world.offline.logs[VIEWS, where.broker_id][start:end]]
            count_read(loader, where, payloads, start, world.now_ms)
            rows.update(event.number for event in payloads if is_committed)
        bounds = {where: (0, end) for where, end in ends.items()}
        reports = loader.take(world.now_ms * 1000, ends={VIEWS: (world.now_ms, bounds)})
        _do(world, world.publish(world.offline, reports))
        if is_committed:
            commit = table.next_commit(None, ends, rows, world.now_ms, "of-1.0", None)
            table.log.append(Logged(frozenset(rows), replace(commit, was_counted=True)))
    world.remove_segments()
    world.loaders.restart(table)
    world.rest()
    world.see_absent("gap")


# What is late is not lost ---------------------------------------------------------------------------------------------


def the_clock_of_a_reader_is_ahead(world: ScriptOfOrigins) -> None:
    """Let a reader be late that would have read all by its own clock."""
    world.publish_events(world.live)
    world.publish_events(world.west)
    world.rest()
    world.see_complete()
    for mirror in world.mirrors:
        mirror.skew_ms = DAY_MS
    _be_late(world)


def the_clock_of_a_producer_is_behind(world: ScriptOfOrigins) -> None:
    """Let a reader be late with events that it had read past long ago by their stamps."""
    world.publish_events(world.live)
    world.publish_events(world.west)
    world.rest()
    world.see_complete()
    _be_late(world, skew_ms=-2 * RULES.margin_ms)


def a_producer_is_a_day_behind(world: Script) -> None:
    """Lose events of windows that are complete for long, as the clock that stamps them is wrong."""
    world.publish_events(world.offline)
    world.rest()
    world.see_complete()
    who = world.publish_events(world.offline, skew_ms=-DAY_MS)
    who.is_ending = True
    world.until(lambda: who.has_ended)
    world.remove_segments()
    world.rest()
    world.see_absent("gap")


def an_origin_is_quiet(world: ScriptOfOrigins) -> None:
    """Close the producers of one origin: of those that go on in the other one the audit can tell all the same."""
    who = world.publish_events(world.west)
    who.is_ending = True
    world.until(lambda: who.has_ended)
    for _ in range(3):
        world.publish_events(world.live)
        world.rest()
        world.see_complete()


def a_topic_is_quiet(world: ScriptOfOrigins) -> None:
    """Close all producers: nothing is on its way, and the audit says so as time goes on."""
    producers = [world.publish_events(world.live), world.publish_events(world.west)]
    for who in producers:
        who.is_ending = True
    world.until(lambda: all(who.has_ended for who in producers))
    for _ in range(3):
        before_ms = world.now_ms
        world.rest()
        world.see_complete()
        settled_ms = world.judged().settled_ms
        assert settled_ms is not None
        assert settled_ms > before_ms


def _be_late(world: ScriptOfOrigins, skew_ms: int = 0) -> None:
    """Let the mirror of one origin read no more events until the audit was asked, and then go on."""
    mirror = world.mirrors[1]
    for _ in range(80):  # it says how far it has come
        next(mirror.steps)
    mirror.stuck = {(VIEWS, broker) for broker in BROKERS}
    world.publish_events(world.west, skew_ms=skew_ms)
    world.rest()
    world.see_absent("tier ")
    assert not world.judged().gaps
    mirror.stuck = set()
    world.rest()
    world.see_complete()


def _do(world: World, steps: Iterable[None]) -> None:
    for _ in steps:
        world.now_ms += 1


def _play(world: type[Script], scenario: Callable[..., None]) -> None:
    scenario(world())


_SCENARIOS: dict[type[Script], tuple[Callable[..., None], ...]] = {
    Script: (
        a_table_is_rolled_back,
        a_copy_is_put_back,
        two_tables_report_as_one_tier,
        two_tables_report_as_one_tier_after_zookeeper_was_lost,
        retention_before_the_commit,
        retention_before_the_commit_of_an_earlier_release,
        a_producer_is_a_day_behind,
    ),
    ScriptOfOrigins: (
        an_origin_is_never_heard_of,
        an_origin_whose_reports_are_not_copied,
        an_origin_is_quiet,
        a_topic_is_quiet,
        the_clock_of_a_reader_is_ahead,
        the_clock_of_a_producer_is_behind,
    ),
}
SCENARIOS: dict[str, Callable[[], None]] = {
    scenario.__name__.replace("_", " "): partial(_play, world, scenario)
    for world, scenarios in _SCENARIOS.items()
    for scenario in scenarios
}
"""What plays each scenario, by its name."""
