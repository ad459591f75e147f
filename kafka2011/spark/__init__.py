"""Kafka 0.7 topics as a Spark source and sink, on PySpark's Python Data Source API (paper, section 4).

    spark.read.format("kafka2011").option("zk.connect", "localhost:2181").option("subscribe", "views").load()

Installed from a wheel the format is found by Spark itself, through the module `pyspark_kafka2011`; otherwise call
`register(spark)` first. Names are loaded when first used, so that this import needs neither PySpark nor PyArrow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka2011.lazy_names import lazily

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafka2011.spark.errors import BrokerAwayError, CorruptMessageError, DataLossError
    from kafka2011.spark.group_commit import commit_offsets
    from kafka2011.spark.offset_ranges import SourceMetrics, lag_bytes, source_metrics
    from kafka2011.spark.plan import ResolvedOffsets, resolve_offsets
    from kafka2011.spark.source_lag import present_lag_bytes

__all__ = [
    "BrokerAwayError",
    "CorruptMessageError",
    "DataLossError",
    "ResolvedOffsets",
    "SourceMetrics",
    "commit_offsets",
    "lag_bytes",
    "present_lag_bytes",
    "register",
    "resolve_offsets",
    "source_metrics",
]


def register(spark: SparkSession) -> None:
    """Register the format `kafka2011` in the session `spark`, where Spark does not find it itself."""
    from kafka2011.spark.data_source import Kafka2011DataSource  # noqa: PLC0415 (needs PySpark)

    spark.dataSource.register(Kafka2011DataSource)


__getattr__ = lazily(
    __name__,
    {
        "kafka2011.spark.errors": ("BrokerAwayError", "CorruptMessageError", "DataLossError"),
        "kafka2011.spark.group_commit": ("commit_offsets",),
        "kafka2011.spark.offset_ranges": ("SourceMetrics", "lag_bytes", "source_metrics"),
        "kafka2011.spark.plan": ("ResolvedOffsets", "resolve_offsets"),
        "kafka2011.spark.source_lag": ("present_lag_bytes",),
    },
)
