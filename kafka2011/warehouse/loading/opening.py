"""Opens the engine that a master names. Spark is imported only where it is wanted."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kafka2011.errors import ConfigError
from kafka2011.warehouse.loading.local_engine import LocalEngine

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from kafka2011.warehouse.loading.engine import Engine

_LOCAL = re.compile(r"none(?:\[(\*|[1-9]\d{0,3})\])?")


def local_engine_of(master: str | None) -> LocalEngine | None:
    """Return the engine for `none`, `none[4]` or `none[*]`, as many processes as cores; None for Spark's masters.

    Raises ConfigError for others that begin so.
    """
    if master is None or not master.startswith("none"):
        return None
    match = _LOCAL.fullmatch(master)
    if match is None:
        raise ConfigError(f"master {master}: without Spark it is none, or none[4] for 4 processes")
    return LocalEngine(None if match[1] in {None, "*"} else int(match[1]))


@contextmanager
def opened_engine(master: str | None = None, spark: SparkSession | None = None) -> Iterator[Engine]:
    """Open the engine of a master, or of a session; a Spark that is started here goes on afterwards."""
    local = None if spark is not None else local_engine_of(master)
    if local is not None:
        with local:
            yield local
        return
    from kafka2011.spark.driver_jvm import telling_of_its_death  # noqa: PLC0415 (needs PySpark, as the others)
    from kafka2011.warehouse.loading.running_spark import open_spark  # noqa: PLC0415
    from kafka2011.warehouse.loading.spark_engine import SparkEngine  # noqa: PLC0415

    with telling_of_its_death():
        yield SparkEngine((spark or open_spark(master)).sparkContext)
