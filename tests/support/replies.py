"""What a broker's replies would put on the wire."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafka2011.broker.requests.handlers import Reply
    from kafka2011.log.segment import LogSlice


def bytes_of(reply: Reply | None) -> bytes:
    """Return the bytes of a reply, which is released; none where nothing is answered."""
    if reply is None:
        return b""
    try:
        return b"".join(part if isinstance(part, bytes) else _content(part) for part in reply.parts)
    finally:
        reply.release()


def _content(part: LogSlice) -> bytes:
    part.resume()
    return os.pread(part.fd, part.size, part.position)
