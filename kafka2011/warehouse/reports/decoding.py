"""Events straight from the brokers: rows of the Spark source, decoded into the columns that reports use."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NoReturn

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StringType, StructField, StructType

from kafka2011.pipeline.errors import UndecodableEventError
from kafka2011.pipeline.event_types import EVENT_TYPES
from kafka2011.pipeline.events import EventDecoder
from kafka2011.warehouse.reports.events import wanted_columns

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame

    from kafka2011.pipeline.schemas import KnownSchemas

logger = logging.getLogger(__name__)

_TOPIC = "topic"
_PLACE = ("topic", "brokerId", "partition", "offset")


def decoded(
    rows: DataFrame, topics: tuple[str, ...], schemas: KnownSchemas, columns: tuple[str, ...], *, skip: bool = False
) -> DataFrame:
    """Return the events in rows of the source: `topic`, and columns of theirs, null where a topic has no such field.

    Of a message that cannot be decoded, `UndecodableEventError` is raised; with `skip` it is left out, and logged by
    the executor. `schemas` go to the executors.
    """
    fields = {field.name: field for topic in topics for field in wanted_columns(topic).fields}
    schema = StructType([StructField(_TOPIC, StringType()), *(fields[name] for name in columns)])
    arrow = to_arrow_schema(schema, timezone="UTC")

    def decode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        decoders = {topic: EventDecoder(schemas, EVENT_TYPES[topic]) for topic in topics}
        for batch in batches:
            events = []
            names = batch.column(_TOPIC).to_pylist()
            for row, (topic, payload) in enumerate(zip(names, batch.column("value").to_pylist(), strict=True)):
                try:
                    fields = decoders[topic].decode_payload(payload).fields
                except UndecodableEventError as error:
                    if not skip:
                        _refuse(batch, row, error)
                    logger.warning("Left out: %s", _placed(batch, row, error))
                    continue
                events.append({_TOPIC: topic, **{name: fields.get(name) for name in columns}})
            yield pa.RecordBatch.from_pylist(events, schema=arrow)

    return rows.select("value", *_PLACE).mapInArrow(decode, schema)


def _placed(batch: pa.RecordBatch, row: int, error: UndecodableEventError) -> UndecodableEventError:
    topic, broker, partition, offset = (batch.column(name)[row].as_py() for name in _PLACE)
    return UndecodableEventError(
        error.reason, error.fingerprint, topic=topic, partition=f"{broker}-{partition}", offset=offset
    )


def _refuse(batch: pa.RecordBatch, row: int, error: UndecodableEventError) -> NoReturn:
    raise _placed(batch, row, error) from error
