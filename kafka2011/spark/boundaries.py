"""Where messages start, found by reading on from a place where one is known to start.

Byte offsets are not message starts, and bytes that look like a message may be the inside of another one. So nothing
here looks for messages: it goes from one to the next by their lengths. Compressed sets are one message each, so no
boundary falls into one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafka2011.message import complete_prefix_bytes
from kafka2011.message_header import LENGTH, LENGTH_BYTES, MIN_LENGTH

if TYPE_CHECKING:
    from collections.abc import Callable


class Walk(NamedTuple):
    """Where a walk over messages ended.

    `offset` is a boundary, the last one at or before where it was to go; `following` the one behind it, as far as it
    was seen. `broken` says that no message has the length that stands at `offset`, so no way leads on from there.
    """

    offset: int
    following: int | None
    broken: bool


def walk(fetch: Callable[[int, int], bytes], start: int, target: int, fetch_bytes: int) -> Walk:
    """Go from the boundary `start` to the last boundary at or before `target`.

    `fetch(offset, max_bytes)` returns bytes of the log, none at its end. Only what lies before `target` is fetched,
    but for the length of the message across it.
    """
    offset = start
    while offset < target:
        data = fetch(offset, max(min(fetch_bytes, target - offset), LENGTH_BYTES))
        position = complete_prefix_bytes(data)
        offset += position
        if offset == target:
            break
        if len(data) - position < LENGTH_BYTES:
            if not position:  # the log ends here
                return Walk(offset, None, broken=False)
            continue
        (length,) = LENGTH.unpack_from(data, position)
        if length < MIN_LENGTH:
            return Walk(offset, None, broken=True)
        following = offset + LENGTH_BYTES + length
        if following > target:
            return Walk(offset, following, broken=False)
        offset = following  # without fetching the rest of it
    return Walk(offset, None, broken=False)
