"""The first step of all reports: select the columns they need, keep each event once, and convert its time.

Dates and hours are UTC's, whatever the session's time zone is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as sql
from pyspark.sql.types import (
    BooleanType,
    DoubleType,
    FloatType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from kafka2011.events.types import EVENT_TYPES
from kafka2011.warehouse.errors import WarehouseError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType

DAY_S = 86_400
_DAY_US = DAY_S * 1_000_000
_HOUR_S = 3_600

_TYPES: dict[str, DataType] = {
    "string": StringType(),
    "int": LongType(),
    "long": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "boolean": BooleanType(),
}


def wanted_columns(topic: str) -> StructType:
    """Return the columns that reports may use of a topic, as a table has them: those of this package's own events.

    A table may have more. One that it lacks reads as null. Raises WarehouseError for a topic without reports.
    """
    if topic not in EVENT_TYPES:
        raise WarehouseError(f"no report reads topic {topic}: there are {', '.join(sorted(EVENT_TYPES))}")
    fields = [
        StructField(field["name"], _type_of(field["type"]))
        for field in EVENT_TYPES[topic].document["fields"]
        if field["name"] != "published_at"
    ]
    return StructType(fields)


def _type_of(avro: object) -> DataType:
    if isinstance(avro, list):  # a union with null
        [avro] = [branch for branch in avro if branch != "null"]
    if isinstance(avro, dict):
        return TimestampType() if avro.get("logicalType") == "timestamp-micros" else _TYPES[avro["type"]]
    assert isinstance(avro, str)
    return _TYPES[avro]


def no_events(spark: SparkSession, topic: str) -> DataFrame:
    """Return the frame of a topic that has no events."""
    return dated(spark.createDataFrame([], wanted_columns(topic)))


def dated(events: DataFrame) -> DataFrame:
    """Return events with `date`, `hour` (0 to 23) and `second` (since 1970) beside `time`."""
    since_us = sql.unix_micros("time")
    of_day_us = sql.pmod(since_us, sql.lit(_DAY_US))
    return events.withColumns(
        {
            "date": sql.date_from_unix_date(((since_us - of_day_us) / _DAY_US).cast("int")),
            "hour": sql.floor(of_day_us / (_HOUR_S * 1_000_000)).cast("int"),
            "second": ((since_us - sql.pmod(since_us, sql.lit(1_000_000))) / 1_000_000).cast("long"),
        }
    )


def each_once(events: DataFrame) -> DataFrame:
    """Leave out repeats: producers deliver at least once, and an event that came twice has one id and one time."""
    return events.dropDuplicates(["id", "time"])


def readable(events: DataFrame) -> DataFrame:
    """Leave out lines of a log that could not be read: whatever they were, they are not known to be page views."""
    return events.where("parse_error is null") if "parse_error" in events.columns else events


def unreadable(events: DataFrame) -> DataFrame:
    """Keep only lines of a log that could not be read."""
    return events.where("parse_error is not null")


def visitor() -> Column:
    """Return who viewed a page: the member where known, else address and browser together, else null."""
    return sql.when(sql.col("member_id").isNotNull(), sql.concat(sql.lit("member "), sql.col("member_id"))).when(
        sql.col("remote_host").isNotNull(), sql.concat_ws(" ", sql.lit("host"), "remote_host", "user_agent")
    )


def page() -> Column:
    """Return which page a URL names: all before its query; null where there is no URL."""
    return sql.regexp_extract("url", r"^[^?#]*", 0)
