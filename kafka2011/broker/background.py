"""What a broker does beside its connections: greenlets that end with it, and whose errors stop it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gevent.event import Event
from gevent.pool import Group

if TYPE_CHECKING:
    from collections.abc import Callable


class BackgroundTasks:
    """Greenlets between `start` and `stop`; what one of them raises goes to `on_failure`.

    A task that goes on for long ends when `stopping` is set.
    """

    def __init__(self, on_failure: Callable[[BaseException], None]) -> None:
        self._on_failure = on_failure
        self._greenlets = Group()
        self.stopping = Event()

    def start(self) -> None:
        """Let tasks run that are spawned from now on."""
        self.stopping.clear()

    def stop(self) -> None:
        """Ask all tasks to end; none is cut off in the middle."""
        self.stopping.set()

    def join(self) -> None:
        """Wait until all of them have ended."""
        self._greenlets.join()

    def spawn(self, do: Callable[[], object]) -> None:
        """Begin something."""
        self._greenlets.spawn(self._guard, do)

    def every(self, interval_s: float, do: Callable[[], object]) -> None:
        """Begin to do something repeatedly, each time an interval after it was done, on a monotonic clock."""
        self._greenlets.spawn(self._repeat, interval_s, do)

    def _repeat(self, interval_s: float, do: Callable[[], object]) -> None:
        while not self.stopping.wait(interval_s):
            self._guard(do)

    def _guard(self, do: Callable[[], object]) -> None:
        try:
            do()
        except Exception as error:  # noqa: BLE001 - a background task that dies silently would be worse
            self._on_failure(error)
