"""What is declared and was not heard of cannot be judged, by name."""

from __future__ import annotations

import io
import tomllib

import pytest

from kafka2011.audit.compare import Ledger, TierCount
from kafka2011.audit.complete import watermark
from kafka2011.audit.expected import ExpectedReports, Heard
from kafka2011.audit.observed import observe
from kafka2011.audit.pipeline import Pipeline, PipelineError
from kafka2011.audit.progress import Instance, Progress
from kafka2011.audit.received import ReceivedReports
from kafka2011.audit.report import AUDIT_TOPIC
from kafka2011.audit.scan import AuditScan, Rules
from kafka2011.audit.verdict import Verdict, judge
from kafka2011.audit.window_counts import WindowCounts
from kafka2011.audit.windows import Windows
from tests.support.audit_streams import WINDOW_MS, Copy, Seen, count_read, count_sent
from tests.support.pipelines import two_origins
from zk.cluster import TopicPartition

RULES = Rules(margin_ms=0, dead_after_ms=100)
SCAN = AuditScan(at_ms=90, home="id-of-offline")
HOMES = {"east": "id-of-east", "west": "id-of-west", "offline": "id-of-offline"}
FROM = {"east": "east2:2181,east1:2181/k", "west": "west:2181"}
"""What mirrors call them: as their command line does, which need not be as it is declared."""
SENT = {"east": "00000000-0000-4000-8000-000000000001", "west": "00000000-0000-4000-8000-000000000002"}
WINDOWS = Windows(WINDOW_MS, 0)


class World:
    """Two clusters, a mirror and a warehouse, of which some report."""

    def __init__(self, pipeline: Pipeline | None = None, *, existing: tuple[str, ...] = ("views", "clicks")) -> None:
        self.pipeline = pipeline or two_origins()
        here = self.pipeline.cluster_here("offline:2181", "id-of-offline")
        self.expected = ExpectedReports(pipeline=self.pipeline, here=here, home="id-of-offline", existing=existing)
        self.received = ReceivedReports(self.expected)
        self.ledger = Ledger(io.BytesIO(), 0)

    def publish(self, *clusters: str, tier: str = "producer", topic: str = "views") -> None:
        for cluster in clusters:
            who = Instance(tier, f"{tier}-{cluster}", HOMES[cluster])
            counts, progress = WindowCounts(tier, who.instance, "", WINDOWS), Progress(who, topic)
            count_sent(counts, Seen(), [(SENT[cluster], 5000)])
            for report in progress.number(counts.take()):
                self.received.add(report)
                if topic == "views":
                    self.ledger.add(report)
            self.received.add(progress.through(50_000, None, is_last=True))

    def mirror(self, *clusters: str, topic: str = "views", copies: bool = True, tier: str = "mirror") -> None:
        for cluster in clusters:
            self.read(Instance(tier, f"{tier}-{cluster}", HOMES["offline"], FROM[cluster]), [cluster], topic)
            if copies:
                self.copy(cluster)

    def copy(self, cluster: str) -> None:
        who = Instance("mirror", f"copies-{cluster}", HOMES["offline"], FROM[cluster], copies=HOMES[cluster])
        where = TopicPartition(AUDIT_TOPIC, 0, 0)
        self.received.add(Progress(who, AUDIT_TOPIC).covered(50, 90, {where: (0, 0)}))

    def load(self, *clusters: str) -> None:
        self.read(Instance("warehouse", "load", HOMES["offline"]), clusters, "views")

    def read(self, who: Instance, clusters: tuple[str, ...] | list[str], topic: str) -> None:
        where = TopicPartition(topic, 0, 0)
        counts, progress = WindowCounts(who.tier, who.instance, who.cluster, WINDOWS), Progress(who, topic)
        count_read(counts, Seen(), [Copy(SENT[each], 5000, where, at, 0) for at, each in enumerate(clusters)])
        progress.read(where, 0, 100)
        for report in progress.number(counts.take()):
            self.received.add(report)
            if topic == "views":
                self.ledger.add(report)
        self.received.add(progress.covered(50, 90, {where: (0, 100)}))

    def judge(self, *topics: str) -> Verdict:
        return judge(self.ledger, self.received, SCAN, topics, None, from_ms=None, until_ms=30, rules=RULES)

    def whys(self, *topics: str) -> list[str]:
        return [unknown.why for _, unknown in self.judge(*topics or ("views",)).unknowns]


@pytest.fixture
def world() -> World:
    found = World()
    found.publish("east", "west")
    found.mirror("east", "west")
    found.load("east", "west")
    return found


def test_all_that_is_declared_has_reported(world: World) -> None:
    found = world.judge("views")
    assert (found.unknowns, found.gaps, found.settled_ms) == ([], [], 30)
    assert [account.tiers[2] for account in found.accounts] == [TierCount("warehouse", 2, 2, 0, 0)]
    assert world.expected.undeclared(["views"], world.received) == []


def test_an_origin_that_was_never_reached() -> None:
    """Neither its events nor its reports have come: without the declaration all is complete."""
    found = World()
    found.publish("east")
    found.mirror("east")
    found.load("east")
    west = "no mirror says that it copies reports of cluster west (west:2181), which pipeline.toml declares"
    silent = "tier mirror has never reported on topic views in cluster west (west:2181)"
    assert found.whys() == [f"{west} without an id", silent]
    assert found.judge("views").settled_ms is None
    found.received.expected = None
    assert found.judge("views").unknowns == []


def test_an_origin_whose_reports_are_not_copied() -> None:
    """Its events are, and what was lost before the mirror read it nobody counts."""
    found = World()
    found.publish("east")
    found.mirror("east")
    found.mirror("west", copies=False)
    found.load("east", "west")
    assert found.whys() == [
        "no mirror says that it copies reports of cluster west (west:2181), which pipeline.toml declares without an id"
    ]
    found.received.expected = None
    assert found.judge("views").unknowns == []


def test_an_origin_whose_producers_never_count() -> None:
    """The mirror copies all there is."""
    found = World()
    found.publish("east")
    found.mirror("east", "west")
    found.load("east")
    assert found.whys() == ["tier producer has never reported on topic views in cluster west (west:2181)"]


def test_a_source_may_have_ended_before_what_is_read(world: World) -> None:
    """As far as nothing older is known; who was heard of once is remembered."""
    found = World()
    found.publish("east")
    found.mirror("east", "west")
    found.load("east", "west")
    found.expected.is_partial = True
    assert found.whys() == []
    found.expected.is_partial = False
    found.expected.heard = {Heard("views", "producer", "west")}
    assert found.whys() == []
    world.judge("views")
    assert world.expected.heard == {
        Heard("views", tier.name, cluster.name) for tier, cluster in world.pipeline.passages("views")
    }


def test_a_topic_is_quiet() -> None:
    """Its producers were heard of once and have ended, and nobody has read an event since: nothing is unknown."""
    found = World()
    for cluster in ("east", "west"):
        found.read(Instance("mirror", f"mirror-{cluster}", HOMES["offline"], FROM[cluster]), [], "views")
        found.copy(cluster)
    found.read(Instance("warehouse", "load", HOMES["offline"]), [], "views")
    found.expected.is_partial = True
    assert found.whys() == ["no producer has said anything of it", "no window was compared"]
    found.expected.heard = {Heard("views", "producer", "west")}
    assert found.whys() == ["no window was compared"]
    found.mirror("west")
    assert found.whys() == ["no producer has said anything of it"], "somebody publishes who is not counted"


def test_a_tier_that_never_reported_and_a_topic_that_it_does_not_count() -> None:
    found = World()
    found.publish("east", "west")
    found.mirror("east", "west")
    assert found.whys() == ["tier warehouse has never reported on topic views in cluster offline (offline:2181)"]
    assert found.whys("clicks") == [
        "tier producer has never reported on topic clicks in cluster west (west:2181)",
        "tier mirror has never reported on topic clicks in cluster west (west:2181)",
        "no producer has said anything of it",
        "no window was compared",
    ]


def test_a_topic_that_no_pattern_finds(world: World) -> None:
    """A pattern without topics is a topic that nobody has heard of; topics beside the patterns are not judged."""
    world.expected.existing = ("views", "other")
    world.mirror("east", topic="test")
    found = world.judge()
    assert [(topic, unknown.why) for topic, unknown in found.unknowns] == [
        ("clicks|searches", "no topic matches this declared pattern")
    ]
    assert world.expected.undeclared(["views"], world.received) == ["topic test"]


def test_what_is_not_declared_is_said(world: World) -> None:
    """Readers hide no loss. What a source publishes beside the declared ones is not compared, so nobody can tell."""
    world.mirror("east", tier="spare")
    world.received.add(Progress(Instance("producer", "p", "id-of-north"), "views").through(50_000, None, is_last=True))
    assert world.expected.undeclared(["views"], world.received) == ["tier spare of topic views", "cluster id-of-north"]
    assert world.whys() == ["reports of cluster id-of-north come by no mirror that says so"]
    world.publish("east", tier="test")
    assert "tier test publishes events, and is not declared for this topic: they are not compared" in world.whys()


def test_two_sources_of_a_topic_are_compared_together() -> None:
    """None of them misses what the other one publishes."""
    collector = '[[tiers]]\nname = "collect"\nkind = "collector"\nclusters = ["west"]\n\n[[tiers]]\nname = "mirror"'
    producers = ('name = "producer"\nkind = "producer"\nclusters = ["east", "west"]', PRODUCER_IN_EAST)
    clicks = ('tiers = ["producer", "mirror"]', 'tiers = ["collect", "mirror"]')
    found = World(two_origins(('[[tiers]]\nname = "mirror"', collector), producers, clicks))
    found.publish("east")
    found.publish("west", tier="collect")
    found.mirror("east", "west")
    found.load("east")
    verdict = found.judge("views")
    assert [count[:6] for count in verdict.accounts[0].tiers] == [
        ("producer", 1, 1, 0, 0, 0),
        ("collect", 1, 1, 0, 0, 0),
        ("mirror", 2, 2, 0, 0, 0),
        ("warehouse", 1, 1, 1, 0, 1),
    ]
    assert len(verdict.gaps) == 1


PRODUCER_IN_EAST = 'name = "producer"\nkind = "producer"\nclusters = ["east"]'


def test_a_load_is_complete_only_if_all_before_it_have_reported(world: World) -> None:
    """It asks before it has reported itself."""

    def through(world: World) -> int | None:
        found = watermark(world.ledger, world.received, "views", "warehouse", SCAN, read_ms=90, rules=RULES)
        assert found is not None
        return found.through_ms

    assert through(world) == 90
    silent = World()
    silent.publish("east")
    silent.mirror("east")
    silent.load("east")
    assert through(silent) is None
    first = World()
    first.publish("east", "west")
    first.mirror("east", "west")
    assert through(first) is None
    first.expected.asking = "warehouse"
    assert through(first) == 0, "that is where the first window begins that it misses"


def test_the_id_of_a_cluster_that_is_declared_is_that_one() -> None:
    """A mirror may copy another cluster that is at the same address now."""
    found = World(two_origins(('zookeeper = "west:2181"', 'zookeeper = "west:2181"\nid = "id-of-old-west"')))
    found.publish("east", "west")
    found.mirror("east", "west")
    found.load("east", "west")
    assert (
        "no mirror says that it copies reports of cluster west (west:2181), which pipeline.toml declares"
        in found.whys()
    )


def test_what_runs_is_declared(world: World) -> None:
    """As it was reported; and that declaration holds."""
    world.publish("west", topic="a.b")
    world.mirror("west", topic="a.b")
    found = observe(world.received, "offline:2181", "id-of-offline", ["mirror", "producer", "warehouse"], ["live"])
    found = Pipeline.of(tomllib.loads(found.to_toml()))
    assert {cluster.name: (cluster.zookeeper, cluster.id) for cluster in found.clusters.values()} == {
        "offline": ("offline:2181", "id-of-offline"),
        "k": (FROM["east"], "id-of-east"),
        "west": (FROM["west"], "id-of-west"),
    }
    assert [(tier.name, str(tier.kind), tier.clusters, tier.to) for tier in found.tiers] == [
        ("producer", "producer", ("k", "west"), ""),
        ("mirror", "mirror", ("k", "west"), "offline"),
        ("warehouse", "load", ("offline",), ""),
    ]
    assert [(topics.pattern, topics.tiers, topics.origins) for topics in found.topics] == [
        (r"a\.b", ("producer", "mirror"), ("west",)),
        ("views", ("producer", "mirror", "warehouse"), ("k", "west")),
    ]
    again = World(found, existing=())
    again.received, world.received.expected = world.received, again.expected
    assert world.whys() == []


def test_a_cluster_that_no_mirror_names_has_to_be_completed() -> None:
    """Reports of it have come, and nobody has said from where."""
    found = World()
    found.publish("east")
    found.load("east")
    text = observe(found.received, "offline:2181", "id-of-offline", []).to_toml()
    assert '[clusters.cluster]\nid = "id-of-east"' in text
    with pytest.raises(PipelineError, match=r"\[clusters.cluster\]: zookeeper is missing"):
        Pipeline.of(tomllib.loads(text))
