"""What is sent everywhere: messages of the paper's size that no codec and no server could make smaller."""

from __future__ import annotations

import os

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
