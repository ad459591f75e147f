"""Finds the record with the largest timestamp near the end of a log: timestamps need not ascend, and 0.7 keeps none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import gevent

from kafka2011.gateway.partition_log import FETCH_BYTES
from kafka2011.gateway.records.times import base_of, batches_of, end_of, largest_in

if TYPE_CHECKING:
    from kafka2011.gateway.partition_log import PartitionLog

SEARCHED_BYTES = 16 * 1024 * 1024
"""How much of the end of a log is read for it."""


def largest_time(log: PartitionLog) -> tuple[int, int] | None:
    """Return the number and the timestamp of the record with the largest timestamp, the first of several.

    None if the last SEARCHED_BYTES have no timestamps. Raises what reading raises.
    """
    index = log.index()
    start = max(index.end.position - SEARCHED_BYTES, index.log_start().position)
    number, end = index.place_at(start).number, index.end.number
    largest: tuple[int, int] | None = None
    while number < end and (records := log.records(number, FETCH_BYTES)):
        for batch in batches_of(records):
            found = largest_in(batch)
            if found is not None and (largest is None or found[1] > largest[1]):
                largest = base_of(batch) + found[0], found[1]
            number = end_of(batch)
        gevent.sleep(0)
    return largest
