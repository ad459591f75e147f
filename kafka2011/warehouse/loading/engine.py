"""What runs the tasks of a load: Spark's executors, processes of this machine, or this one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

from kafka2011.errors import KafkaError
from kafka2011.warehouse.errors import WarehouseError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

T = TypeVar("T")
R = TypeVar("R")


class Engine(Protocol):
    """Runs tasks. `spark_engine.SparkEngine` and `local_engine.LocalEngine` are two. For one thread at a time."""

    @property
    def parallelism(self) -> int:
        """How many tasks can run at once."""

    def run(self, job: Callable[[T], R], tasks: Sequence[T], *, are_small: bool = False) -> Iterator[R]:
        """Call `job` with each task somewhere, and yield what it returned, in any order; jobs and tasks pickle.

        Tasks that `are_small` take less than it takes to give them to others, and run in this process.
        A task may run more than once, and one that nobody waits for any more may go on; of each, one result comes.
        Raises what a task raised, a KafkaError, or WarehouseError for anything else that went wrong.
        """

    def progress(self) -> str:
        """Say how many tasks are done, in a few words; any thread may ask."""

    def check_alive(self, error: Exception) -> None:
        """Raise SparkDiedError, from the error that a load ended with, when nothing can be run here any more."""


def run_here(job: Callable[[T], R], tasks: Sequence[T]) -> Iterator[R]:
    """Run tasks in this process, one after the other; raises as `Engine.run` does."""
    for task in tasks:
        try:
            result = job(task)
        except (KafkaError, MemoryError):
            raise
        except Exception as error:
            raise WarehouseError(f"a task failed: {type(error).__name__}: {error}") from error
        yield result
