"""The Spark session of a command, and what runs the tasks of one that loads."""

from __future__ import annotations

import contextlib
import logging
from pathlib import Path
from typing import TYPE_CHECKING

from kafka2011.cli.progress import told_progress
from kafka2011.errors import missing_extra

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

    from pyspark.sql import SparkSession

    from kafka2011.warehouse.loading.engine import Engine


@contextlib.contextmanager
def spark_session(name: str, master: str | None = None, *, is_short: bool = False) -> Iterator[SparkSession]:
    """Open the session of `spark-submit`, where it runs the command, or else one on this machine.

    `is_short` is for jobs that Spark's start and plans would take longer than the work. Raises
    MissingExtraError without PySpark.
    """
    running_spark = _imported()
    with running_spark.running_or_new_spark(name, master, running_spark.LIGHT if is_short else None) as spark:
        yield spark


@contextlib.contextmanager
def load_engine(master: str | None) -> Iterator[Engine]:
    """Open what runs the tasks of loads: Spark, or processes of this machine. Raises MissingExtraError, ConfigError."""
    from kafka2011.warehouse.loading.opening import local_engine_of

    local = local_engine_of(master)
    if local is not None:
        with local:
            yield local
        return
    with _imported("load,spark").running_or_new_context("load", master) as context:
        from kafka2011.warehouse.loading.spark_engine import SparkEngine

        yield SparkEngine(context)


def _imported(extras: str = "") -> ModuleType:
    """Return what starts Spark. Raises MissingExtraError without PySpark, which these extras install."""
    try:
        from kafka2011.warehouse.loading import running_spark
    except ImportError as error:
        raise missing_extra(error, extras) from error
    _quieten_py4j()
    return running_spark


@contextlib.contextmanager
def told_tasks(spark: SparkSession, what: str) -> Iterator[None]:
    """Tell how many tasks of Spark are done while the block runs."""
    from kafka2011.spark.driver_jvm import progress_of

    with told_progress(lambda: f"{what}: {progress_of(spark.sparkContext)}"):
        yield


def _quieten_py4j() -> None:
    """Leave out the tracebacks of calls that a dying JVM does not answer, unless everything is logged: it is told once.

    Some are logged without a logger's name.
    """
    root = logging.getLogger()
    if root.level > logging.DEBUG:
        logging.getLogger("py4j").setLevel(logging.CRITICAL)
        root.addFilter(_is_not_of_py4j)


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    return "py4j" not in Path(record.pathname).parts
