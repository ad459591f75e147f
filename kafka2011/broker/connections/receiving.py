"""Receives what one client sends: no more than is wanted, and counted; it knows nothing of requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import gevent
from gevent import socket

from kafka2011.broker.connections.turn import Turn
from kafka2011.errors import BrokerConnectionError

if TYPE_CHECKING:
    from collections import Counter

    from kafka2011.broker.memory.memory_budget import MemoryClaim
    from kafka2011.broker.memory.small_share import SmallClaim
    from kafka2011.broker.requests.receive_buffer import ReceiveCode

READ = 1  # libev's number for it


class Receiving:
    """The receiving side of a connection. `is_plain` says that C code may receive from its socket.

    `is_active` says that something has come since somebody made it False.
    """

    is_plain: ClassVar[bool] = True

    __slots__ = (
        "_large_bytes",
        "_readable",
        "_small",
        "_turn",
        "_unread_bytes",
        "claim",
        "counts",
        "is_active",
        "pause",
        "socket",
    )

    claim: MemoryClaim
    _small: SmallClaim

    def __init__(self, accepted: socket.socket, counts: Counter[str], large_bytes: float) -> None:
        self.socket = accepted
        self.counts = counts
        self.is_active = True
        self._large_bytes = large_bytes
        self._readable: Any = None  # what gevent watches the socket by, once it had to be waited for
        self._turn = Turn()
        self.pause = self._turn.pause  # lets others run if this connection has had its turn
        self._unread_bytes: int | None = None  # when stopping: how much is still to be read

    def _receive(self, most_bytes: int) -> bytes:
        """Return what has arrived, or nothing when no more is wanted or will come."""
        wanted_bytes = self._wanted_bytes(most_bytes)
        if wanted_bytes <= 0:
            return b""
        try:
            data = self.socket.recv(wanted_bytes)
        except OSError as error:
            return self._unreadable(error)
        self._count(len(data))
        return data

    def _wanted_bytes(self, most_bytes: int) -> int:
        """Return how much may be read: nothing after the connection was evicted, and what had come when stopping."""
        if self.claim.refused:
            return 0
        return most_bytes if self._unread_bytes is None else min(most_bytes, self._unread_bytes)

    def _unreadable(self, error: OSError) -> bytes:
        """Return nothing if the connection was evicted meanwhile, which shuts its socket."""
        if self.claim.refused:
            return b""
        raise BrokerConnectionError(f"reading failed: {error}") from error

    def _count(self, received_bytes: int) -> None:
        if self._unread_bytes is not None:
            self._unread_bytes -= received_bytes
        self.is_active = True
        self.counts["bytes_in"] += received_bytes

    def _await_bytes(self) -> None:
        """Wait until there are bytes, or the end."""
        if self._readable is None:
            self._readable = gevent.get_hub().loop.io(self.socket.fileno(), READ)
        socket.wait(self._readable)
        self._turn.end()

    def _receive_behind(self, code: ReceiveCode, kept: bytearray, whole_bytes: int, most_bytes: int) -> int:
        """Receive a large frame to where its beginning is, `most_bytes` at once or fewer; return how much came.

        That is all of it, unless the connection ends, or the frame needs a turn to go on.
        """
        began_bytes = len(kept)
        while (wanted_bytes := self._wanted_bytes(most_bytes)) > 0:
            try:
                received_bytes = code.append(self.socket.fileno(), kept, wanted_bytes, whole_bytes)
            except OSError as error:
                return len(self._unreadable(error))
            if received_bytes is None:
                self._await_bytes()
                continue
            self._count(received_bytes)
            if not received_bytes or len(kept) >= min(whole_bytes, self._large_bytes):
                break
            self.claim.resize(self._small.hold(len(kept)))
            self.pause()
        return len(kept) - began_bytes
