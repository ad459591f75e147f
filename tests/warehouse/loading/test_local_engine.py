"""Tasks in processes of this machine: each one's result comes once, and what goes wrong is told."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from kafka2011.errors import ConfigError
from kafka2011.spark.errors import DataLossError
from kafka2011.warehouse.errors import WarehouseError
from kafka2011.warehouse.loading.local_engine import LocalEngine
from kafka2011.warehouse.loading.opening import local_engine_of, opened_engine


def pid_and(task: int) -> tuple[int, int]:
    return os.getpid(), task


def fail_at_three(task: int) -> int:
    if task == 3:
        raise DataLossError("views/0-0 holds offsets 7 to 9")
    return task


def divide(task: int) -> float:
    return 1 / task


def die_at_three(task: int) -> int:
    if task == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return task


def ignore_signals(task: int) -> int:
    os.kill(os.getpid(), signal.SIGTERM)
    os.kill(os.getpid(), signal.SIGINT)
    return task


@pytest.mark.parametrize(("processes", "others"), [(1, 0), (2, 2), (9, 5)])
def test_each_task_runs_once_in_one_of_so_many_processes(processes: int, others: int) -> None:
    """There is one for each task at most, and none but this one for a single task at once."""
    with LocalEngine(processes) as engine:
        found = list(engine.run(pid_and, range(5)))
        again = list(engine.run(pid_and, range(5)))
    assert sorted(task for _, task in found) == sorted(task for _, task in again) == [*range(5)]
    pids = {pid for pid, _ in found + again}
    assert len(pids - {os.getpid()}) == others
    assert (os.getpid() in pids) is (others == 0)


def test_one_task_alone_runs_here() -> None:
    """Processes take longer to start."""
    with LocalEngine(4) as engine:
        assert list(engine.run(pid_and, [7])) == [(os.getpid(), 7)]
        assert list(engine.run(pid_and, [])) == []
        assert engine.progress() == "0 of 0 tasks"


@pytest.mark.parametrize("processes", [1, 2])
def test_what_a_task_raises_is_raised(processes: int) -> None:
    """A KafkaError as it is, anything else as one that names it; other loads go on afterwards."""
    with LocalEngine(processes) as engine:
        with pytest.raises(DataLossError, match="holds offsets 7 to 9"):
            list(engine.run(fail_at_three, range(6)))
        with pytest.raises(WarehouseError, match="a task failed: ZeroDivisionError: division by zero"):
            list(engine.run(divide, [0, 0, 0]))
        assert sorted(engine.run(fail_at_three, [4, 5])) == [4, 5]


def test_a_process_that_dies_is_told_and_replaced() -> None:
    """As when memory runs out."""
    with LocalEngine(2) as engine:
        with pytest.raises(WarehouseError, match=r"a process of this load, \d+, was ended by signal 9"):
            list(engine.run(die_at_three, range(6)))
        assert sorted(engine.run(die_at_three, [1, 2])) == [1, 2]


def test_processes_leave_signals_to_the_loader() -> None:
    """It lets a load end that has begun, though all processes of a unit get SIGTERM."""
    with LocalEngine(2) as engine:
        assert sorted(engine.run(ignore_signals, range(4))) == [*range(4)]


def test_a_master_without_spark_says_how_many_processes() -> None:
    """Its other forms are Spark's masters, or wrong."""
    engine = local_engine_of("none[3]")
    assert engine is not None
    assert engine.parallelism == 3
    for master in ("none", "none[*]"):
        engine = local_engine_of(master)
        assert engine is not None
        assert engine.parallelism == os.cpu_count()
    assert local_engine_of(None) is local_engine_of("local[2]") is local_engine_of("yarn") is None
    for wrong in ("none[0]", "none[two]", "nonesuch"):
        with pytest.raises(ConfigError, match="none, or none"):
            local_engine_of(wrong)
    with opened_engine("none[2]") as opened:
        assert opened.parallelism == 2


def test_loads_without_spark_import_nothing_of_it() -> None:
    """In the loader and in its processes."""
    modules = (
        "kafka2011.warehouse.loading.loader, kafka2011.warehouse.loading.worker, kafka2011.warehouse.loading.load_job"
    )
    program = f"import sys, {modules}, kafka2011.cli.load; sys.exit('pyspark' in sys.modules or 'py4j' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
