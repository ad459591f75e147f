"""The JVM under a driver, as far as its death is told from other errors."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark import SparkContext

from kafka2011.spark.driver_jvm import check_alive, telling_of_its_death
from kafka2011.spark.errors import SparkDiedError
from kafka2011.warehouse.loading import loader

if TYPE_CHECKING:
    from collections.abc import Callable

PID = 4711


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch) -> Callable[[Exception | None], None]:
    """Have a Spark whose JVM answers, or fails with an error."""

    def prepare(error: Exception | None) -> None:
        def nano_time() -> int:
            logging.getLogger("py4j.clientserver").error("a traceback, perhaps")
            if error is not None:
                raise error
            return 1

        system: Any = SimpleNamespace(java=SimpleNamespace(lang=SimpleNamespace(System=SimpleNamespace())))
        system.java.lang.System.nanoTime = nano_time
        gateway = SimpleNamespace(proc=SimpleNamespace(pid=PID))
        context = SimpleNamespace(_jvm=system, _gateway=gateway)
        monkeypatch.setattr(SparkContext, "_active_spark_context", context)

    return prepare


@pytest.mark.parametrize("error", [ConnectionRefusedError(111, "Connection refused"), Py4JNetworkError("no answer")])
def test_what_a_dead_jvm_looks_like(
    spark: Callable[[Exception | None], None], error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever failed because of it, its death is told, with where to look for the reason, and without py4j's words."""
    spark(error)
    words = f"process {PID}, has died.*hs_err_pid{PID}.log"
    with pytest.raises(SparkDiedError, match=words) as told, telling_of_its_death():
        raise ValueError("what happened to fail")
    assert str(told.value.__cause__) == "what happened to fail"
    assert caplog.messages == []


def test_other_errors_are_what_they_are(spark: Callable[[Exception | None], None]) -> None:
    """While the JVM answers, or where there is none."""
    with pytest.raises(ConnectionRefusedError), telling_of_its_death():
        raise ConnectionRefusedError(111, "a broker's")
    spark(None)
    check_alive()
    with pytest.raises(ConnectionRefusedError), telling_of_its_death():
        raise ConnectionRefusedError(111, "a broker's")


def test_a_load_from_python_tells_too(
    spark: Callable[[Exception | None], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An application that loads in a loop should not take it for a broker that is away."""

    def run(_: object) -> None:
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr(loader.Loader, "run", run)
    spark(ConnectionRefusedError(111, "Connection refused"))
    unused: Any = object()
    with pytest.raises(SparkDiedError):
        loader.load(["views"], warehouse="/nowhere", zk_connect="h:1", spark=unused)
