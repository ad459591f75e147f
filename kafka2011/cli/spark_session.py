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

_EVERYWHERE = {"spark.ui.showConsoleProgress": "false", "spark.sql.session.timeZone": "UTC", "spark.log.level": "ERROR"}
_HERE = {
    "spark.master": "local[*]",
    "spark.ui.enabled": "false",
    # Spark is made for long jobs on many machines: 200 partitions, plans that change on the way, code that is compiled
    # twice. On one machine it spent twice the processor time on that, of 6,600 page views.
    "spark.sql.shuffle.partitions": str(2 * (os.cpu_count() or 1)),
    "spark.sql.adaptive.enabled": "false",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


@contextlib.contextmanager
def spark_session(name: str) -> Iterator[SparkSession]:
    """Open the session of `spark-submit`, where it runs the command, or else one on this machine.

    Workers run this Python, unless PYSPARK_PYTHON says otherwise. Raises KafkaError without PySpark.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise KafkaError("PySpark is not installed: pip install '.[spark]' in a checkout of kafka2011") from error
    from kafka2011.spark import register

    builder = SparkSession.builder.appName(f"kafka2011 {name}")
    is_submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    for key, value in (_EVERYWHERE if is_submitted else _EVERYWHERE | _HERE).items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    try:
        register(session)
        yield session
    finally:
        session.stop()
