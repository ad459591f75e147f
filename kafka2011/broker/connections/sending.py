"""Sends answers: all parts of one by one call of C, where it was built, else by one system call after the other.

A part is what stands before a piece of a file, and that piece; the bytes at the end have an empty one.
"""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, Protocol, TypeAlias

from kafka2011 import c_code

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gevent.socket import socket as Socket  # noqa: N812 (a class)

    from kafka2011.log.segment import LogSlice

    Part: TypeAlias = tuple[bytes, int, int, int]
    """Bytes, and after them a piece of a file: its descriptor, where in it, how many bytes."""
    Piece: TypeAlias = tuple[int, int, int]
    """A piece of a file alone."""

MOST_PARTS = 64
"""What one call sends."""
FILE_ENDED = -1
NOT_IN_MEMORY = -2


class SendCode(Protocol):
    """What C does."""

    def send_parts(
        self, out_fd: int, parts: tuple[Part, ...], sent_bytes: int, until_bytes: int, may_wait: bool, /
    ) -> tuple[int, int]:
        """Go on where so many bytes of all parts were sent, until so many are; return how many are, and an errno.

        The errno is 0 as long as nothing is wrong, and FILE_ENDED where a file is shorter than it should be. It is
        NOT_IN_MEMORY where what comes next would have to be waited for at the disk, unless that may be.
        """

    def is_in_memory(self, fd: int, position: int, size: int, /) -> bool:
        """Say whether a piece of a file can be read without waiting for the disk."""


compiled: SendCode | None = c_code.load("broker.connections._send")


def send_parts(
    out: Socket, parts: tuple[Part, ...], sent_bytes: int, until_bytes: int, *, may_wait: bool = False
) -> tuple[int, int]:
    """Send without waiting for the socket. See SendCode; without C the disk is always waited for."""
    if compiled is not None:
        return compiled.send_parts(out.fileno(), parts, sent_bytes, until_bytes, may_wait)
    out.settimeout(0.0)
    try:
        return _send_parts(out, parts, sent_bytes, until_bytes)
    finally:
        out.settimeout(None)


def _send_parts(out: Socket, parts: tuple[Part, ...], sent_bytes: int, until_bytes: int) -> tuple[int, int]:
    out_fd = out.fileno()
    before_bytes = 0
    for number, (head, fd, position, size) in enumerate(parts, 1):
        end_bytes = before_bytes + len(head) + size
        while sent_bytes < end_bytes:
            if sent_bytes >= until_bytes:
                return sent_bytes, 0
            within = sent_bytes - before_bytes
            try:
                if within < len(head):
                    is_last = number == len(parts) and not size
                    done = out.send(head[within:], 0 if is_last else socket.MSG_MORE)
                else:
                    in_file = within - len(head)
                    done = os.sendfile(out_fd, fd, position + in_file, min(size - in_file, until_bytes - sent_bytes))
                    if done == 0:
                        return sent_bytes, FILE_ENDED
            except OSError as error:
                return sent_bytes, error.errno or 0
            sent_bytes += done
        before_bytes = end_bytes
    return sent_bytes, 0


def is_in_memory(fd: int, position: int, size: int) -> bool:
    """Say whether a piece of a file can be read without waiting for the disk. See SendCode; without C it always can."""
    return compiled is None or compiled.is_in_memory(fd, position, size)


def pieces_between(parts: tuple[Part, ...], from_bytes: int, until_bytes: int) -> list[Piece]:
    """Return what the files of parts give for these bytes of all parts."""
    pieces = []
    before_bytes = 0
    for head, fd, position, size in parts:
        start_bytes = before_bytes + len(head)
        before_bytes = start_bytes + size
        begin, end = max(from_bytes, start_bytes), min(until_bytes, before_bytes)
        if begin < end:
            pieces.append((fd, position + begin - start_bytes, end - begin))
    return pieces


def batches(parts: tuple[bytes | LogSlice, ...]) -> Iterator[list[tuple[bytes, LogSlice | None]]]:
    """Yield what one call may send: bytes together, and at most one piece whose file must be opened first."""
    batch: list[tuple[bytes, LogSlice | None]] = []
    has_opened = False
    heads: list[bytes] = []
    for part in parts:
        if isinstance(part, bytes):
            heads.append(part)
            continue
        if len(batch) == MOST_PARTS or (part.is_parked and has_opened):
            yield batch
            batch, has_opened = [], False
        has_opened |= part.is_parked
        batch.append((b"".join(heads), part))
        heads = []
    if heads:
        if len(batch) == MOST_PARTS:
            yield batch
            batch = []
        batch.append((b"".join(heads), None))
    if batch:
        yield batch
