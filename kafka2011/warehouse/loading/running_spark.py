"""Spark for a job that has none of its own: a session, or what only hands out tasks."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from typing import TYPE_CHECKING, TypeVar

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from kafka2011.errors import ConfigError
from kafka2011.spark import driver_jvm, register
from kafka2011.spark.errors import SparkDiedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

T = TypeVar("T")

_SETTINGS = {"spark.ui.showConsoleProgress": "false", "spark.sql.session.timeZone": "UTC"}
_LOCAL = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
_LIGHT_JVM = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
"""For a JVM that lives shortly or has little to do: else it spends most of its time on making its own code fast."""
LIGHT = {
    # Spark is made for long jobs on many machines: 200 partitions, plans that change on the way, code that is compiled
    # twice. On one machine it spent twice the processor time on that, of 6,600 page views.
    "spark.sql.shuffle.partitions": str(2 * (os.cpu_count() or 1)),
    "spark.sql.adaptive.enabled": "false",
    **_LIGHT_JVM,
}
"""Settings that suit short jobs on one machine."""

_lock = threading.Lock()
_users = 0
"""How many use the Spark that was started here."""


@contextlib.contextmanager
def running_or_new_spark(
    name: str = "load", master: str | None = None, local: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """Give a session of `open_spark`; where no Spark ran before, it ends with the last block of any thread.

    Raises ConfigError for another master than that of the Spark that another thread has started.
    """
    with _in_use(lambda: open_spark(master, local=local, name=name), master) as spark:
        yield spark


@contextlib.contextmanager
def running_or_new_context(name: str = "load", master: str | None = None) -> Iterator[SparkContext]:
    """Give what hands out tasks, as `running_or_new_spark` gives a session: that is enough for loads.

    Without SQL, whose start alone costs two seconds of processor time.
    """
    with _in_use(lambda: SparkContext._active_spark_context or _start(master, name, _LIGHT_JVM)[0], master) as context:
        yield context


@contextlib.contextmanager
def _in_use(open_it: Callable[[], T], master: str | None) -> Iterator[T]:
    """Open what uses the one Spark of this process; if that was started here, the last of its users stops it."""
    global _users  # noqa: PLW0603 (a process has one Spark)
    with _lock:
        is_ours = _users > 0 or SparkContext._active_spark_context is None
        opened = open_it()
        running = SparkContext._active_spark_context
        assert running is not None
        if _users and master is not None and master != running.master:
            raise ConfigError(f"master {master}: this process already has a Spark, with {running.master}")
        _users += is_ours
    try:
        with driver_jvm.telling_of_its_death():
            yield opened
    finally:
        with _lock:
            _users -= is_ours
            if is_ours and not _users:
                _stop()


def open_spark(
    master: str | None = None,
    settings: Mapping[str, str] | None = None,
    *,
    local: Mapping[str, str] | None = None,
    name: str = "load",
) -> SparkSession:
    """Return a session of our own: in the Spark that the application runs, or else in a new one, here by default.

    The application's session and its log level stay as they are. `local` are settings for a new Spark on this machine
    only. Python workers are this interpreter, unless PYSPARK_PYTHON says otherwise. The format kafka2011 is known in
    the session.
    """
    running = _running()
    if running is not None:
        spark = running.newSession()
        for key, value in {**_SETTINGS, **(local or {}), **(settings or {})}.items():
            if key.startswith("spark.sql."):  # what else there is belongs to Spark as a whole
                spark.conf.set(key, value)
        register(spark)
        return spark
    _, conf = _start(master, name, local, settings)
    spark = SparkSession.builder.config(conf=conf).getOrCreate()
    register(spark)
    return spark


def _start(
    master: str | None, name: str, local: Mapping[str, str] | None, settings: Mapping[str, str] | None = None
) -> tuple[SparkContext, SparkConf]:
    """Start Spark, and return what hands out its tasks."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    conf = SparkConf().setAppName(f"kafka2011 {name}")
    if master is not None:
        conf.setMaster(master)
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ  # by spark-submit, which has set these already
    is_local = not submitted and (master is None or master.startswith("local"))
    here = {**_LOCAL, **(local or {})} if is_local else {}
    for key, value in {**_SETTINGS, **here, **(settings or {})}.items():
        conf.set(key, value)
    context = SparkContext(conf=conf, gateway=driver_jvm.launch(conf))
    driver_jvm.quieten(context)
    context.setLogLevel("ERROR")
    return context, conf


def _stop() -> None:
    """End Spark, if its JVM still runs."""
    try:
        driver_jvm.check_alive()
    except SparkDiedError:  # which whoever used it has been told
        return
    running = SparkSession._instantiatedSession or SparkContext._active_spark_context
    if running is not None:
        running.stop()


def _running() -> SparkSession | None:
    """Return the application's session; None where no Spark runs."""
    if SparkContext._active_spark_context is None:
        return None
    return SparkSession.builder.getOrCreate()
