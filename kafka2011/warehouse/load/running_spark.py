"""The Spark session of a job that has none of its own."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from typing import TYPE_CHECKING

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from kafka2011.errors import ConfigError
from kafka2011.spark import driver_jvm, register
from kafka2011.spark.errors import SparkDiedError

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

_lock = threading.Lock()
_users = 0
"""How many use the Spark that was started here."""


@contextlib.contextmanager
def running_or_new_spark(
    name: str = "load", master: str | None = None, local: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """Give a session of `open_spark`; where no Spark ran before, it ends with the last block of any thread.

    Raises ConfigError for another master than that of the Spark that another thread has started.
    """
    global _users  # noqa: PLW0603 (a process has one Spark)
    with _lock:
        is_ours = _users > 0 or _running() is None
        spark = open_spark(master, local=local, name=name)
        if _users and master is not None and master != spark.sparkContext.master:
            raise ConfigError(f"master {master}: this process already has a Spark, with {spark.sparkContext.master}")
        _users += is_ours
    try:
        with driver_jvm.telling_of_its_death():
            yield spark
    finally:
        with _lock:
            _users -= is_ours
            if is_ours and not _users:
                _stop(spark)


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
    conf = SparkConf().setAppName(f"kafka2011 {name}")
    if master is not None:
        conf.setMaster(master)
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ  # by spark-submit, which has set these already
    is_local = not submitted and (master is None or master.startswith("local"))
    here = {**_LOCAL, **(local or {})} if is_local else {}
    for key, value in {**_SETTINGS, **here, **(settings or {})}.items():
        conf.set(key, value)
    driver_jvm.quieten(SparkContext(conf=conf, gateway=driver_jvm.launch(conf)))
    spark = SparkSession.builder.config(conf=conf).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    register(spark)
    return spark


def _stop(spark: SparkSession) -> None:
    """End Spark, if its JVM still runs."""
    try:
        driver_jvm.check_alive()
    except SparkDiedError:  # which whoever used it has been told
        return
    spark.stop()


def _running() -> SparkSession | None:
    """Return the application's session; None where no Spark runs."""
    if SparkContext._active_spark_context is None:
        return None
    return SparkSession.builder.getOrCreate()
