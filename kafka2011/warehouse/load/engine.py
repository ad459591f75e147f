"""What runs the tasks of a load: Spark's executors, or processes of this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

T = TypeVar("T")
R = TypeVar("R")


class Engine(Protocol):
    """Runs tasks. `spark_engine.SparkEngine` and `local_engine.LocalEngine` are two. For one thread at a time."""

    @property
    def parallelism(self) -> int:
        """How many tasks can run at once."""

    def run(self, job: Callable[[T], R], tasks: Sequence[T]) -> Iterator[R]:
        """Call `job` with each task somewhere, and yield what it returned, in any order; jobs and tasks pickle.

        A task may run more than once, and one that nobody waits for any more may go on; of each, one result comes.
        Raises what a task raised, a KafkaError, or WarehouseError for anything else that went wrong.
        """

    def progress(self) -> str:
        """Say how many tasks are done, in a few words; any thread may ask."""

    def check_alive(self, error: Exception) -> None:
        """Raise SparkDiedError, from the error that a load ended with, when nothing can be run here any more."""
