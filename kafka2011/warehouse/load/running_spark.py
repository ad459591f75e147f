"""The Spark session of a job that has none of its own."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING

from pyspark import SparkContext
from pyspark.sql import SparkSession

from kafka2011.spark import register

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_SETTINGS = {"spark.ui.showConsoleProgress": "false", "spark.sql.session.timeZone": "UTC"}
_LOCAL = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
LIGHT = {
    # Spark is made for long jobs on many machines: 200 partitions, plans that change on the way, code that is compiled
    # twice. On one machine it spent twice the processor time on that, of 6,600 page views.
    "spark.sql.shuffle.partitions": str(2 * (os.cpu_count() or 1)),
    "spark.sql.adaptive.enabled": "false",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
"""Settings that suit short jobs on one machine."""


@contextlib.contextmanager
def running_or_new_spark(
    name: str = "load", master: str | None = None, local: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """Give a session of `open_spark`; where no Spark ran before, it ends with this block."""
    is_ours = _running() is None
    spark = open_spark(master, local=local, name=name)
    try:
        yield spark
    finally:
        if is_ours:
            spark.stop()


def open_spark(
    master: str | None = None,
    settings: Mapping[str, str] | None = None,
    *,
    local: Mapping[str, str] | None = None,
    name: str = "load",
) -> SparkSession:
    """Return a session of our own: in the Spark that the application runs, or else in a new one, here by default.

    The application's session and its log level stay as they are. `local` are settings for a new Spark on this machine
    only. Python workers are this interpreter, unless PYSPARK_PYTHON says otherwise. The format kafka2011 is known in
    the session.
    """
    running = _running()
    if running is not None:
        spark = running.newSession()
        for key, value in {**_SETTINGS, **(local or {}), **(settings or {})}.items():
            if key.startswith("spark.sql."):  # what else there is belongs to Spark as a whole
                spark.conf.set(key, value)
        register(spark)
        return spark
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(f"kafka2011 {name}")
    if master is not None:
        builder = builder.master(master)
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ  # by spark-submit, which has set these already
    is_local = not submitted and (master is None or master.startswith("local"))
    here = {**_LOCAL, **(local or {})} if is_local else {}
    for key, value in {**_SETTINGS, **here, **(settings or {})}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    register(spark)
    return spark


def _running() -> SparkSession | None:
    """Return the application's session; None where no Spark runs."""
    if SparkContext._active_spark_context is None:
        return None
    return SparkSession.builder.getOrCreate()
