"""Tells objects that they are copies in a forked child: threads are missing there, and sockets are the parent's.

os.register_at_fork takes nothing back, so one hook serves all objects, and keeps none of them alive.

A child never gets the rest of a module that another thread was importing. So what threads import late is imported
while forks are held back, and the codec that Python itself imports for its first connection comes with this module.
"""

from __future__ import annotations

import encodings.idna  # noqa: F401 (as the head says)
import os
import threading
import weakref
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator


class ForkAware(Protocol):
    """Whatever must not be shared with a parent process."""

    def forget_after_fork(self) -> None:
        """In a forked child: leave what is the parent's alone, and begin anew. Must not raise."""


def register(one: ForkAware) -> None:
    """Have an object told in every forked child, for as long as it lives."""
    _REGISTERED.add(one)


@contextmanager
def held_back() -> Iterator[None]:
    """Have forks of other threads wait for the end of this block, which must be short, and wait for nobody."""
    with _HELD_BACK:
        yield


_HELD_BACK = threading.RLock()
_REGISTERED: weakref.WeakSet[ForkAware] = weakref.WeakSet()


def _tell_all() -> None:
    for one in list(_REGISTERED):
        one.forget_after_fork()


os.register_at_fork(before=_HELD_BACK.acquire, after_in_parent=_HELD_BACK.release, after_in_child=_HELD_BACK.release)
os.register_at_fork(after_in_child=_tell_all)
