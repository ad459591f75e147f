"""The record batches of the source: messages as columns, by the names that Spark shows. Pure but for Arrow."""

from __future__ import annotations

import pyarrow as pa

SCHEMA = pa.schema(
    [
        pa.field("value", pa.binary()),  # null only for a corrupt message, and only when asked for
        pa.field("topic", pa.string(), nullable=False),
        pa.field("brokerId", pa.int32(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("nextOffset", pa.int64(), nullable=False),
        pa.field("indexInSet", pa.int32(), nullable=False),
    ]
)
"""Of every batch; `source_columns.SCHEMA` is the same for Spark."""


def source_batch(messages: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch of `kafka2011.message.columns` as the source gives it: the payload first, and other names."""
    *place, payload = messages.columns
    return pa.RecordBatch.from_arrays([payload, *place], schema=SCHEMA)
