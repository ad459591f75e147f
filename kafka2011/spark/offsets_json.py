"""Offsets of partitions as text and as JSON: `{"topic": {"0-1": 123}}`, as options, checkpoints and progress have them.

The names inside are those of the offset registry, `{broker id}-{partition}`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TypeAlias

from kafka2011.topic import InvalidTopicError, validate_topic
from zk.cluster import TopicPartition
from zk.errors import MalformedNode

Offsets: TypeAlias = dict[TopicPartition, int]
Nested: TypeAlias = dict[str, dict[str, int]]

MAX_OFFSET = 2**63 - 1


def nest(offsets: Mapping[TopicPartition, int]) -> Nested:
    """Return offsets as JSON has them, sorted."""
    nested: Nested = {}
    for partition, offset in sorted(offsets.items()):
        nested.setdefault(partition.topic, {})[partition.znode_name] = offset
    return nested


def to_json(offsets: Mapping[TopicPartition, int]) -> str:
    """Return offsets as JSON text."""
    return json.dumps(nest(offsets))


def flatten(nested: object, least: int = 0) -> Offsets:
    """Read offsets from what JSON holds. Raises ValueError, saying what is wrong and where."""
    if not isinstance(nested, Mapping):
        raise ValueError(f'{nested!r} is not {{"topic": {{"0-1": 123}}}}')  # noqa: TRY004 (one more bad value)
    offsets: Offsets = {}
    for topic, by_partition in nested.items():
        try:
            validate_topic(str(topic))
        except InvalidTopicError as error:
            raise ValueError(str(error)) from error
        if not isinstance(by_partition, Mapping):
            raise ValueError(f'topic {topic!r}: {by_partition!r} is not {{"0-1": 123}}')  # noqa: TRY004 (as above)
        for name, offset in by_partition.items():
            partition = _partition(str(topic), str(name))
            if isinstance(offset, bool) or not isinstance(offset, int) or not least <= offset <= MAX_OFFSET:
                raise ValueError(f"{partition}: {offset!r} is not an offset of {least} or more")
            offsets[partition] = offset
    return offsets


def from_json(text: str, least: int = 0) -> Offsets:
    """Read offsets from JSON text. Raises ValueError."""
    try:
        return flatten(json.loads(text), least)
    except json.JSONDecodeError as error:
        raise ValueError(f"{text[:200]!r} is not JSON: {error}") from error


def _partition(topic: str, name: str) -> TopicPartition:
    try:
        return TopicPartition.from_znode_name(topic, name)
    except MalformedNode as error:
        raise ValueError(f"topic {topic!r}: {name!r} is not {{broker id}}-{{partition}}") from error
