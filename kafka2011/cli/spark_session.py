"""The Spark session of a command."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from kafka2011.errors import missing_extra

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession


@contextlib.contextmanager
def spark_session(name: str, master: str | None = None, *, is_short: bool = False) -> Iterator[SparkSession]:
    """Open the session of `spark-submit`, where it runs the command, or else one on this machine.

    `is_short` is for jobs that Spark's start and plans would take longer than the work. Raises
    MissingExtraError without PySpark.
    """
    try:
        from kafka2011.warehouse.load import running_spark
    except ImportError as error:
        raise missing_extra(error) from error
    with running_spark.running_or_new_spark(name, master, running_spark.LIGHT if is_short else None) as spark:
        yield spark
