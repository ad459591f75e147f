"""Commits what Spark has read to a consumer group, so that members of it, or the next load, go on from there."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from kafka2011.admin.groups import Groups
from kafka2011.errors import KafkaError
from kafka2011.spark.offset_ranges import from_json, nest
from zk.connecting import connect

if TYPE_CHECKING:
    from collections.abc import Mapping


def commit_offsets(zk_connect: str, group: str, offsets: str | Mapping[str, Mapping[str, int]]) -> int:
    """Write the offsets where a group continues; return for how many partitions.

    `offsets` are `{"topic": {"0-1": 123}}`, as `ResolvedOffsets.ending_offsets` and the endOffset of a stream's
    progress have them. For a batch, since Spark does not tell its source when it ends. Raises GroupInUse while the
    group has members, which would overwrite them, KafkaError for anything that is not offsets, ZkError without
    ZooKeeper.
    """
    try:
        nested = nest(from_json(offsets if isinstance(offsets, str) else json.dumps(offsets)))
    except ValueError as error:
        raise KafkaError(f"not offsets to commit to group {group}: {error}") from error
    with connect(zk_connect) as client:
        return Groups(client).import_offsets(group, nested)
