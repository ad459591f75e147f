"""The JVM under a Spark driver: started where our signals do not reach it, and told from other trouble when it dies."""

from __future__ import annotations

import contextlib
import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway

from kafka2011.spark.errors import SparkDiedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from py4j.java_gateway import JavaGateway
    from pyspark import SparkConf


def launch(conf: SparkConf) -> JavaGateway | None:
    """Start the JVM outside our process group, whose signals we answer; None where there is one already."""
    is_there = SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ
    return None if is_there else launch_gateway(conf, {"start_new_session": True})


def quieten(context: SparkContext) -> None:
    """Keep the server that sums up accumulators from printing a traceback when the JVM dies: that is told once."""
    context._accumulatorServer.handle_error = lambda *_: None


@contextlib.contextmanager
def telling_of_its_death() -> Iterator[None]:
    """Raise SparkDiedError in place of what a dead JVM looks like from here, such as a refused connection."""
    try:
        yield
    except Exception as error:
        check_alive(error)
        raise


def progress_of(context: SparkContext) -> str:
    """Say how many tasks are done of the present stage."""
    try:
        tracker = context.statusTracker()
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    except (OSError, Py4JError):  # whoever works with it says that it has died
        return "Spark does not answer"
    active = [stage for stage in stages if stage is not None]
    if not active:
        return "between two jobs of Spark"
    done, every = sum(stage.numCompletedTasks for stage in active), sum(stage.numTasks for stage in active)
    return f"stage {max(stage.stageId for stage in active)} of Spark, {done} of {every} tasks"


def check_alive(error: Exception | None = None) -> None:
    """Raise SparkDiedError, from the error that led to the question, if this process's Spark has lost its JVM."""
    context = SparkContext._active_spark_context
    if context is None or context._jvm is None:
        return
    log = logging.getLogger("py4j")
    level = log.level
    log.setLevel(logging.CRITICAL)  # it logs a traceback for each call that fails
    try:
        context._jvm.java.lang.System.nanoTime()
    except (Py4JError, PySparkException, OSError):
        process = getattr(context._gateway, "proc", None)
        pid = "" if process is None else f", process {process.pid},"
        crash = "" if process is None else f", in {Path.cwd()}/hs_err_pid{process.pid}.log"
        raise SparkDiedError(
            f"Spark's JVM{pid} has died. Why may be above, where it logs to standard error{crash}, or in the"
            " kernel's log, if memory ran out"
        ) from error
    finally:
        log.setLevel(level)
