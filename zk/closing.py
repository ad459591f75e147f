"""What has something to close, as a context manager."""

from __future__ import annotations

from typing import Self


class Closing:
    """A context manager whose block ends with `close`, whatever ended it."""

    __slots__ = ()

    def close(self) -> None:
        """Release what is open; may be called twice."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
