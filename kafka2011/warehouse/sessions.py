"""The Spark session of a load that brings none of its own."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_SETTINGS = {"spark.ui.showConsoleProgress": "false", "spark.sql.session.timeZone": "UTC"}
_LOCAL = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}


@contextlib.contextmanager
def spark_session(master: str | None = None) -> Iterator[SparkSession]:
    """Give the session that runs, or a new one, which ends with this block."""
    is_ours = SparkSession.getActiveSession() is None
    spark = open_spark(master)
    try:
        yield spark
    finally:
        if is_ours:
            spark.stop()


def open_spark(master: str | None = None, settings: Mapping[str, str] | None = None) -> SparkSession:
    """Return the session that runs, such as that of spark-submit, or else a new one, on this machine by default.

    Python workers are this interpreter, unless PYSPARK_PYTHON says otherwise.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("kafka2011 load")
    if master is not None:
        builder = builder.master(master)
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ  # by spark-submit, which has set these already
    is_local = not submitted and (master is None or master.startswith("local"))
    for key, value in {**_SETTINGS, **(_LOCAL if is_local else {}), **(settings or {})}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark
