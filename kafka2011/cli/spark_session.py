"""The Spark session of a command."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING

from kafka2011.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

_LOCAL = {
    "spark.master": "local[*]",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.log.level": "ERROR",
}


@contextlib.contextmanager
def spark_session(name: str) -> Iterator[SparkSession]:
    """Open a session: that of `spark-submit` where it runs the command, else one on this machine.

    `SPARK_CONF_DIR` and `spark-submit --conf` go before what is chosen here. Workers run this Python.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    try:
        from pyspark import SparkConf
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise KafkaError("PySpark is not installed: pip install '.[spark]' in a checkout of kafka2011") from error
    from kafka2011.spark import register

    conf = SparkConf()
    for key, value in _LOCAL.items():
        conf.setIfMissing(key, value)
    if (conf.get("spark.master") or "").startswith("local"):
        # The default of 200 is meant for a cluster: tasks that have nothing to do took minutes here.
        conf.setIfMissing("spark.sql.shuffle.partitions", str(2 * (os.cpu_count() or 1)))
    session = SparkSession.builder.config(conf=conf).appName(f"kafka2011 {name}").getOrCreate()
    try:
        register(session)
        yield session
    finally:
        session.stop()
