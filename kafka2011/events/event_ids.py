"""Ids for events: UUIDs of version 8, of which one source counts the last digits.

    8f14e45f-ceea-867a-8000-00000000002a
    of the source, at random      number of its event

Ids in a row take the audit's reports a fraction of a byte each, and random ones seven. Pure.
"""

from __future__ import annotations

import itertools
import secrets

from zk import forks

_LEADING_BITS = 60  # of the source; the version takes four more
_NUMBERS = 2**48


class EventIds:
    """Makes ids, each once; may be shared by threads. A forked child is a source of its own.

    `leading` is 60 bits of the source, for those who want the same ids again.
    """

    def __init__(self, leading: int | None = None) -> None:
        self._begin(secrets.randbits(_LEADING_BITS) if leading is None else leading)
        forks.register(self)

    def next(self) -> str:
        """Return a new id."""
        head, numbers = self._source
        number = next(numbers)
        if number < _NUMBERS:
            return f"{head}{number:012x}"
        self.forget_after_fork()
        return self.next()

    def forget_after_fork(self) -> None:
        """Become another source."""
        self._begin(secrets.randbits(_LEADING_BITS))

    def _begin(self, leading: int) -> None:
        text = f"{leading:015x}"
        self._source = (f"{text[:8]}-{text[8:12]}-8{text[12:]}-8000-", itertools.count())
