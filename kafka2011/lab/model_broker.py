"""The right answers: this project's own request handlers over real logs, without a socket."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Self

from kafka2011.broker.requests.handlers import Client, RefusedError, RequestHandlers
from kafka2011.broker.requests.message_check import MessageChecker
from kafka2011.errors import ProtocolError
from kafka2011.log.log_manager import LogManager, TopicSettings
from kafka2011.log.log_settings import LogSettings
from kafka2011.wire.protocol import FrameReader, decode_request

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from kafka2011.log.segment import LogSlice

_NEVER = 10**12
_MOST_BYTES = 1024 * 1024


class ModelBroker:
    """Answers requests as a right program does; a context manager. `settings` are those that a student's gets.

    Several threads may ask it.
    """

    def __init__(self, directory: Path, settings: Mapping[str, int]) -> None:
        kept = LogSettings(
            max_segment_bytes=settings.get("segment-bytes", 2**30),
            roll_ms=_NEVER,
            retention_ms=_NEVER,
            flush_interval=settings.get("flush-messages", _NEVER if "flush-ms" in settings else 1),
            flush_interval_ms=_NEVER,
        )
        self._logs = LogManager(
            directory, TopicSettings(num_partitions=settings.get("partitions", 1), of=lambda _: kept)
        )
        self._handlers = RequestHandlers(self._logs)
        self._lock = threading.Lock()

    def answer(self, sent: bytes) -> bytes | None:
        """Return all bytes that answer what is sent on one connection; None if the connection is closed instead."""
        with self._lock:
            return self._answer(sent)

    def _answer(self, sent: bytes) -> bytes | None:
        reader = FrameReader()
        client = Client(MessageChecker(_MOST_BYTES, _MOST_BYTES))
        answer = b""
        try:
            reader.receive_data(sent)
            while (frame := reader.next_frame()) is not None:
                reply = self._handlers.handle(decode_request(frame), client)
                if reply is not None:
                    answer += b"".join(_bytes_of(part) for part in reply.parts)
                    reply.release()
        except (ProtocolError, RefusedError):
            return None
        return answer

    def flush(self) -> None:
        """Make everything readable."""
        for log in self._logs.logs():
            log.flush()

    def __enter__(self) -> Self:
        self._logs.open()
        return self

    def __exit__(self, *_: object) -> None:
        self._logs.close()


def _bytes_of(part: bytes | LogSlice) -> bytes:
    if isinstance(part, bytes):
        return part
    part.resume()
    return os.pread(part.fd, part.size, part.position)
