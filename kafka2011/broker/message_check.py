"""What a broker checks of a message set before it appends it (paper, section 3.3; 0.7 opens compressed sets too).

Works through large sets in steps with a pause between them, and opens compressed payloads piece by piece, so that one
producer can neither hold up the others nor make the broker hold more memory than it sent.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafka2011.compression import open_chunks
from kafka2011.errors import InvalidMessageError, MessageSizeTooLargeError
from kafka2011.message import MAX_NESTING, scan

if TYPE_CHECKING:
    from collections.abc import Callable

STEP_MESSAGES = 8192
"""Outer messages between two pauses: some milliseconds of work."""

_LENGTH = struct.Struct(">i")


@dataclass(frozen=True, slots=True)
class CheckedSet:
    """The complete messages of a set: their bytes, and how many there are, counted inside compressed ones."""

    data: bytes
    messages: int


@dataclass(slots=True)
class MessageChecker:
    """Checks sets against a broker's limits.

    `pause` is called between steps. `hold` is told how many bytes an opened message makes the broker keep, and 0 when
    it is let go; it may wait, or raise to refuse.
    """

    max_message_bytes: int
    max_opened_bytes: int
    pause: Callable[[], None] = lambda: None
    hold: Callable[[int], None] = lambda _: None

    def check(self, data: bytes) -> CheckedSet:
        """Return the complete messages of a produced set; an empty set is one too.

        Raises InvalidMessageError for a bad message, or if there are bytes but no complete message, and
        MessageSizeTooLargeError when an outer payload exceeds max.message.size. Nothing of the set counts then.
        """
        position = messages = 0
        opening = _Opening(self, self.max_opened_bytes)
        while True:
            step = scan(data, position, STEP_MESSAGES)
            if step.fault is not None:
                raise InvalidMessageError(f"{step.fault} at position {step.end} of a set of {len(data)} bytes")
            if step.largest_payload_bytes > self.max_message_bytes:
                raise MessageSizeTooLargeError(
                    f"a payload of {step.largest_payload_bytes} bytes exceeds max.message.size {self.max_message_bytes}"
                )
            messages += step.messages - len(step.wrappers)
            for wrapper in step.wrappers:
                messages += opening.count(wrapper.codec, data[wrapper.payload_start : wrapper.end], 1)
            position = step.end
            if step.messages < STEP_MESSAGES:
                break
            self.pause()
        if position == 0 and data:
            raise InvalidMessageError(f"a set of {len(data)} bytes holds no complete message")
        return CheckedSet(data if position == len(data) else data[:position], messages)


class _Opening:
    """Counts the messages inside compressed payloads; the limit covers all that one set opens to."""

    __slots__ = ("_checker", "_remaining_bytes")

    def __init__(self, checker: MessageChecker, max_opened_bytes: int) -> None:
        self._checker = checker
        self._remaining_bytes = max_opened_bytes

    def count(self, codec: int, payload: bytes, depth: int) -> int:
        if depth > MAX_NESTING:
            raise InvalidMessageError(f"compressed sets are nested more than {MAX_NESTING} deep")
        checker = self._checker
        messages = 0
        pending = bytearray()  # opened bytes that do not make a whole message yet
        wanted_bytes = 0
        try:
            for chunk in open_chunks(codec, payload, self._remaining_bytes):
                self._remaining_bytes -= len(chunk)
                pending += chunk
                if len(pending) >= wanted_bytes:
                    messages += self._count_complete(pending, depth)
                    wanted_bytes = _announced_bytes(pending)
                checker.hold(len(pending))
                checker.pause()
        finally:
            checker.hold(0)
        return messages

    def _count_complete(self, pending: bytearray, depth: int) -> int:
        data = bytes(pending)
        found = scan(data)
        if found.fault is not None:
            raise InvalidMessageError(f"{found.fault} inside a compressed message")
        messages = found.messages - len(found.wrappers)
        for wrapper in found.wrappers:
            messages += self.count(wrapper.codec, data[wrapper.payload_start : wrapper.end], depth + 1)
        del pending[: found.end]
        return messages


def _announced_bytes(pending: bytearray) -> int:
    """Return the size of the message that the bytes begin with, as far as it is known."""
    if len(pending) < _LENGTH.size:
        return _LENGTH.size
    return _LENGTH.size + int(_LENGTH.unpack_from(pending)[0])
