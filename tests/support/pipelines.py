"""A declared pipeline for tests: two clusters whose topics a mirror copies into a third, which a warehouse loads."""

from __future__ import annotations

import tomllib

from kafka2011.audit.pipeline import Pipeline

_TWO_ORIGINS = """
[clusters.east]
zookeeper = "east1:2181,east2:2181/k"
id = "id-of-east"

[clusters.west]
zookeeper = "west:2181"

[clusters.offline]
zookeeper = "offline:2181"
id = "id-of-offline"

[[tiers]]
name = "producer"
kind = "producer"
clusters = ["east", "west"]

[[tiers]]
name = "mirror"
kind = "mirror"
clusters = ["east", "west"]
to = "offline"

[[tiers]]
name = "warehouse"
kind = "load"
clusters = ["offline"]

[[topics]]
pattern = "views"
"""
OF_ONE_ORIGIN = """
[[topics]]
pattern = "clicks|searches"
tiers = ["producer", "mirror"]
origins = ["west"]
"""
TWO_ORIGINS = _TWO_ORIGINS + OF_ONE_ORIGIN


def two_origins(*changes: tuple[str, str]) -> Pipeline:
    """Return that pipeline, with texts of the file replaced."""
    text = TWO_ORIGINS
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return Pipeline.of(tomllib.loads(text))
