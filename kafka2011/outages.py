"""Failures of operations that are retried: only the first in a row is logged loudly."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable


class Outages:
    """Logs the first failure in a row at one level, and those that follow it at a lower one.

    If several things may fail, `of` says which. Each of them is for one thread.
    """

    def __init__(self, logger: logging.Logger, first: int = logging.WARNING, later: int = logging.INFO) -> None:
        self._logger = logger
        self._first = first
        self._later = later
        self._failing: set[Hashable] = set()

    def failed(self, text: str, *details: object, of: Hashable = None) -> None:
        """Log a failure; `text` and `details` are what a logger takes."""
        level = self._later if of in self._failing else self._first
        self._logger.log(level, text, *details, stacklevel=2)
        self._failing.add(of)

    def over(self, of: Hashable = None) -> None:
        """Note a success: the next failure is the first in a row again."""
        self._failing.discard(of)
