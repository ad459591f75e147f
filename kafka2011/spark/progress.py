"""How far a streaming query is behind, from the progress that Spark reports of it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from kafka2011.spark.offsets_json import flatten

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zk.cluster import TopicPartition


def lag_bytes(source_progress: Mapping[str, Any]) -> dict[TopicPartition, int]:
    """Return for each partition how many bytes of the log the query had not read.

    `source_progress` is one entry of `query.lastProgress["sources"]`. A partition that the query has not begun counts
    from the start of its log. Raises ValueError when it is not the progress of this source.
    """
    read = flatten(_offsets(source_progress, "endOffset"))
    latest = flatten(_offsets(source_progress, "latestOffset"))
    return {partition: max(end - read.get(partition, 0), 0) for partition, end in latest.items()}


def _offsets(source_progress: Mapping[str, Any], name: str) -> object:
    value = source_progress.get(name)
    return json.loads(value) if isinstance(value, str) else value or {}
