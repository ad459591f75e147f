"""Makes Spark find the format `kafka2011` by itself.

Spark imports every top-level module called `pyspark_*` and takes the class DefaultSource from it.
"""

from __future__ import annotations

from kafka2011.spark.data_source import Kafka2011DataSource as DefaultSource

__all__ = ["DefaultSource"]
