"""Keeps lines that cannot be read again on disk until they are confirmed, bounded in bytes.

The spool is a log like a broker's: segments of messages, each with a CRC, which recovery cuts after the last whole one.
Everything that arrives goes through it, so that one rule holds whether the cluster is up or not.
"""

from __future__ import annotations

import logging
import os
import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kafka2011.collect.placed import placed
from kafka2011.disk import SYSTEM_DISK
from kafka2011.errors import InvalidMessageError, InvalidMessageSizeError, LogError
from kafka2011.log.log import Log, RecoverySettings
from kafka2011.log.log_settings import LogSettings
from kafka2011.message.message_set import MessageSet, complete_prefix_bytes, decode_shallow

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kafka2011.collect.counts import CollectCounts
    from kafka2011.disk import Disk
    from kafka2011.message.message_set import Message
    from zk.clock import Clock

logger = logging.getLogger(__name__)

READ_BYTES = 256 * 1024
SPOOL_BYTES = 1024**3
MIN_SPOOL_BYTES = 1024**2
_SEGMENTS = 8
_NEVER = 1 << 60
_ORIGIN = "spool"
_SPARE_BYTES = 64 * 1024
"""Disk space that appends leave free, so that positions can still be saved."""
_RETRY_S = 1.0


@dataclass(frozen=True, slots=True)
class SpoolSettings:
    """Where a spool is, for which topic, and what it does when `max_bytes` (at least MIN_SPOOL_BYTES) are on disk.

    Appends wait then or, with `drops`, their lines are dropped, logged and counted; a full disk counts as a full spool.
    With `places`, lines carry their positions.
    """

    directory: Path
    topic: str
    max_bytes: int
    drops: bool = False
    places: bool = False


class Spool:
    """Lines on disk that are yet to be sent; `offset` is where reading begins.

    One thread appends and another reads. `on_append` is called after each append. Raises LogError when the directory
    cannot be used.
    """

    def __init__(
        self,
        settings: SpoolSettings,
        offset: int,
        counts: CollectCounts,
        clock: Clock,
        *,
        on_append: Callable[[], object] = lambda: None,
        disk: Disk = SYSTEM_DISK,
    ) -> None:
        self._settings = settings
        self._counts = counts
        self._clock = clock
        self._on_append = on_append
        self._disk = disk
        self._has_room = threading.Condition()
        self._is_closed = False
        self._is_full = False
        self._log = self._open()
        # A deleted spool starts again; one that lost its last bytes in a power cut ends earlier.
        self.offset = self.confirmed_offset = min(max(offset, self._log.start_offset), self._log.end_offset)
        if self.waiting_bytes:
            logger.warning("%s holds %d bytes that will be sent first", settings.directory, self.waiting_bytes)

    @property
    def waiting_bytes(self) -> int:
        """How many bytes are not confirmed."""
        return self._log.appended_end_offset - self.confirmed_offset

    @property
    def is_read(self) -> bool:
        """Whether `read` has returned everything."""
        return self.offset >= self._log.appended_end_offset

    def append(self, lines: list[bytes]) -> None:
        """Store lines once there is room; lines that cannot be stored are dropped and counted.

        After `interrupt` they need no room: they were read already, and no more will be read.
        """
        data = bytes(MessageSet(lines))
        if not data:
            return
        with self._has_room:
            while not self._try_append(data, len(lines)):
                if self._settings.drops or self._is_closed:
                    self._counts.add(lines_dropped=len(lines))
                    return
                self._has_room.wait(_RETRY_S)
        self._on_append()

    def read(self) -> tuple[list[bytes], int] | None:
        """Return the next lines, which are on disk, and the offset after them; None when there are none.

        Corrupt data is skipped, logged and counted. Raises LogError.
        """
        with self._has_room:
            self._flush()
            while self.offset < self._log.end_offset:
                messages, fault = self._good_messages(self._read_whole(self.offset))
                if messages:
                    self.offset = messages[-1].next_offset
                    return self._lines(messages), self.offset
                self._skip(fault)
            return None

    def _good_messages(self, data: bytes) -> tuple[list[Message], str]:
        """Return the messages that begin at the offset, up to the first that is none, and what is wrong with that.

        Nothing here is compressed: where a message says so, a bit of what its checksum does not cover has turned over.
        """
        messages: list[Message] = []
        try:
            messages.extend(decode_shallow(data, self._settings.topic, None, 0, self.offset))
        except (InvalidMessageError, InvalidMessageSizeError) as error:  # after those before it
            return messages, str(error)
        return messages, ""

    def _lines(self, messages: list[Message]) -> list[bytes]:
        if not self._settings.places:
            return [message.payload for message in messages]
        return placed((message.payload for message in messages), (message.offset for message in messages), _ORIGIN)

    def _read_whole(self, offset: int) -> bytes:
        """Read whole messages, judging by their lengths alone; if there are none, whatever is left."""
        max_bytes = READ_BYTES
        while True:
            with self._log.read(offset, max_bytes) as piece:
                data = os.pread(piece.fd, piece.size, piece.position)
            whole_bytes = complete_prefix_bytes(data)
            if whole_bytes or len(data) < max_bytes:
                return data[:whole_bytes] if whole_bytes else data
            max_bytes *= 2

    def _skip(self, fault: str) -> None:
        log = self._log
        following = min((start for start in log.segment_offsets if start > self.offset), default=log.end_offset)
        lost_bytes = following - self.offset
        self._counts.add(losses=1, bytes_lost=lost_bytes)
        logger.error(
            "the spool %s is corrupt after offset %d, and %d bytes of it are left out: %s",
            *(self._settings.directory, self.offset, lost_bytes, fault),
        )
        self.offset = following

    def confirm(self, offset: int) -> None:
        """Note that everything before an offset has arrived."""
        self.confirmed_offset = offset

    def trim(self) -> None:
        """Delete confirmed segments. The confirmed offset must be saved first, since they cannot be read again."""
        with self._has_room:
            log = self._log
            is_all = self.confirmed_offset == log.end_offset
            confirmed_bytes = self.confirmed_offset - log.start_offset
            if confirmed_bytes <= (
                0 if is_all and (self._is_full or self._is_closed) else log.settings.max_segment_bytes
            ):
                return
            # The log keeps at least this much; only it knows where segments end.
            log.settings = replace(log.settings, retention_bytes=log.end_offset - self.confirmed_offset)
            try:
                log.delete_old_segments(by_age=False)
            except LogError as error:
                self._full(str(error))
                self._open_again()
            self._has_room.notify_all()

    def interrupt(self) -> None:
        """Let a waiting append continue."""
        with self._has_room:
            self._is_closed = True
            self._has_room.notify_all()

    def close(self) -> None:
        """Close the files. May be called twice. Raises LogError."""
        self.interrupt()
        self._log.close()

    def _open(self) -> Log:
        segment_bytes = self._settings.max_bytes // _SEGMENTS
        settings = LogSettings(max_segment_bytes=segment_bytes, flush_interval=_NEVER, roll_ms=_NEVER)
        return Log(
            self._settings.directory,
            self._settings.topic,
            0,
            settings,
            clock=self._clock,
            disk=self._disk,
            recovering=RecoverySettings(),
        )

    def _try_append(self, data: bytes, count: int) -> bool:
        log = self._log
        used_bytes = log.appended_end_offset - log.start_offset
        if used_bytes and used_bytes + len(data) > self._settings.max_bytes and not self._is_closed:
            self._full(f"it holds {used_bytes} of {self._settings.max_bytes} bytes")
            return False
        disk = os.statvfs(self._settings.directory)
        if disk.f_bavail * disk.f_frsize < len(data) + _SPARE_BYTES:
            self._full("its disk has no room")
            return False
        try:
            log.append(data, count)
        except LogError as error:
            self._full(str(error))
            self._open_again()
            return False
        if self._is_full:
            dropped = self._counts.lines_dropped
            logger.warning(
                "the spool %s has space again; %d lines were dropped so far", self._settings.directory, dropped
            )
            self._is_full = False
        return True

    def _full(self, why: str) -> None:
        if not self._is_full:
            then = "lines are dropped" if self._settings.drops else "nothing more is read"
            logger.error("the spool %s is full (%s): %s until it has space", self._settings.directory, why, then)
        self._is_full = True

    def _flush(self) -> None:
        try:
            self._log.flush()
        except LogError as error:
            self._full(str(error))
            self._open_again()

    def _open_again(self) -> None:
        """Reopen the log: after an I/O error only recovery finds out what is on disk."""
        log = self._log
        try:
            log.close()
            self._log = self._open()
        except LogError:
            logger.exception("the spool %s cannot be opened again for now", self._settings.directory)
        else:
            self.offset = min(self.offset, self._log.end_offset)
