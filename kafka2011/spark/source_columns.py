"""The columns that the source gives, as Spark has them, and those that the sink takes. Neither needs PyArrow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
)

from kafka2011.errors import ConfigError

if TYPE_CHECKING:
    from kafka2011.spark.options import WriteOptions

SCHEMA = StructType(  # `batches.SCHEMA` is the same for Arrow
    [
        StructField("value", BinaryType(), nullable=True),  # null only for a corrupt message, and only when asked for
        StructField("topic", StringType(), nullable=False),
        StructField("brokerId", IntegerType(), nullable=False),
        StructField("partition", IntegerType(), nullable=False),
        StructField("offset", LongType(), nullable=False),
        StructField("nextOffset", LongType(), nullable=False),
        StructField("indexInSet", IntegerType(), nullable=False),
    ]
)


_BYTES = (BinaryType, StringType)
_INTEGERS = (ShortType, IntegerType, LongType)


@dataclass(frozen=True, slots=True)
class SinkColumns:
    """The positions of the columns that the sink takes; None for one that is not there."""

    value: int
    topic: int | None
    key: int | None
    partition: int | None
    broker_id: int | None

    @classmethod
    def of(cls, schema: StructType, options: WriteOptions) -> Self:
        """Find them in a DataFrame's schema. Raises ConfigError for a missing or unfit one."""
        value = _position(schema, "value", _BYTES)
        if value is None:
            raise ConfigError(f"the kafka2011 sink needs a column value; there is {schema.simpleString()}")
        topic = None if options.topic else _position(schema, "topic", (StringType,))
        if topic is None and not options.topic:
            raise ConfigError("the kafka2011 sink needs the option topic, or a column topic")
        key = _position(schema, "key", _BYTES)
        partition = _position(schema, "partition", (StringType, *_INTEGERS))
        broker_id = None
        if partition is not None and not isinstance(schema[partition].dataType, StringType):
            broker_id = _position(schema, "brokerId", _INTEGERS)
            if broker_id is None:
                raise ConfigError(
                    "each broker counts its partitions from 0, so a column partition that is a number needs a column"
                    ' brokerId beside it; or give text like "0-1"'
                )
        if key is not None and partition is not None:
            raise ConfigError("the columns key and partition both say where a row goes: leave one out")
        return cls(value, topic, key, partition, broker_id)


def _position(schema: StructType, name: str, types: tuple[type[DataType], ...]) -> int | None:
    """Return the position of a column, ignoring the case of its name as Spark does."""
    for position, field in enumerate(schema.fields):
        if field.name.lower() == name.lower():
            if not isinstance(field.dataType, types):
                wanted = " or ".join(data_type.typeName() for data_type in types)
                raise ConfigError(f"column {name} is {field.dataType.simpleString()}; the sink takes {wanted}")
            return position
    return None
