"""Timestamps of the records in a wrapper: its notes have them, so nothing is opened."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka2011.gateway.records import code
from kafka2011.gateway.records.batch_format import NO_TIMESTAMP
from kafka2011.gateway.records.errors import InvalidRecordsError
from kafka2011.gateway.records.layout import find_wrapper, notes_of
from kafka2011.gateway.records.records_python import timestamps
from kafka2011.message.compression import Codec
from kafka2011.message.header import MessageHeader, read_header

if TYPE_CHECKING:
    from kafka2011.message.header import AnyBytes


def newest_in(wrapper: AnyBytes) -> int:
    """Return the largest timestamp of a wrapper's records; NO_TIMESTAMP for a wrapper of 0.7, and a damaged one."""
    noted = _noted(wrapper)
    if noted is None:
        return NO_TIMESTAMP
    notes, records, first_timestamp = noted
    try:
        return code.newest(notes, records, first_timestamp) if notes else first_timestamp
    except InvalidRecordsError:
        return NO_TIMESTAMP


def first_in(wrapper: AnyBytes, time_ms: int) -> tuple[int, int] | None:
    """Return which record of a wrapper is the first that is not older than a time, and its timestamp; None without."""
    noted = _noted(wrapper)
    if noted is None:
        return None
    times = enumerate(timestamps(*noted)) if noted[0] else iter([(0, noted[2])])
    try:
        return next((found for found in times if found[1] >= time_ms), None)
    except InvalidRecordsError:
        return None


def _noted(wrapper: AnyBytes) -> tuple[bytes, int, int] | None:
    """Return the notes of a wrapper, how many records it has and its first timestamp; None for a wrapper of 0.7.

    Without notes, the first timestamp is that of all records: the time of the append.
    """
    header = read_header(wrapper)
    if not isinstance(header, MessageHeader) or header.codec != Codec.GZIP:
        return None
    payload = memoryview(wrapper)[header.overhead_bytes :]
    found = find_wrapper(payload)
    if found is None:
        return None
    try:
        notes = b"" if found.is_append_time else notes_of(payload, found)
    except InvalidRecordsError:
        return None
    return notes, found.origin.records, found.first_timestamp
