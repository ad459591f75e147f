"""What to do with others' malformed znodes: log each once, count, go on."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import logging

    from zk.errors import MalformedNode

_REMEMBERED = 1000


class MalformedNodes:
    """Logs each malformed znode once (until its text changes) and counts all that were skipped."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._said: OrderedDict[str, str] = OrderedDict()
        self.count = 0

    @property
    def texts(self) -> tuple[str, ...]:
        """What is wrong with those that were skipped last, each once."""
        return tuple(self._said.values())

    def skip(self, error: MalformedNode) -> None:
        """Note a znode that is left out of an answer."""
        self.count += 1
        text = str(error)
        if self._said.get(error.path) == text:
            return
        self._said[error.path] = text
        if len(self._said) > _REMEMBERED:
            self._said.popitem(last=False)
        self._logger.warning("Skipped a malformed znode: %s", text)
