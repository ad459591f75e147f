"""Chooses what appends payloads to open batches: C (`_append.c`) where it was built, else Python.

In C it takes no lock: see there why that is safe. `Room`, which both count in, is C's wherever there is some.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

from kafka2011 import c_code

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

BatchT = TypeVar("BatchT")


class AppendCode(Protocol):
    """What the C code can do."""

    def appender(
        self,
        batches: Mapping[str, BatchT],
        is_locked: Callable[[], bool],
        otherwise: Callable[[str, bytes], BatchT | None],
        /,
    ) -> Callable[[str, bytes], BatchT | None]:
        """Return what appends a payload to the batch of a topic, and calls `otherwise` where that is not simple."""


class _Room:
    """How many messages and bytes may still be taken."""

    __slots__ = ("room_bytes", "room_messages")

    def __init__(self) -> None:
        self.room_messages = 0
        self.room_bytes = 0


compiled: AppendCode | None = c_code.load("producer._append")
if TYPE_CHECKING:
    Room = _Room
else:
    Room = _Room if compiled is None else compiled.Room
