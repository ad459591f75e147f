"""Keeps the memory that requests have freed for the next ones, where the C library is glibc.

A set of some tens of kilobytes or more is received into fresh memory and freed once it was appended. glibc gives freed
memory back to the kernel as soon as a few hundred kilobytes lie at the end of the heap, and the next set takes it anew,
page by page. That costs more than to receive, check and append the set.
"""

from __future__ import annotations

import ctypes
import logging
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from collections.abc import Callable

logger = logging.getLogger(__name__)

KEPT_BYTES = 32 * 1024 * 1024
"""How much freed memory at the end of the heap is kept."""
HEAP_BYTES = 4 * 1024 * 1024
"""What is larger has memory of its own, which is given back when it is freed."""

_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3


def keep_freed_memory() -> bool:
    """Have this process keep up to KEPT_BYTES of what it frees; False where the C library cannot."""
    try:
        mallopt = cast("Callable[[int, int], int]", ctypes.CDLL(None).mallopt)
    except (OSError, AttributeError):
        logger.debug("freed memory is given back at once: the C library has no mallopt")
        return False
    return bool(mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES)) and bool(mallopt(_M_MMAP_THRESHOLD, HEAP_BYTES))
