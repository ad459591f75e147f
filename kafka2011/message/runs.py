"""Chooses what handles runs of messages: C (`_runs.c`) where it was built, else Python (`runs_python`).

A run is good, uncompressed messages back to back: nearly all there are. Both do the same, C some ten times as fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, cast

from kafka2011 import c_code
from kafka2011.message import runs_python

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeVar

    from kafka2011.message.header import AnyBytes

    T = TypeVar("T", bound=tuple[object, ...])


class RunCode(Protocol):
    """What both can do; `runs_python` describes the functions."""

    @property
    def DESCRIPTION(self) -> str:  # noqa: N802 (a constant of a module)
        """What `--version` says about it."""

    def encode(self, payloads: Sequence[bytes], magic: int, /) -> tuple[bytes, int] | None:
        """Return the messages of a magic for all payloads, and the largest size; None unless all are bytes."""

    def measure(self, payloads: list[bytes], /) -> tuple[int, int] | None:
        """Return how many bytes payloads have, and the largest of them; None unless all are bytes."""

    def walk(self, data: AnyBytes, position: int, stop: int, max_messages: int, /) -> tuple[int, int, int]:
        """Return where a run ends, how many messages it has, and the size of its largest payload."""

    def decode(
        self,
        kind: type[T],
        data: bytes,
        position: int,
        max_messages: int,
        topic: str,
        broker_id: int | None,
        partition: int,
        offset: int,
        /,
    ) -> tuple[list[T], int]:
        """Return the messages of a run, and where it ends."""

    def decode_opened(
        self,
        kind: type[T],
        data: bytes,
        max_messages: int,
        topic: str,
        broker_id: int | None,
        partition: int,
        start: int,
        end: int,
        /,
    ) -> list[T] | None:
        """Return the messages of an opened set, or None if it is anything but one short run."""

    def complete_prefix_bytes(self, data: bytes, /) -> int:
        """Return how many bytes of a set belong to complete messages."""

    def crc32(self, data: AnyBytes, /) -> int:
        """Return the CRC-32 of a payload."""

    def open_stored(self, data: AnyBytes, max_opened_bytes: int, /) -> bytes | None:
        """Return what a GZIP payload opens to; None for Python unless all of it is stored, good, and within limits."""

    def columns(
        self, data: bytes, position: int, stop: int, max_messages: int, base: int, /
    ) -> tuple[int, int, bytes, bytes, bytes]:
        """Return where a run ends, how many messages it has, and their edges, payloads' ends, and payloads."""


class CompiledRunCode(RunCode, Protocol):
    """What only the C code can do."""

    def portable_crc32(self, data: AnyBytes, /) -> int:
        """Return the CRC-32, in the way that works on every processor."""


compiled: CompiledRunCode | None = c_code.load("message._runs")
chosen: RunCode = compiled or cast("RunCode", runs_python)
"""What `kafka2011.message.message_set` calls."""


def checksums() -> dict[str, Callable[[AnyBytes], int]]:
    """Return what computes CRCs here besides zlib, by name."""
    return {} if compiled is None else {"C": compiled.crc32}
