"""How far a stream lags behind now, as brokers say: its progress tells of the last micro-batch that has ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka2011.spark.lookup import OffsetLookup
from kafka2011.spark.offset_ranges import flatten, lag_bytes, nest, offsets_in
from kafka2011.spark.options import StreamOptions
from kafka2011.spark.plan import answered

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zk.cluster import TopicPartition


def present_lag_bytes(
    options: Mapping[str, object], source_progress: Mapping[str, Any]
) -> dict[TopicPartition, int | None]:
    """Request the ends of the logs from brokers, and return how many bytes of each the query has not read.

    `options` are those of the stream, and `source_progress` is one entry of `query.lastProgress["sources"]`: during a
    long micro-batch, and once the query has stopped, what it says of the ends is old. None where a broker does not
    answer. Raises ConfigError, BrokerAwayError without ZooKeeper, ValueError for the progress of another source.
    """
    read = StreamOptions.from_options({key: str(value) for key, value in options.items()})
    offsets = flatten(offsets_in(source_progress, "endOffset"))
    with OffsetLookup(read) as lookup:
        ends = answered(lookup.ends(sorted({*lookup.cluster().partitions, *filter(read.reads, offsets)})))
    return lag_bytes({**source_progress, "latestOffset": nest(ends)})
