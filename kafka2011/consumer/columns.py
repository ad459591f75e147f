"""What turns fetched sets into record batches. PyArrow is an extra, and is imported when somebody asks for columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka2011.errors import missing_extra
from zk import forks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa

    DecodeColumns = Callable[..., Iterator[pa.RecordBatch]]
    """`decode_columns` of `kafka2011.message.columns`."""


def column_decoder() -> DecodeColumns:
    """Return `decode_columns` of `kafka2011.message.columns`. Raises MissingExtraError without PyArrow."""
    try:
        with forks.held_back():
            from kafka2011.message.columns import decode_columns  # noqa: PLC0415
    except ImportError as error:
        raise missing_extra(error) from error
    return decode_columns
