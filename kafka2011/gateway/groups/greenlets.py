"""Greenlets in place of threads, for a membership in a process of gevent's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gevent
from gevent.event import Event
from gevent.lock import RLock

if TYPE_CHECKING:
    from collections.abc import Callable


class _Running:
    def __init__(self, greenlet: gevent.Greenlet[..., Any]) -> None:
        self.greenlet = greenlet

    def join(self, timeout: float | None = None) -> None:
        """Wait for its end."""
        self.greenlet.join(timeout)

    def is_alive(self) -> bool:
        """Say whether it has not ended."""
        return not self.greenlet.dead


class Greenlets:
    """Starts greenlets; see `consumer.threads.Threads`."""

    def new_event(self) -> Event:
        """Return an event that is not set."""
        return Event()

    def new_lock(self) -> RLock:
        """Return a lock."""
        return RLock()

    def start(self, run: Callable[[], None], name: str) -> _Running:
        """Run something beside the caller."""
        greenlet = gevent.spawn(run)
        greenlet.name = name
        return _Running(greenlet)

    def is_this(self, thread: object) -> bool:
        """Say whether the caller is that greenlet."""
        return isinstance(thread, _Running) and thread.greenlet is gevent.getcurrent()
