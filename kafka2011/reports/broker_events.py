"""Events straight from the brokers: rows of the Spark source, decoded into the columns that reports use."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StringType, StructField, StructType

from kafka2011.events.errors import UnansweredSchemaError, UndecodableEventError
from kafka2011.reports.event_frames import wanted_columns
from kafka2011.warehouse.rows.decode import BatchDecoder

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame

    from kafka2011.events.schemas import KnownSchemas
    from kafka2011.warehouse.rows.decode import RefusedRow

logger = logging.getLogger(__name__)

_TOPIC = "topic"
_SAID = 10  # refused messages of a batch that are logged one by one


def decoded(
    rows: DataFrame, topics: Sequence[str], schemas: KnownSchemas, columns: Sequence[str], *, skip: bool = False
) -> DataFrame:
    """Return the events in rows of the source: `topic` and the events' fields, null where a topic has no such field.

    For a message that cannot be decoded, `UndecodableEventError` is raised; with `skip` it is left out, and the
    executor's log says so. `schemas` go to the executors.

    `columns` are the names of the fields to return.
    """
    fields = {field.name: field for topic in topics for field in wanted_columns(topic).fields}
    schema = StructType([StructField(_TOPIC, StringType()), *(fields[name] for name in columns)])
    arrow = to_arrow_schema(schema, timezone="UTC")

    def decode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        decoders = {topic: BatchDecoder(topic, schemas, 0) for topic in topics}
        for batch in batches:
            names = batch.column(_TOPIC)
            for topic in pc.unique(names).to_pylist():
                of_topic = batch.filter(pc.equal(names, topic))
                if unanswered := decoders[topic].unanswered(of_topic):
                    raise UnansweredSchemaError(unanswered)
                events, refused = decoders[topic].decode(of_topic)
                _report(topic, of_topic, refused, skip=skip)
                yield _chosen(events, topic, arrow)

    return rows.mapInArrow(decode, schema)


def _chosen(events: pa.RecordBatch, topic: str, schema: pa.Schema) -> pa.RecordBatch:
    arrays = [pa.repeat(pa.scalar(topic), events.num_rows)]
    for field in list(schema)[1:]:
        has = field.name in events.schema.names
        arrays.append(events.column(field.name).cast(field.type) if has else pa.nulls(events.num_rows, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _report(topic: str, batch: pa.RecordBatch, refused: Sequence[RefusedRow], *, skip: bool) -> None:
    for number, refusal in enumerate(refused):
        broker, partition, offset = (
            batch.column(name)[refusal.row].as_py() for name in ("brokerId", "partition", "offset")
        )
        error = UndecodableEventError(
            refusal.reason, None, topic=topic, partition=f"{broker}-{partition}", offset=offset
        )
        if not skip:
            raise error
        if number < _SAID:
            logger.warning("Left out: %s", error)
    if len(refused) > _SAID:
        logger.warning("Left out: %d more messages of topic %s", len(refused) - _SAID, topic)
