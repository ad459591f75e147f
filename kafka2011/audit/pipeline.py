"""The declared pipeline: which clusters, tiers and topics there should be, as an operator writes it down.

Silence is noticed only by one who knows what to expect: `expected` compares a declaration with what was reported.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import tomllib
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from kafka2011.config.kinds import ZK_CONNECT
from kafka2011.errors import REGEX_ERRORS, ConfigError
from kafka2011.topic_pattern import TopicPattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

UNDECLARED = (
    "Only tiers and clusters that have reported can be judged: kafka2011 audit --pipeline FILE declares what should"
    " (--write-pipeline FILE writes it)"
)
"""What an audit without a declaration says of itself."""


class PipelineError(ConfigError):
    """A declared pipeline cannot be used; the text names the file, the table and the key."""


class TierKind(StrEnum):
    """What a tier does with events."""

    PRODUCER = "producer"
    COLLECTOR = "collector"
    GROUP = "group"
    MIRROR = "mirror"
    LOAD = "load"

    @property
    def is_source(self) -> bool:
        """Whether such a tier publishes events, and reads none from partitions."""
        return self in {TierKind.PRODUCER, TierKind.COLLECTOR}


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredCluster:
    """A cluster: a name for it here, its ZooKeeper, and the id that its reports give, once that is known."""

    name: str
    zookeeper: str
    id: str = ""

    def __str__(self) -> str:
        return f"{self.name} ({self.zookeeper})"

    def is_at(self, zk_connect: str) -> bool:
        """Say whether a zk.connect names the same servers and path, in any order."""
        return bool(zk_connect) and _servers(zk_connect) == _servers(self.zookeeper)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredTier:
    """A tier: a source publishes into `clusters`, all others read from them; a mirror copies `to` one cluster."""

    name: str
    kind: TierKind
    clusters: tuple[str, ...]
    to: str = ""
    group: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredTopics:
    """Topics whose whole names match a pattern, the tiers that they pass, and the clusters that they begin in."""

    pattern: str
    tiers: tuple[str, ...]
    origins: tuple[str, ...]


class Passage(NamedTuple):
    """A tier has to report on a topic as far as it is in one cluster."""

    tier: DeclaredTier
    cluster: DeclaredCluster


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """A declaration: clusters by name, tiers in the order that events pass them, topics."""

    path: str
    clusters: Mapping[str, DeclaredCluster]
    tiers: tuple[DeclaredTier, ...]
    topics: tuple[DeclaredTopics, ...]

    @classmethod
    def load(cls, path: Path) -> Pipeline:
        """Read a file. Raises PipelineError."""
        try:
            document = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise PipelineError(f"cannot read {path}: {error}") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise PipelineError(f"{path} is not TOML: {error}") from error
        return cls.of(document, str(path))

    @classmethod
    def of(cls, document: Mapping[str, Any], path: str = "pipeline.toml") -> Pipeline:
        """Return the pipeline that a TOML document declares. Raises PipelineError."""
        return _Parser(path).pipeline(document)

    @property
    def digest(self) -> str:
        """A digest of what is declared, whatever the layout of the file."""
        declared = [
            list(map(asdict, self.clusters.values())),
            list(map(asdict, self.tiers)),
            list(map(asdict, self.topics)),
        ]
        return hashlib.sha256(json.dumps(declared, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def last_cluster(self) -> DeclaredCluster:
        """Where reports of all tiers end up: the cluster that the last tier reads from, or copies to."""
        last = self.tiers[-1]
        return self.clusters[last.to or last.clusters[-1]]

    def declared_topics(self, topic: str) -> DeclaredTopics | None:
        """Return the first declaration whose pattern matches a topic."""
        return next((topics for topics in self.topics if TopicPattern(topics.pattern).matches(topic)), None)

    def tiers_of(self, topic: str) -> list[DeclaredTier]:
        """Return the tiers that a topic passes, in order; none if it is not declared."""
        declared = self.declared_topics(topic)
        return [] if declared is None else [tier for tier in self.tiers if tier.name in declared.tiers]

    def passages(self, topic: str) -> list[Passage]:
        """Return which tier has to report on a topic in which cluster."""
        declared = self.declared_topics(topic)
        return [] if declared is None else self.passages_of(declared)

    def passages_of(self, declared: DeclaredTopics) -> list[Passage]:
        """Return the passages of declared topics: a mirror carries them on into one more cluster."""
        carrying = set(declared.origins)
        found: list[Passage] = []
        for tier in self.tiers:
            if tier.name not in declared.tiers:
                continue
            read = [name for name in tier.clusters if name in carrying]
            found += [Passage(tier, self.clusters[name]) for name in read]
            if read and tier.to:
                carrying.add(tier.to)
        return found

    def cluster_here(self, zk_connect: str, home: str) -> DeclaredCluster:
        """Return the declared cluster with an id, or at a zk.connect if no id is declared. Raises PipelineError."""
        for cluster in self.clusters.values():
            if home and cluster.id == home:
                return cluster
        for cluster in self.clusters.values():
            if cluster.is_at(zk_connect):
                if cluster.id:
                    raise PipelineError(
                        f"{self.path}: clusters.{cluster.name}: id is {cluster.id}, and the cluster at {zk_connect}"
                        f" has the id {home}: correct it, or find out why ZooKeeper has a new id"
                    )
                return cluster
        raise PipelineError(f"{self.path}: no cluster is at {zk_connect} (id {home}): declare it, or give --zookeeper")

    def to_toml(self, comments: Iterable[str] = ()) -> str:
        """Return the text of a file that declares this, with comments at its beginning."""
        lines = [f"# {comment}" for comment in comments]
        for cluster in self.clusters.values():
            lines += ["", f"[clusters.{cluster.name}]", *_lines(zookeeper=cluster.zookeeper, id=cluster.id)]
        for tier in self.tiers:
            lines += ["", "[[tiers]]"]
            lines += _lines(name=tier.name, kind=tier.kind, clusters=tier.clusters, to=tier.to, group=tier.group)
        for topics in self.topics:
            lines += ["", "[[topics]]"]
            lines += _lines(pattern=topics.pattern, tiers=topics.tiers, origins=topics.origins)
        return "\n".join([*lines, ""])


def _lines(**values: str | Sequence[str]) -> list[str]:
    return [
        f"{key} = {json.dumps(value if isinstance(value, str) else list(value), ensure_ascii=False)}"
        for key, value in values.items()
        if value
    ]


def _servers(zk_connect: str) -> tuple[frozenset[str], str]:
    servers, _, path = zk_connect.partition("/")
    return frozenset(server.strip().lower() for server in servers.split(",")), path.strip("/")


class _Parser:
    """Checks a document, and names what is wrong by file, table and key."""

    def __init__(self, path: str) -> None:
        self._path = path

    def pipeline(self, document: Mapping[str, Any]) -> Pipeline:
        self._check_keys("the file", document, ("clusters", "tiers", "topics"))
        tables = self._table("clusters", document)
        clusters = {name: self._cluster(name, table) for name, table in tables.items()}
        tiers = tuple(self._tier(f"[[tiers]] {n}", table, clusters) for n, table in self._tables("tiers", document))
        names = [tier.name for tier in tiers]
        for name in names:
            if names.count(name) > 1:
                raise self._error(f"[[tiers]] {names.index(name) + 1}", "name", f"{name!r} is the name of two tiers")
        topics = tuple(self._topics(f"[[topics]] {n}", table, tiers) for n, table in self._tables("topics", document))
        found = Pipeline(path=self._path, clusters=clusters, tiers=tiers, topics=topics)
        for number, declared in enumerate(topics, 1):
            reached = {passage.tier.name for passage in found.passages_of(declared)}
            for name in declared.tiers:
                if name not in reached:
                    why = f"tier {name} has no cluster that these topics begin in or are copied to"
                    raise self._error(f"[[topics]] {number}", "tiers", why)
        return found

    def _cluster(self, name: str, table: Any) -> DeclaredCluster:
        where = f"[clusters.{name}]"
        if not isinstance(table, dict):
            raise self._error(where, "", "it is no table")
        self._check_keys(where, table, ("zookeeper", "id"))
        zookeeper = self._text(where, table, "zookeeper")
        try:
            ZK_CONNECT.read(zookeeper)
        except ValueError as error:
            raise self._error(where, "zookeeper", str(error)) from error
        return DeclaredCluster(name=name, zookeeper=zookeeper, id=self._text(where, table, "id", ""))

    def _tier(self, where: str, table: Mapping[str, Any], clusters: Mapping[str, Any]) -> DeclaredTier:
        self._check_keys(where, table, ("name", "kind", "clusters", "to", "group"))
        name, kind = self._text(where, table, "name"), self._text(where, table, "kind")
        self._check_known(where, "kind", [kind], [str(each) for each in TierKind])
        read = self._texts(where, table, "clusters")
        to = self._text(where, table, "to", "")
        self._check_known(where, "clusters", read, clusters)
        if (kind == TierKind.MIRROR) != bool(to):
            raise self._error(where, "to", "a mirror, and only a mirror, has a cluster that it copies to")
        if to:
            self._check_known(where, "to", [to], clusters)
        if to in read:
            raise self._error(where, "to", f"it is {to}, which the mirror reads from")
        group = self._text(where, table, "group", "")
        return DeclaredTier(name=name, kind=TierKind(kind), clusters=read, to=to, group=group)

    def _topics(self, where: str, table: Mapping[str, Any], tiers: Sequence[DeclaredTier]) -> DeclaredTopics:
        self._check_keys(where, table, ("pattern", "tiers", "origins"))
        pattern = self._text(where, table, "pattern")
        try:
            TopicPattern(pattern)
        except REGEX_ERRORS as error:
            raise self._error(where, "pattern", f"{pattern!r} is not a regex: {error}") from error
        every = tuple(tier.name for tier in tiers)
        chosen = self._texts(where, table, "tiers", every)
        self._check_known(where, "tiers", chosen, every)
        sources = [tier for tier in tiers if tier.name in chosen and tier.kind.is_source]
        if not sources:
            raise self._error(where, "tiers", "none of them is a producer or a collector, so nothing can be missed")
        published = tuple(dict.fromkeys(name for tier in sources for name in tier.clusters))
        origins = self._texts(where, table, "origins", published)
        self._check_known(where, "origins", origins, published)
        return DeclaredTopics(pattern=pattern, tiers=chosen, origins=origins)

    # The values ------------------------------------------------------------------------------------------------------

    def _error(self, where: str, key: str, why: str) -> PipelineError:
        return PipelineError(f"{self._path}: {where}{f', {key}' if key else ''}: {why}")

    def _check_keys(self, where: str, table: Mapping[str, Any], known: Sequence[str]) -> None:
        for key in table:
            if key not in known:
                raise self._error(where, "", f"unknown key {key!r}{_near(key, known)}")

    def _check_known(self, where: str, key: str, names: Iterable[str], known: Iterable[str]) -> None:
        for name in names:
            if name not in known:
                listed = list(known)
                hint = _near(name, listed) or f": there are {', '.join(listed)}"
                raise self._error(where, key, f"{name!r} is not known{hint}")

    def _table(self, key: str, document: Mapping[str, Any]) -> Mapping[str, Any]:
        table = document.get(key)
        if not isinstance(table, dict) or not table:
            raise self._error("the file", "", f"it has no [{key}.NAME]")
        return table

    def _tables(self, key: str, document: Mapping[str, Any]) -> list[tuple[int, Mapping[str, Any]]]:
        tables = document.get(key)
        if not isinstance(tables, list) or not tables or not all(isinstance(table, dict) for table in tables):
            raise self._error("the file", "", f"it has no [[{key}]]")
        return list(enumerate(tables, 1))

    def _text(self, where: str, table: Mapping[str, Any], key: str, default: str | None = None) -> str:
        text = table.get(key, default)
        if text is None:
            raise self._error(where, "", f"{key} is missing")
        if not isinstance(text, str):
            raise self._error(where, key, f"{text!r} is no text")
        if not text and default is None:
            raise self._error(where, key, "it is empty")
        return text

    def _texts(
        self, where: str, table: Mapping[str, Any], key: str, default: tuple[str, ...] | None = None
    ) -> tuple[str, ...]:
        texts = table.get(key, default)
        if texts is None:
            raise self._error(where, "", f"{key} is missing")
        if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
            raise self._error(where, key, f"{texts!r} is no list of texts")
        if not texts or len(set(texts)) < len(texts):
            raise self._error(where, key, "give each name once, and at least one")
        return tuple(texts)


def _near(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f": did you mean {near[0]!r}?" if near else ""
