"""What a broker checks of a message set before it appends it (paper, section 3.3; 0.7 opens compressed sets too).

Works through large sets in steps with a pause between them, and opens compressed payloads piece by piece, so that one
producer can neither hold up the others nor make the broker hold more memory than it sent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from kafka2011.errors import InvalidMessageError, MessageSizeTooLargeError
from kafka2011.message.compression import open_chunks
from kafka2011.message.header import LENGTH, LENGTH_BYTES, MIN_LENGTH
from kafka2011.message.message_set import MAX_NESTING, scan
from kafka2011.wire.protocol import MAX_INT32

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka2011.message.header import AnyBytes
    from kafka2011.message.message_set import Scan

STEP_MESSAGES = 8192
STEP_BYTES = 4 * 1024 * 1024
"""Messages and bytes between two pauses: some milliseconds of work."""


class CheckedSet(NamedTuple):
    """The complete messages of a set: their bytes, and how many there are, counted inside compressed ones."""

    data: AnyBytes
    messages: int


@dataclass(slots=True)
class MessageChecker:
    """Checks sets against a broker's limits.

    `pause` is called between steps. `hold` is told how many opened bytes the broker keeps in all because of the set,
    and 0 when they are let go; it may wait, or raise to refuse.
    """

    max_message_bytes: int
    max_opened_bytes: int
    pause: Callable[[], None] = lambda: None
    hold: Callable[[int], None] = lambda _: None

    def check(self, data: AnyBytes) -> CheckedSet:
        """Return the complete messages of a produced set; an empty set is one too.

        As in 0.7.2, what is cut off at the end does not count, whatever it is, nor do bytes too few for a length.
        Raises InvalidMessageError for a bad message, or if there is no complete message, and MessageSizeTooLargeError
        when an outer payload exceeds max.message.size. Then nothing of the set counts.
        """
        step = _scan_step(data, 0)
        if step.end == len(data) and not step.wrappers and step.largest_payload_bytes <= self.max_message_bytes:
            return CheckedSet(data, step.messages)  # nearly every set
        end, messages = _Walk(self).count(data, step)
        if end == 0 and len(data) >= LENGTH_BYTES:
            raise InvalidMessageError(f"a set of {len(data)} bytes holds no complete message")
        return CheckedSet(data if end == len(data) else data[:end], messages)


class _Walk:
    """Counts the messages of one set at every depth; the limits cover all that the set opens to."""

    __slots__ = ("_checker", "_held_bytes", "_remaining_bytes")

    def __init__(self, checker: MessageChecker) -> None:
        self._checker = checker
        self._held_bytes = 0
        self._remaining_bytes = checker.max_opened_bytes

    def count(self, data: AnyBytes, step: Scan, depth: int = 0) -> tuple[int, int]:
        """Return where the complete messages of a set end, and how many there are; the first step is already done."""
        checker = self._checker
        limit_bytes = MAX_INT32 if depth else checker.max_message_bytes
        messages = 0
        while True:
            if step.largest_payload_bytes > limit_bytes:
                raise MessageSizeTooLargeError(
                    f"a payload of {step.largest_payload_bytes} bytes exceeds max.message.size {limit_bytes}"
                )
            is_cut_off = not depth and step.fault is not None and _is_cut_off(data, step.end)
            if step.fault is not None and not is_cut_off:
                inside = " inside a compressed message" if depth else ""
                raise InvalidMessageError(f"{step.fault} at position {step.end} of a set of {len(data)} bytes{inside}")
            messages += step.messages - len(step.wrappers)
            for wrapper in step.wrappers:
                payload = memoryview(data)[wrapper.payload_start : wrapper.end]
                messages += self._count_inside(wrapper.codec, payload, depth + 1)
            if step.end == len(data) or step.partial_bytes or is_cut_off:
                return step.end, messages
            checker.pause()
            step = _scan_step(data, step.end)

    def _count_inside(self, codec: int, payload: AnyBytes, depth: int) -> int:
        if depth > MAX_NESTING:
            raise InvalidMessageError(f"compressed sets are nested more than {MAX_NESTING} deep")
        held_outside_bytes = self._held_bytes
        pending = bytearray()  # opened bytes that do not make a whole message yet
        wanted_bytes = LENGTH_BYTES
        messages = complete_bytes = 0
        try:
            for chunk in open_chunks(codec, payload, self._remaining_bytes):
                self._remaining_bytes -= len(chunk)
                if len(pending) + len(chunk) < wanted_bytes:
                    pending += chunk
                else:
                    data = b"".join((pending, chunk)) if pending else chunk
                    pending = bytearray()
                    self._hold(held_outside_bytes + len(data))
                    end, counted = self.count(data, _scan_step(data, 0), depth)
                    messages += counted
                    complete_bytes += end
                    pending += data[end:]
                    wanted_bytes = _announced_bytes(pending)
                self._hold(held_outside_bytes + len(pending))
                self._checker.pause()
        finally:
            self._hold(held_outside_bytes)
        if pending and not complete_bytes:
            raise InvalidMessageError(f"a compressed message opens to {len(pending)} bytes without a complete message")
        return messages

    def _hold(self, held_bytes: int) -> None:
        if held_bytes != self._held_bytes:
            self._held_bytes = held_bytes
            self._checker.hold(held_bytes)


def _is_cut_off(data: AnyBytes, position: int) -> bool:
    """Say whether a message that cannot be good has a plausible length, but is incomplete."""
    (length,) = LENGTH.unpack_from(data, position)
    return int(length) >= MIN_LENGTH and position + LENGTH_BYTES + int(length) > len(data)


def _scan_step(data: AnyBytes, position: int) -> Scan:
    return scan(data, position, STEP_MESSAGES, max_bytes=STEP_BYTES)


def _announced_bytes(pending: bytearray) -> int:
    """Return the size of the message that the bytes begin with, as far as it is known."""
    if len(pending) < LENGTH_BYTES:
        return LENGTH_BYTES
    return LENGTH_BYTES + int(LENGTH.unpack_from(pending)[0])
