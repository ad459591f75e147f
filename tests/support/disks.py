"""A disk some of whose calls are a test's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka2011.disk import Disk

if TYPE_CHECKING:
    from collections.abc import Callable


class DiskWith(Disk):
    """The machine's disk, except for the calls that are given by name."""

    def __init__(self, **calls: Callable[..., Any]) -> None:
        self.replace(**calls)

    def replace(self, **calls: Callable[..., Any]) -> None:
        """Let further calls be these from now on."""
        for name, call in calls.items():
            assert callable(getattr(Disk, name)), name
            setattr(self, name, call)


class Told:
    """Somebody who waits for a file to be on disk, and what they were told."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.told: list[OSError | None] = []

    def end(self, error: OSError | None) -> None:
        """Note the end of the wait."""
        self.told.append(error)
