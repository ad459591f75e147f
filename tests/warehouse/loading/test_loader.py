"""Loads of several topics: a failure of one topic stays that topic's."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest

from kafka2011.errors import KafkaError, UnexpectedError
from kafka2011.spark.errors import SparkDiedError
from kafka2011.warehouse.errors import WarehouseError
from kafka2011.warehouse.loading import loader
from kafka2011.warehouse.loading.load_settings import LoadSettings
from kafka2011.warehouse.loading.loader import Loader
from kafka2011.warehouse.loading.local_engine import LocalEngine
from kafka2011.warehouse.loading.place import WorkPlace
from kafka2011.warehouse.loading.topic_load import Loaded
from tests.support.zk_in_memory import ZkClientInMemory

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kafka2011.warehouse.table.topic_table import TopicTable


class PanicException(BaseException):
    """What a panic in Rust becomes."""


FAILURES = [
    KeyError("error"),
    RecursionError("maximum recursion depth exceeded"),
    MemoryError(),
    OSError(28, "No space left on device"),
    WarehouseError("the table cannot be read"),
    PanicException("index out of bounds\n   0: <unknown>\n   1: <unknown>"),
]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[BaseException], Loader]:
    """Give a function that makes a loader of three topics, of which the second one raises an error."""
    error: list[BaseException] = []

    class Load:
        def __init__(self, _: Any, table: TopicTable, *__: Any, **___: Any) -> None:
            self._topic = table.topic
            self.place = WorkPlace()

        def load(self) -> Loaded:
            self.place = WorkPlace(3, 7)
            if self._topic == "bad":
                raise error[0]
            return Loaded(self._topic, 1, 1)

    def redrive(table: TopicTable, _: Any, __: Any, ___: Any, ____: Any, place: WorkPlace) -> None:
        place.schema, place.commit = 3, 7
        if table.topic == "bad":
            raise error[0]

    monkeypatch.setattr(loader, "TopicLoad", Load)
    monkeypatch.setattr(loader, "redrive", redrive)
    monkeypatch.setattr(LoadSettings, "connect", lambda _: ZkClientInMemory())

    def make(failure: BaseException) -> Loader:
        error[:] = [failure]
        settings = LoadSettings(zk_connect="in memory")
        return Loader(LocalEngine(1), str(tmp_path), settings, topics=("first", "bad", "last"))

    return make


@pytest.mark.parametrize("failure", FAILURES, ids=lambda failure: type(failure).__name__)
@pytest.mark.parametrize("what", ["run", "redrive"])
def test_other_topics_go_on_after_any_exception_of_one(
    failure: BaseException, what: str, run: Callable[[BaseException], Loader], caplog: pytest.LogCaptureFixture
) -> None:
    """The line of the log names topic, schema, commit and error, without a backtrace of Rust."""
    done = getattr(run(failure), what)()
    assert [topic.topic for topic in done.loaded] == ["first", "last"]
    [(topic, error)] = done.failed.items()
    assert topic == "bad"
    assert isinstance(error, KafkaError)
    assert isinstance(error, UnexpectedError) != isinstance(failure, WarehouseError)
    [record] = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert record.getMessage().startswith("topic bad ")
    assert "(newest schema 3, commit 7): " in record.getMessage()
    assert type(failure).__name__ in record.getMessage() or isinstance(failure, WarehouseError)
    assert "<unknown>" not in record.getMessage()
    assert done.to_json()["failed"] == [{"topic": "bad", "error": str(error)}]


def test_a_topic_that_failed_is_loaded_again(run: Callable[[BaseException], Loader]) -> None:
    """Its load starts without what the failed one has left."""
    loads = run(KeyError("error"))
    assert [[topic.topic for topic in loads.run().loaded] for _ in range(2)] == [["first", "last"]] * 2


@pytest.mark.parametrize("failure", [KeyboardInterrupt(), SystemExit(1)], ids=["interrupt", "exit"])
def test_what_ends_the_process_ends_the_load(failure: BaseException, run: Callable[[BaseException], Loader]) -> None:
    with pytest.raises(type(failure)):
        run(failure).run()


def test_a_spark_that_has_died_ends_the_load(
    run: Callable[[BaseException], Loader], monkeypatch: pytest.MonkeyPatch
) -> None:
    def check_alive(_: LocalEngine, error: Exception) -> None:
        raise SparkDiedError("the JVM is gone") from error

    monkeypatch.setattr(LocalEngine, "check_alive", check_alive)
    with pytest.raises(SparkDiedError):
        run(KeyError("error")).run()
