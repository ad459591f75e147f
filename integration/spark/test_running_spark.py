"""The session of a job that is given none, where the application has one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafka2011.warehouse.loading.running_spark import (
    LIGHT,
    open_spark,
    running_or_new_context,
    running_or_new_spark,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

TIME_ZONE = "spark.sql.session.timeZone"
PARTITIONS = "spark.sql.shuffle.partitions"


@pytest.fixture
def application(spark: SparkSession) -> Iterator[SparkSession]:
    """Give the application's session, with settings and a log level of its own."""
    before = {key: spark.conf.get(key) for key in (TIME_ZONE, PARTITIONS)}
    level = log_level(spark)
    spark.conf.set(TIME_ZONE, "America/Los_Angeles")
    spark.conf.set(PARTITIONS, "7")
    spark.sparkContext.setLogLevel("INFO")
    yield spark
    spark.sparkContext.setLogLevel(level)
    for key, value in before.items():
        spark.conf.set(key, str(value))


def log_level(spark: SparkSession) -> str:
    assert spark._jvm is not None
    return str(spark._jvm.org.apache.logging.log4j.LogManager.getRootLogger().getLevel().toString())


def test_the_applications_session_stays_as_it_is(application: SparkSession) -> None:
    """Its time zone decides what its own queries give, and its logs are its own."""
    ours = open_spark(local=LIGHT)
    assert ours.conf.get(TIME_ZONE) == "UTC"
    assert ours.conf.get(PARTITIONS) == LIGHT[PARTITIONS]
    assert ours.range(3).count() == 3
    assert application.conf.get(TIME_ZONE) == "America/Los_Angeles"
    assert application.conf.get(PARTITIONS) == "7"
    assert log_level(application) == "INFO"


def test_the_applications_spark_runs_on(application: SparkSession) -> None:
    """What a job did not start, it does not stop."""
    with running_or_new_spark() as ours:
        assert ours.sparkContext is application.sparkContext
    assert application.range(3).count() == 3


def test_loads_do_without_a_session(application: SparkSession) -> None:
    """They hand out tasks by the application's Spark, which runs on."""
    with running_or_new_context() as ours:
        assert ours is application.sparkContext
    assert application.range(3).count() == 3
