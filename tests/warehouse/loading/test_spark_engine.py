"""Small tasks of a load need no Spark: they run in the driver, and fail as elsewhere."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kafka2011.spark.errors import DataLossError
from kafka2011.warehouse.errors import WarehouseError
from kafka2011.warehouse.loading.spark_engine import SparkEngine


class BusySpark:
    """A session whose context notes the jobs that it is given, and takes none."""

    def __init__(self) -> None:
        self.jobs: list[int] = []
        self.sparkContext = SimpleNamespace(defaultParallelism=2, parallelize=self._parallelize)

    def _parallelize(self, tasks: list[Any], slices: int) -> Any:
        self.jobs.append(slices)
        raise OSError("busy")


def pid_and(task: int) -> tuple[int, int]:
    return os.getpid(), task


def lose(task: int) -> int:
    raise DataLossError(f"views/0-0 holds offsets {task} to 9")


def divide(task: int) -> float:
    return 1 / task


def test_small_tasks_run_in_the_driver() -> None:
    """A job of Spark's is for more than that."""
    spark = BusySpark()
    engine = SparkEngine(cast("Any", spark.sparkContext))
    assert list(engine.run(pid_and, [7, 8], are_small=True)) == [(os.getpid(), 7), (os.getpid(), 8)]
    assert not spark.jobs
    with pytest.raises(WarehouseError, match="Spark failed"):
        list(engine.run(pid_and, [7, 8]))
    assert spark.jobs == [2]


def test_what_goes_wrong_there_is_told_as_by_executors() -> None:
    """What a task says of the log is passed on; anything else is the load's failure."""
    engine = SparkEngine(cast("Any", BusySpark().sparkContext))
    with pytest.raises(DataLossError, match="offsets 7 to 9"):
        list(engine.run(lose, [7], are_small=True))
    with pytest.raises(WarehouseError, match="ZeroDivisionError"):
        list(engine.run(divide, [0], are_small=True))
