"""The Spark session of a command."""

from __future__ import annotations

import contextlib
import logging
from pathlib import Path
from typing import TYPE_CHECKING

from kafka2011.cli.progress import told_progress
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
    _quieten_py4j()
    with running_spark.running_or_new_spark(name, master, running_spark.LIGHT if is_short else None) as spark:
        yield spark


@contextlib.contextmanager
def told_tasks(spark: SparkSession, what: str) -> Iterator[None]:
    """Tell how many tasks of Spark are done while the block runs."""
    from py4j.protocol import Py4JError

    def describe() -> str:
        try:
            return in_words()
        except (OSError, Py4JError):  # whoever works with it says that it has died
            return what

    def in_words() -> str:
        tracker = spark.sparkContext.statusTracker()
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        found = [stage for stage in stages if stage is not None]
        if not found:
            return f"{what}: between two jobs of Spark"
        done, every = sum(stage.numCompletedTasks for stage in found), sum(stage.numTasks for stage in found)
        return f"{what}: stage {max(stage.stageId for stage in found)} of Spark, {done} of {every} tasks"

    with told_progress(describe):
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
