"""The columns of the source, for Spark and for Arrow; both must say exactly the same."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructField, StructType

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMA = StructType(
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


@cache
def arrow_schema() -> pa.Schema:
    """Return the schema that record batches must have."""
    from pyspark.sql.pandas.types import to_arrow_schema  # noqa: PLC0415 (needs PyArrow, which planning may lack)

    return to_arrow_schema(SCHEMA, timezone="UTC")
