"""Makes a declaration of what is running, for an operator to correct: `kafka2011 audit --write-pipeline`. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kafka2011.audit.pipeline import DeclaredCluster, DeclaredTier, DeclaredTopics, Pipeline, TierKind

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from kafka2011.audit.received import ReceivedReports

COMMENTS = (
    "What events pass, for `kafka2011 audit --pipeline`, as it has reported until now. Add what is missing:",
    "clusters that were never reached, tiers and topics that are silent. See docs/how-to/audit.md.",
)
_LITERAL = re.compile(r"([.])")


def observe(
    received: ReceivedReports, zk_connect: str, home: str, seen: Sequence[str], groups: Collection[str] = ()
) -> Pipeline:
    """Return a pipeline of the tiers, clusters and topics that were reported to the cluster with the id `home`.

    Tiers stand in the order of `seen`, in which they first counted, sources first. A tier named as one of `groups` is
    taken for a group. A cluster whose ZooKeeper no mirror names has none, so that the file has to be completed.
    """
    topics = sorted(received.topics)
    clusters = _Clusters(received, zk_connect, home)
    sources = {tier for topic in topics for tier, _ in received.sources_of(topic)}
    readers = {tier for topic in topics for tier in received.readers_of(topic)} - sources
    names = sorted(sources | readers)
    order = [*(tier for tier in seen if tier in names), *(tier for tier in names if tier not in seen)]
    order = sorted(order, key=lambda tier: tier not in sources)
    tiers = tuple(
        clusters.source(tier, topics) if tier in sources else clusters.reader(tier, topics, groups) for tier in order
    )
    by_passage: dict[tuple[tuple[str, ...], tuple[str, ...]], list[str]] = {}
    for topic in topics:
        of_topic = {tier for tier, _ in received.sources_of(topic)} | received.readers_of(topic).keys()
        origins = sorted({clusters.name_of(reports_to) for _, reports_to in received.sources_of(topic)})
        passed = tuple(tier for tier in order if tier in of_topic)
        by_passage.setdefault((passed, tuple(origins)), []).append(topic)
    declared = tuple(
        DeclaredTopics(pattern="|".join(_LITERAL.sub(r"\\\1", topic) for topic in alike), tiers=passed, origins=origins)
        for (passed, origins), alike in by_passage.items()
    )
    return Pipeline(path="", clusters=clusters.declared(), tiers=tiers, topics=declared)


class _Clusters:
    """Finds names for clusters, of which reports have ids, and readers the zk.connect or a name of their own."""

    def __init__(self, received: ReceivedReports, zk_connect: str, home: str) -> None:
        self._received = received
        self._home = home
        self._clusters: dict[str, DeclaredCluster] = {}
        self._add(home, zk_connect)
        for cluster_id in sorted({*received.homes, *received.copied} - {home, ""}):
            self._add(cluster_id, min(received.copied.get(cluster_id, ()), default=""))

    def declared(self) -> dict[str, DeclaredCluster]:
        return {cluster.name: cluster for cluster in self._clusters.values()}

    def name_of(self, cluster_id: str) -> str:
        return self._clusters[cluster_id or self._home].name

    def source(self, tier: str, topics: Iterable[str]) -> DeclaredTier:
        homes = {home for topic in topics for name, home in self._received.sources_of(topic) if name == tier}
        return DeclaredTier(name=tier, kind=TierKind.PRODUCER, clusters=tuple(sorted(map(self.name_of, homes))))

    def reader(self, tier: str, topics: Iterable[str], groups: Collection[str]) -> DeclaredTier:
        read, targets = set[str](), set[str]()
        for topic in topics:
            for name, home in self._received.readers_of(topic).get(tier, ()):
                cluster = self._read_by(name, home)
                read.add(cluster)
                if cluster != self.name_of(home):
                    targets.add(self.name_of(home))
        if targets - read:
            return DeclaredTier(name=tier, kind=TierKind.MIRROR, clusters=tuple(sorted(read)), to=min(targets - read))
        kind = TierKind.GROUP if tier in groups else TierKind.LOAD
        return DeclaredTier(
            name=tier, kind=kind, clusters=tuple(sorted(read)), group=tier if kind is TierKind.GROUP else ""
        )

    def _read_by(self, name: str, home: str) -> str:
        """Return the cluster that a reader calls by a name, or by none if it is the one that it reports to."""
        if not name:
            return self.name_of(home)
        for cluster_id, names in self._received.copied.items():
            if name in names:
                return self.name_of(cluster_id)
        for cluster in self._clusters.values():
            if cluster.is_at(name):
                return cluster.name
        self._add("", name, key=name)
        return self._clusters[name].name

    def _add(self, cluster_id: str, zookeeper: str, key: str = "") -> None:
        taken = {cluster.name for cluster in self._clusters.values()}
        servers, _, path = zookeeper.partition("/")
        stem = re.sub(r"[^A-Za-z0-9_-]", "-", path.strip("/").rpartition("/")[2] or re.split(r"[.:,]", servers)[0])
        stem = "cluster" if not stem or stem.isdigit() else stem
        names = (stem if number == 1 else f"{stem}{number}" for number in range(1, len(taken) + 2))
        name = next(name for name in names if name not in taken)
        self._clusters[key or cluster_id] = DeclaredCluster(name=name, zookeeper=zookeeper, id=cluster_id)
