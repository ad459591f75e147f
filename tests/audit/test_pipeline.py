"""The declaration of a pipeline: what it says, and how it is refused."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING

import pytest

from kafka2011.audit.pipeline import Pipeline, PipelineError
from tests.support.pipelines import TWO_ORIGINS, two_origins

if TYPE_CHECKING:
    from pathlib import Path


def test_a_declaration_is_read(tmp_path: Path) -> None:
    """With what it leaves out: all tiers, and all clusters that sources publish into."""
    path = tmp_path / "pipeline.toml"
    path.write_text(TWO_ORIGINS)
    found = Pipeline.load(path)
    assert [str(cluster) for cluster in found.clusters.values()] == [
        "east (east1:2181,east2:2181/k)",
        "west (west:2181)",
        "offline (offline:2181)",
    ]
    assert [tier.name for tier in found.tiers_of("views")] == ["producer", "mirror", "warehouse"]
    assert [tier.name for tier in found.tiers_of("clicks")] == ["producer", "mirror"]
    assert found.tiers_of("other") == []
    passages = [(tier.name, cluster.name) for tier, cluster in found.passages("views")]
    assert passages == [*[(tier, name) for tier in ("producer", "mirror") for name in ("east", "west")], LOADED]
    assert [(tier.name, cluster.name) for tier, cluster in found.passages("clicks")] == [
        ("producer", "west"),
        ("mirror", "west"),
    ]
    assert found.last_cluster.name == "offline"


LOADED = ("warehouse", "offline")


def test_what_is_written_is_read() -> None:
    """And is the same declaration, whatever its layout."""
    found = two_origins()
    again = Pipeline.of(tomllib.loads(found.to_toml(["a comment"])), "elsewhere.toml")
    assert (again.clusters, again.tiers, again.topics) == (found.clusters, found.tiers, found.topics)
    assert again.digest == found.digest
    assert two_origins(("west:2181", "west9:2181")).digest != found.digest


def test_a_cluster_is_found_by_its_id_or_its_address() -> None:
    """A cluster with another id than the declared one is another cluster."""
    found = two_origins()
    assert found.cluster_here("anywhere:1", "id-of-offline").name == "offline"
    assert found.cluster_here("WEST:2181/", "new").name == "west"
    assert found.clusters["east"].is_at("EAST2:2181,east1:2181/k/")
    with pytest.raises(
        PipelineError, match=r"clusters.offline: id is id-of-offline, and the cluster at .* has the id x"
    ):
        found.cluster_here("offline:2181", "x")
    with pytest.raises(PipelineError, match="no cluster is at east1:2181"):
        found.cluster_here("east1:2181", "x")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("[clusters.west]", "[clusters.west", "is not TOML"),
        ('zookeeper = "west:2181"', "", r"\[clusters.west\]: zookeeper is missing"),
        ('zookeeper = "west:2181"', 'zookeper = "west:2181"', "unknown key 'zookeper': did you mean 'zookeeper'"),
        ('zookeeper = "west:2181"', 'zookeeper = "a b"', r"\[clusters.west\], zookeeper: "),
        ('zookeeper = "west:2181"', "zookeeper = 3", r"\[clusters.west\], zookeeper: 3 is no text"),
        ('kind = "load"', 'kind = "laod"', r"\[\[tiers\]\] 3, kind: 'laod' is not known: did you mean 'load'"),
        ('to = "offline"', 'to = "oflin"', r"\[\[tiers\]\] 2, to: 'oflin' is not known: did you mean 'offline'"),
        ('to = "offline"', 'to = "east"', "it is east, which the mirror reads from"),
        ('to = "offline"', "", "a mirror, and only a mirror, has a cluster that it copies to"),
        ('name = "mirror"', 'name = "producer"', r"\[\[tiers\]\] 1, name: 'producer' is the name of two tiers"),
        ('clusters = ["offline"]', "clusters = []", "give each name once, and at least one"),
        ('clusters = ["offline"]', 'clusters = "offline"', "'offline' is no list of texts"),
        ('clusters = ["offline"]', 'clusters = ["north"]', "'north' is not known: there are east, west, offline"),
        ('pattern = "views"', 'pattern = "("', r"\[\[topics\]\] 1, pattern: '\(' is not a regex"),
        ('["producer", "mirror"]', '["mirror"]', r"\[\[topics\]\] 2, tiers: none of them is a producer"),
        (
            '["producer", "mirror"]',
            '["producer", "warehouse"]',
            "tier warehouse has no cluster that these topics begin in",
        ),
        ('origins = ["west"]', 'origins = ["offline"]', r"\[\[topics\]\] 2, origins: 'offline' is not known"),
        ("[[topics]]", "[[topic]]", "the file: unknown key 'topic': did you mean 'topics'"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, old: str, new: str, words: str) -> None:
    """By file, table and key, with the nearest name."""
    path = tmp_path / "pipeline.toml"
    assert old in TWO_ORIGINS
    path.write_text(TWO_ORIGINS.replace(old, new))
    with pytest.raises(PipelineError, match=f"pipeline.toml.*{words}"):
        Pipeline.load(path)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=r"cannot read .*none\.toml"):
        Pipeline.load(tmp_path / "none.toml")
