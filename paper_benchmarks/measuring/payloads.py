"""What is sent everywhere: messages of the paper's size that no codec and no server could make smaller."""

from __future__ import annotations

import os

from kafka2011 import MessageSet
from kafka2011.wire.protocol import produce_frame, topic_field

PAYLOAD_BYTES = 200
BATCH = 50
FETCH_BYTES = 200 * 1024
_DIFFERENT = 1000  # a whole number of batches


def payloads(count: int, size: int = PAYLOAD_BYTES) -> list[bytes]:
    """Return random payloads, a thousand different ones again and again."""
    different = [os.urandom(size) for _ in range(min(count, _DIFFERENT))]
    return [different[index % len(different)] for index in range(count)]


def batches(count: int, batch: int = BATCH, size: int = PAYLOAD_BYTES) -> list[list[bytes]]:
    """Return as many payloads in lists, the last of which may be shorter."""
    every = payloads(count, size)
    return [every[start : start + batch] for start in range(0, count, batch)]


def stored_bytes(payload_bytes: int) -> int:
    """Return what a message takes on disk, and of a fetch."""
    return len(bytes(MessageSet([b"-" * payload_bytes])))


def sent_bytes(payload_bytes: int, batch: int) -> float:
    """Return a message's share of a produce request."""
    frame = produce_frame(topic_field("page_views"), 0, bytes(MessageSet([b"-" * payload_bytes] * batch)))
    return len(frame) / batch


STORED_BYTES = stored_bytes(PAYLOAD_BYTES)
"""One of these messages in a log."""
