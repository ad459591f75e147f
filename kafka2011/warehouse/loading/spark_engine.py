"""Runs the tasks of a load on Spark's executors: Spark hands out ranges, and takes small results back.

A job of Spark's costs 10 to 20 ms of processor time, however little there is to read: small tasks run in the driver.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from kafka2011.spark import driver_jvm
from kafka2011.spark.errors import BrokerAwayError, CorruptMessageError, DataLossError
from kafka2011.warehouse.errors import WarehouseError
from kafka2011.warehouse.loading.engine import run_here

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark import SparkContext

T = TypeVar("T")
R = TypeVar("R")

_TASKS_IN_JOB = 16
"""How many tasks one job has, if that is not fewer than four for each core: what they return is in memory at once."""


class SparkEngine:
    """An `Engine` on Spark, by what hands out its tasks."""

    def __init__(self, context: SparkContext) -> None:
        self._context = context

    @property
    def parallelism(self) -> int:
        """How many tasks can run at once, as far as Spark says."""
        return int(self._context.defaultParallelism)

    def run(self, job: Callable[[T], R], tasks: Sequence[T], *, are_small: bool = False) -> Iterator[R]:
        """Run the tasks in one job of Spark's after the other, or here. Raises SparkDiedError, too."""
        if are_small:
            driver_jvm.check_alive()  # the next load may be large
            yield from run_here(job, tasks)
            return
        size = max(_TASKS_IN_JOB, 4 * self.parallelism)
        for first in range(0, len(tasks), size):
            some = tasks[first : first + size]
            try:
                results = self._context.parallelize(some, len(some)).map(job).collect()
            except (PySparkException, Py4JError, OSError) as error:
                raise _translated(error) from error
            yield from results

    def progress(self) -> str:
        """Say how many tasks of the present job are done."""
        return driver_jvm.progress_of(self._context)

    def check_alive(self, error: Exception) -> None:
        """Raise SparkDiedError if the JVM is gone."""
        driver_jvm.check_alive(error)


def _translated(error: Exception) -> Exception:
    """Return what Spark says of a failed task as the error that the task raised."""
    text = str(error)
    for kind in (DataLossError, BrokerAwayError, CorruptMessageError):
        _, separator, rest = text.partition(f"{kind.__module__}.{kind.__qualname__}: ")
        if separator:
            return kind(rest.splitlines()[0])
    return WarehouseError(f"Spark failed: {_last_words(text)}")


def _last_words(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    named = [line for line in lines if "Error: " in line or "Exception: " in line]
    return (named or lines or ["nothing said"])[-1][:500]
