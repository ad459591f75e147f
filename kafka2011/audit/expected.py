"""Compares a declared pipeline with what was reported: what is declared and silent cannot be judged. Pure.

A mirror that never reached a source copies neither events nor reports of it. Nothing is missing then, and only a
declaration says that something should be there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from kafka2011.audit.scan import Unknown

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from kafka2011.audit.pipeline import DeclaredCluster, Passage, Pipeline
    from kafka2011.audit.received import ReceivedReports


class Heard(NamedTuple):
    """A tier has reported on a topic in a cluster, all by their declared names."""

    topic: str
    tier: str
    cluster: str


@dataclass(slots=True, kw_only=True)
class ExpectedReports:
    """What a pipeline lets expect of the topic audit in one of its clusters, `here`, whose id is `home`.

    `existing` are the topics there. `heard` is what earlier scans have found. If `is_partial`, the scan covers the
    last reports only, and a source that was not heard in them may have ended. Tiers from `asking` on need not have
    reported yet: it is the one that asks.
    """

    pipeline: Pipeline
    here: DeclaredCluster
    home: str
    existing: Collection[str] = ()
    heard: set[Heard] = field(default_factory=set)
    is_partial: bool = False
    asking: str = ""

    @property
    def sources(self) -> set[str]:
        """The names of the tiers that publish events, and read none."""
        return {tier.name for tier in self.pipeline.tiers if tier.kind.is_source}

    def topics(self, chosen: Collection[str], received: ReceivedReports) -> list[str]:
        """Return the declared topics among those chosen or, if there are none, those that exist or are reported on."""
        names = chosen or {*self.existing, *received.topics}
        return sorted(topic for topic in names if self.pipeline.declared_topics(topic) is not None)

    def tiers_of(self, topic: str) -> list[str]:
        """Return the names of the tiers that a topic passes, in order."""
        return [tier.name for tier in self.pipeline.tiers_of(topic)]

    def was_counted(self, topic: str) -> bool:
        """Say whether a declared source is known to have reported on a topic."""
        return any(heard.topic == topic and heard.tier in self.sources for heard in self.heard)

    def unmatched(self, topics: Collection[str]) -> list[str]:
        """Return the patterns that none of the topics matches."""
        found = {self.pipeline.declared_topics(topic) for topic in topics}
        return [declared.pattern for declared in self.pipeline.topics if declared not in found]

    def unknowns(self, topic: str, received: ReceivedReports) -> Iterator[Unknown]:
        """Yield what is declared for a topic and has not reported, and what publishes it and is not declared."""
        self.heard |= self.heard_of(topic, received)
        silent: set[str] = set()
        for cluster in self._reporting(topic):
            if cluster != self.here and self._id_of(cluster, received) not in received.copied:
                silent.add(cluster.name)
                why = f"no mirror says that it copies reports of cluster {cluster}, which {self.pipeline.path} declares"
                yield Unknown(None, why if cluster.id else f"{why} without an id")
        for tier, cluster in self.pipeline.passages(topic):
            if tier.name == self.asking:
                break
            if tier.kind.is_source and (cluster.name in silent or self.is_partial):
                continue
            if Heard(topic, tier.name, cluster.name) not in self.heard:
                yield Unknown(None, f"tier {tier.name} has never reported on topic {topic} in cluster {cluster}")
        for tier_name in sorted({name for name, _ in received.sources_of(topic)} - set(self.tiers_of(topic))):
            why = f"tier {tier_name} publishes events, and is not declared for this topic: they are not compared"
            yield Unknown(None, why)

    def undeclared(self, topics: Collection[str], received: ReceivedReports) -> list[str]:
        """Return what was heard of and is not declared: readers, clusters, topics.

        It hides no loss. Events of producers in such a cluster are compared, and its reports have to be copied.
        """
        found = [
            f"tier {tier} of topic {topic}"
            for topic in topics
            for tier in sorted(received.readers_of(topic).keys() - set(self.tiers_of(topic)))
        ]
        ids = {self._id_of(cluster, received) for cluster in self.pipeline.clusters.values()}
        found += [f"cluster {home}" for home in sorted(received.homes - ids - {"", self.home})]
        declared = self.pipeline.declared_topics
        return found + [f"topic {topic}" for topic in sorted(received.topics) if declared(topic) is None]

    def heard_of(self, topic: str, received: ReceivedReports) -> set[Heard]:
        """Return which declared tiers have reported on a topic, and where."""
        sources, readers = received.sources_of(topic), received.readers_of(topic)
        found = set[Heard]()
        for passage in self.pipeline.passages(topic):
            tier, cluster = passage
            home = self._id_of(cluster, received)
            if tier.kind.is_source:
                is_heard = (tier.name, home) in sources
            else:
                names = readers.get(tier.name, set())
                is_heard = any(self._is_of(passage, name, reports_to, received) for name, reports_to in names)
            if is_heard:
                found.add(Heard(topic, tier.name, cluster.name))
        return found

    # Inside ----------------------------------------------------------------------------------------------------------

    def _reporting(self, topic: str) -> list[DeclaredCluster]:
        """Return the clusters whose topic audit gets reports on a topic: mirrors report to where they copy to."""
        clusters = self.pipeline.clusters
        found = [clusters[tier.to] if tier.to else cluster for tier, cluster in self.pipeline.passages(topic)]
        return list(dict.fromkeys(found))

    def _id_of(self, cluster: DeclaredCluster, received: ReceivedReports) -> str:
        """Return a cluster's id: as declared, or as the mirror says that names it in its reports; empty if unknown."""
        if cluster == self.here:
            return self.home
        if cluster.id:
            return cluster.id
        for home, names in received.copied.items():
            if any(name == cluster.name or cluster.is_at(name) for name in names):
                return home
        return ""

    def _is_of(self, passage: Passage, name: str, reports_to: str, received: ReceivedReports) -> bool:
        """Say whether a reader that calls its cluster by a name, or not at all, reads from the one of a passage."""
        cluster = passage.cluster
        home = self._id_of(cluster, received)
        if not name:
            return reports_to in {home, ""} if cluster == self.here else bool(home) and reports_to == home
        return name in {cluster.name, home} or cluster.is_at(name) or name in received.copied.get(home, ())
