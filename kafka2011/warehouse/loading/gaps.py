"""Looks in the log at what no row and no quarantined message accounts for: removed, empty, or missed by the load."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafka2011.errors import InvalidMessageError, OffsetOutOfRangeError
from kafka2011.message.header import LENGTH, LENGTH_BYTES
from kafka2011.message.message_set import decode, scan
from kafka2011.warehouse.errors import CoverageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka2011.warehouse.loading.coverage import Gap

FETCH_BYTES = 1024 * 1024


class Explained(NamedTuple):
    """How many bytes of a gap are gone from the log, and how many belong to compressed sets without a message."""

    lost_bytes: int
    empty_bytes: int


def explain(gap: Gap, earliest: int, fetch: Callable[[int, int], bytes], max_message_bytes: int) -> Explained:
    """Account for a gap. `fetch(offset, max_bytes)` returns bytes of the log, which begins at `earliest`.

    Raises CoverageError when a message is there that the load should have written, or bytes that make no sense.
    """
    at = min(max(gap.start, earliest), gap.end)
    lost_bytes, empty_from, fetch_bytes = at - gap.start, at, FETCH_BYTES
    while at < gap.end:
        try:
            data = fetch(at, min(fetch_bytes, gap.end - at))
        except OffsetOutOfRangeError:
            data = b""
        scanned = scan(data)
        empty = sum(_is_empty(data[wrapper.start : wrapper.end]) for wrapper in scanned.wrappers)
        if scanned.messages > empty:
            raise _missed(gap, f"the log has messages from offset {at} on")
        if scanned.end:
            at += scanned.end
        elif scanned.fault is None and len(data) >= LENGTH_BYTES and fetch_bytes < max_message_bytes:
            fetch_bytes = max(2 * fetch_bytes, LENGTH_BYTES + LENGTH.unpack_from(data)[0])
        else:
            raise _missed(gap, f"at offset {at} there is {scanned.fault or 'nothing that can be read'}")
    return Explained(lost_bytes, gap.end - empty_from)


def _is_empty(wrapper: bytes) -> bool:
    try:
        return next(decode(wrapper, "", None, 0, 0), None) is None
    except InvalidMessageError:
        return False


def _missed(gap: Gap, why: str) -> CoverageError:
    return CoverageError(
        f"{gap.partition}: nothing was written for offsets {gap.start} to {gap.end}, and {why}; nothing was committed"
    )
