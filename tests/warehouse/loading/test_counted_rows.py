"""What the audit counts of the rows of a batch."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from kafka2011.audit.report import short_ids
from kafka2011.warehouse.loading.load_job import counted_in
from kafka2011.warehouse.rows.columns import BROKER_ID, INDEX_IN_SET, OFFSET, PARTITION
from zk.cluster import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Sequence

GOOD = [str(uuid.UUID(int=number * 0x9E3779B97F4A7C15F39CC0605CEDC835 % 2**128)) for number in range(6)]
GLUED = GOOD[0] + GOOD[1]


def rows(ids: Sequence[str], partitions: Sequence[int] | None = None, kind: Any = None) -> pa.RecordBatch:
    count = len(ids)
    return pa.record_batch(
        {
            "id": pa.array(ids, kind or pa.string()),
            "published_at": pa.array(range(count), pa.timestamp("us")),
            BROKER_ID: pa.array([1] * count, pa.int32()),
            PARTITION: pa.array(partitions or [2] * count, pa.int32()),
            OFFSET: pa.array(range(0, 10 * count, 10), pa.int64()),
            INDEX_IN_SET: pa.array([0] * count, pa.int32()),
        }
    )


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_ids_of_a_column_are_those_of_its_texts(kind: Any) -> None:
    """Of a slice too, whose letters begin in the middle of its buffer."""
    [counted] = counted_in("t", rows([GOOD[5], *GOOD[:4], GOOD[4].upper()], kind=kind).slice(1))
    assert counted.partition == TopicPartition("t", 1, 2)
    assert counted.ids.tolist() == short_ids(GOOD[:5]).tolist()
    assert counted.places.offsets.tolist() == [10, 20, 30, 40, 50]
    assert counted.published_at_us.tolist() == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    "bad",
    [
        ["", "no id"],
        ["z" * 36],
        ["01234567 89ab cdef 0123 456789abcdef"],
        ["0" * 32 + "----"],
        ["\u00e4" * 18],
        [GLUED[:35], GLUED[35:]],
        [GLUED[:37], GLUED[37:]],
        [GLUED],
    ],
    ids=str,
)
def test_what_is_no_uuid_is_left_out(bad: list[str]) -> None:
    """Also texts that are two UUIDs when one stands behind the other."""
    [counted] = counted_in("t", rows([GOOD[2], *bad, GOOD[3]]))
    assert counted.ids.tolist() == short_ids(GOOD[2:4]).tolist()
    assert counted.places.offsets.tolist() == [0, 10 * (len(bad) + 1)]


def test_each_partition_is_counted_apart() -> None:
    """In their order, and nothing where there are no rows."""
    found = counted_in("t", rows(GOOD[:4], [3, 0, 3, 0]))
    assert [(counted.partition.partition, counted.places.offsets.tolist()) for counted in found] == [
        (0, [10, 30]),
        (3, [0, 20]),
    ]
    assert counted_in("t", rows([])) == []
    assert found[0].ids.dtype == np.uint64
