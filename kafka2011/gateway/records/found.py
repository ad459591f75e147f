"""What lies in a log, as the gateway counts it: runs of plain messages, and wrappers."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

NUMBERS_A_BYTE = 128
"""A message of the log takes at most this many numbers for each of its bytes, and as many where they are not known."""


class Kind(Enum):
    """What a piece of a log is."""

    PLAIN = "plain"
    """Messages outside wrappers, back to back."""
    WRAPPER = "wrapper"
    """One compressed message."""
    DAMAGED = "damaged"
    """One message whose length is good and whose content is not: nobody knows how many it holds."""
    OVERFULL = "overfull"
    """One wrapper that opens to more messages than it may have numbers."""


class Origin(NamedTuple):
    """Who sent a wrapper that a gateway has made: the records of one batch, or of a part of it.

    `producer_id`, `producer_epoch` and `first_sequence` are -1 for a producer without idempotence. The mark is random,
    8 bytes, and given by the gateway.
    """

    producer_id: int
    producer_epoch: int
    first_sequence: int
    records: int
    mark: bytes


class Piece(NamedTuple):
    """A piece of a log, in positions of the log, and how many numbers its messages take, at least 1."""

    kind: Kind
    start: int
    end: int
    numbers: int
    origin: Origin | None = None
