"""The report: what one counter has counted of one topic in one window. It is what the topic `audit` holds.

A total cannot tell a loss from a loss that a repeat hides, so a report says which messages it has counted: 8 bytes for
each, of its id. Sets of them are united, so it does no harm when a message is in two reports, and it does not matter in
which. A consumer's report also says where each message was (offset, and number in its compressed set): what is read
again after a crash is the same place, whereas a repeat of the producer's has a place of its own.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from zk.cluster import TopicPartition

AUDIT_TOPIC = "audit"
"""Where reports are published. It is not counted itself."""
MAX_REPORT_MESSAGES = 10_000
"""A larger count is several reports, so that a report stays below 300 KiB, which a consumer of 0.7 fetches at once."""

ID_TYPE = np.dtype("<u8")
OFFSET_TYPE = np.dtype("<i8")
INDEX_TYPE = np.dtype("<i4")
_UUID_CHARACTERS = 36
_SPREAD = np.uint64(0x9E3779B97F4A7C15)


class Places(NamedTuple):
    """Where counted messages are in a partition: each one's offset, and its number in its compressed set."""

    offsets: NDArray[np.int64]
    indexes: NDArray[np.int32]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Report:
    """What one counter has counted of one topic in one window: all of it, or one more part.

    `ids` has one number for each message (see `short_ids`). Where a tier reads from partitions, `where` names it in
    `cluster`, [start_offset, end_offset) is what was read while this was counted, and `places` goes with `ids`.
    A report is published again when nobody knows whether it arrived, with the same `report_id`.
    """

    tier: str
    instance: str
    topic: str
    window_ms: int
    start_ms: int
    ids: NDArray[np.uint64]
    cluster: str = ""
    where: TopicPartition | None = None
    start_offset: int | None = None
    end_offset: int | None = None
    places: Places | None = None
    report_id: str = field(default_factory=lambda: str(uuid.uuid4()))

    @property
    def count(self) -> int:
        """How many messages it counts."""
        return len(self.ids)


def short_ids(ids: Sequence[str]) -> NDArray[np.uint64]:
    """Return 8 bytes of each UUID: both halves, mixed, since only one of them may be random.

    Of a million messages in a window two share a number once in 37 million windows. Raises ValueError for other texts.
    """
    text = "".join(ids).replace("-", "")
    if set(map(len, ids)) - {_UUID_CHARACTERS} or len(text) != 32 * len(ids):
        raise ValueError("an id is no UUID")
    halves = np.frombuffer(bytes.fromhex(text), dtype=">u8").astype(np.uint64).reshape(-1, 2)
    mixed: NDArray[np.uint64] = halves[:, 0] * _SPREAD ^ halves[:, 1]
    return mixed


def parts_of(report_messages: int) -> Iterator[slice]:
    """Yield the slices of a large count that are reports of their own."""
    for start in range(0, report_messages, MAX_REPORT_MESSAGES):
        yield slice(start, start + MAX_REPORT_MESSAGES)
