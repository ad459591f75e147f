"""Chooses what handles records: C (`_records.c`) where it was built, else Python (`records_python`).

C does the usual case, and answers None or False for any other: then Python does it, or says what is wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from kafka2011 import c_code
from kafka2011.gateway.records import records_python
from kafka2011.gateway.records.batch_format import crc32c

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka2011.message.header import AnyBytes


class CompiledRecordCode(Protocol):
    """What the C code does; `records_python` describes the functions. Batches come with the sum of a CRC function."""

    def check(self, body: AnyBytes, records: int, /) -> bool:
        """Return whether bytes are a number of good records."""

    def take(
        self, body: AnyBytes, position: int, most_records: int, most_bytes: int, /
    ) -> tuple[bytes, bytes, int, int] | None:
        """Return the inner set and the notes of records, where those end, and how many they are."""

    def wrapper(
        self, body: AnyBytes, position: int, most_records: int, most_bytes: int, notes_head: bytes, /
    ) -> tuple[bytes, int, int] | None:
        """Return the message that stores records as they are, where those end, and how many they are.

        Their count and the size of their notes are filled into the head. Notes must fit one member.
        """

    def plain_batch(
        self,
        checksum: Callable[[AnyBytes], int],
        header: bytes,
        data: AnyBytes,
        start: int,
        end: int,
        skip: int,
        most_bytes: int,
        /,
    ) -> tuple[bytes, int] | None:
        """Return the batch for a run of good messages, and how many it holds."""

    def wrapped_batch(
        self,
        checksum: Callable[[AnyBytes], int],
        header: bytes,
        inner: bytes,
        notes: AnyBytes,
        records: int,
        is_append_time: bool,
        /,
    ) -> bytes | None:
        """Return the batch of a wrapper's records."""

    def newest(self, notes: AnyBytes, records: int, first_timestamp: int, /) -> int | None:
        """Return the largest timestamp of a wrapper's records."""


compiled: CompiledRecordCode | None = c_code.load("gateway.records._records")


def check(body: AnyBytes, records: int) -> None:
    """Check that bytes are a number of good records with ascending offsets. Raises InvalidRecordsError."""
    if compiled is None or not compiled.check(body, records):
        records_python.check(body, records)


def take(body: AnyBytes, position: int, most_records: int, most_bytes: int) -> tuple[bytes, bytes, int, int]:
    """Return what `records_python.take` does."""
    taken = None if compiled is None else compiled.take(body, position, most_records, most_bytes)
    return taken or records_python.take(body, position, most_records, most_bytes)


def wrapper(
    body: AnyBytes, position: int, most_records: int, most_bytes: int, notes_head: bytes
) -> tuple[bytes, int, int] | None:
    """Return what `CompiledRecordCode.wrapper` does; None where `take` and `layout.make_wrapper` have to do it."""
    return None if compiled is None else compiled.wrapper(body, position, most_records, most_bytes, notes_head)


def plain_batch(header: bytes, data: AnyBytes, start: int, end: int, skip: int, most_bytes: int) -> tuple[bytes, int]:
    """Return what `records_python.plain_batch` does."""
    made = None if compiled is None else compiled.plain_batch(crc32c, header, data, start, end, skip, most_bytes)
    return made or records_python.plain_batch(header, data, start, end, skip, most_bytes)


def wrapped_batch(header: bytes, inner: bytes, notes: AnyBytes, records: int, *, is_append_time: bool) -> bytes:
    """Return what `records_python.wrapped_batch` does."""
    made = None if compiled is None else compiled.wrapped_batch(crc32c, header, inner, notes, records, is_append_time)
    return made or records_python.wrapped_batch(header, inner, notes, records, is_append_time=is_append_time)


def newest(notes: AnyBytes, records: int, first_timestamp: int) -> int:
    """Return the largest of `records_python.timestamps`."""
    is_built = compiled is not None and hasattr(compiled, "newest")  # a checkout may have an older build
    found = compiled.newest(notes, records, first_timestamp) if compiled is not None and is_built else None
    return max(records_python.timestamps(notes, records, first_timestamp)) if found is None else found
