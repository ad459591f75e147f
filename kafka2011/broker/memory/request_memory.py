"""What all connections may hold for their requests, and how many of the largest requests at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gevent.lock import Semaphore

from kafka2011.broker.memory.memory_budget import MemoryBudget
from kafka2011.broker.memory.small_share import SHARE, SmallShare

if TYPE_CHECKING:
    from kafka2011.config import ServerConfig

LARGE_SHARE = 1 / 64
"""A request that holds more than this of the memory for requests is large: it needs a turn to go on."""


class RequestMemory:
    """The budget of a broker's requests, the share of small ones beside it, and the turns of large ones."""

    def __init__(self, max_bytes: int, max_frame_bytes: int) -> None:
        self.budget = MemoryBudget(max_bytes)
        self.small_share = SmallShare(int(max_bytes * SHARE))
        self.large_bytes = max_bytes * LARGE_SHARE
        # How many of the largest requests have room at once, beside smaller ones. When more arrive at an even pace,
        # all of them end up waiting for memory, and some have to be closed.
        self.large_turns = Semaphore(max(1, max_bytes // max_frame_bytes - 1))

    @classmethod
    def of(cls, config: ServerConfig) -> RequestMemory:
        """Take the limits out of a server's settings."""
        return cls(config.queued_max_bytes, config.max_socket_request_bytes)
