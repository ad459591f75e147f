"""The report: one counter's count of one topic in one window, as the topic `audit` holds it.

In a total, a repeat can hide a loss, so a report names the messages it has counted, each by 8 bytes of its id. These
sets are united, so a message may be in two reports without harm, and it does not matter which report it is in. A
consumer's report also says where each message was (offset, and number in its compressed set): a message read again
after a crash has the same place, whereas a producer's repeat has a place of its own.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from kafka2011.audit.table_report import CommitPart
    from zk.cluster import TopicPartition

AUDIT_TOPIC = "audit"
"""The topic that reports are published to. It is not counted itself."""
MAX_REPORT_MESSAGES = 10_000
"""A larger count becomes several reports, so that each stays below 300 KiB, which a consumer of 0.7 fetches at once."""

ID_TYPE = np.dtype("<u8")
OFFSET_TYPE = np.dtype("<i8")
INDEX_TYPE = np.dtype("<i4")
UUID_CHARACTERS = 36
"""How long a UUID is as text."""
_UUID_BYTES = 16
_DASHES_AT = (8, 13, 18, 23)
_DIGITS_AT = ((0, 8), (9, 13), (14, 18), (19, 23), (24, 36))
_SPREAD = np.uint64(0x9E3779B97F4A7C15)


class Places(NamedTuple):
    """Where counted messages are in a partition: each one's offset, and its number in its compressed set."""

    offsets: NDArray[np.int64]
    indexes: NDArray[np.int32]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AuditReport:
    """One counter's count of one topic in one window: all of it, or a part.

    `ids` has one number for each message (see `short_ids`). Where a tier reads from partitions, `where` names it in
    `cluster`, [start_offset, end_offset) is what was read while this was counted, and `places` has one for each
    message, but which of them is whose is not said: both are sets, and come back from the topic sorted.
    When it is unclear whether a report arrived, it is published again with the same `report_id`. `number` is its place
    among the instance's reports on the topic (see `progress_report`); None in reports from before numbering, and in
    those of a table's commit, which have `part` instead (see `table_report`). At `clock_ms` by ZooKeeper of the cluster
    that it reports to, all of these messages were in the log; None if unknown.
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
    number: int | None = None
    clock_ms: int | None = None
    part: CommitPart | None = None
    report_id: str = field(default_factory=lambda: str(uuid.uuid4()))

    @property
    def count(self) -> int:
        """How many messages it counts."""
        return len(self.ids)


def short_ids(ids: Sequence[str]) -> NDArray[np.uint64]:
    """Return 8 bytes of each UUID: both halves, mixed, since only one of them may be random.

    Of a million messages in a window two share a number once in 37 million windows. Raises ValueError for other texts.
    """
    text, dashes = "".join(ids), "-" * len(ids)
    if set(map(len, ids)) - {UUID_CHARACTERS} or any(text[at::UUID_CHARACTERS] != dashes for at in _DASHES_AT):
        raise ValueError("an id is no UUID")
    return _of_digits(text.replace("-", ""), len(ids))


def short_ids_of_text(text: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Do as `short_ids` for texts of `UUID_CHARACTERS` letters each, one behind the other. Raises ValueError."""
    letters = text.reshape(-1, UUID_CHARACTERS)
    if any((letters[:, at] != ord("-")).any() for at in _DASHES_AT):
        raise ValueError("an id is no UUID")
    digits = np.concatenate([letters[:, start:end] for start, end in _DIGITS_AT], axis=1)
    return _of_digits(digits.tobytes().decode("ascii"), len(letters))  # a UnicodeDecodeError is a ValueError


def _of_digits(digits: str, count: int) -> NDArray[np.uint64]:
    data = bytes.fromhex(digits)
    if len(data) != _UUID_BYTES * count:  # fromhex skips blanks
        raise ValueError("an id is no UUID")
    halves = np.frombuffer(data, dtype=">u8").astype(np.uint64).reshape(-1, 2)
    mixed: NDArray[np.uint64] = halves[:, 0] * _SPREAD ^ halves[:, 1]
    return mixed


def is_uuid(text: str) -> bool:
    """Say whether a text is a UUID, which `short_ids` takes."""
    try:
        short_ids([text])
    except ValueError:
        return False
    return True


def parts_of(report_messages: int) -> Iterator[slice]:
    """Yield the slices of a large count that are reports of their own."""
    for start in range(0, report_messages, MAX_REPORT_MESSAGES):
        yield slice(start, start + MAX_REPORT_MESSAGES)
