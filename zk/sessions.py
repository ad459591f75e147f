"""What becomes of a session: waking those who must register again, and a lease that says how long it surely lives."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from zk.clock import SYSTEM_CLOCK
from zk.nodes import Nodes

if TYPE_CHECKING:
    from collections.abc import Callable

    from zk.client import ZkClient
    from zk.clock import Clock


class SessionEvents:
    """Wakes an owner's own loop when the connection or the session changes. It says *that*, not *what*.

    The loop compares `session_id` with the one it registered in: kazoo makes a new session by itself after one has
    expired, and an owner that was asleep may have missed every state between. So:

        while running:
            if events.session_id not in (None, registered_in):
                registered_in = register()
            events.wait(timeout_s)
    """

    def __init__(self, client: ZkClient) -> None:
        self._client = client
        self._changed = client.handler.event_object()
        self._wakers: list[Callable[[], object]] = []
        client.add_listener(self._on_state)

    @property
    def session_id(self) -> int | None:
        """The session while connected, else None."""
        return self._client.session_id

    def wake(self, waker: Callable[[], object]) -> None:
        """Call `waker` too at every change. It must only set an event: kazoo's connection loop waits for it."""
        self._wakers.append(waker)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for a change since the last wait; False when there was none in time. For one waiting loop."""
        happened = bool(self._changed.wait(timeout_s))
        self._changed.clear()
        return happened

    def close(self) -> None:
        """Listen no more, and wake who waits."""
        self._client.remove_listener(self._on_state)
        self._changed.set()

    def _on_state(self, _state: object) -> None:
        self._changed.set()
        for waker in self._wakers:
            waker()


class SessionLease:
    """How long one session surely lives, by answered questions and a clock, without trust in any listener.

    A process that was stopped past its session and woken runs on for long before its listeners know. So somebody
    `renew`s at least every third of the session timeout, and who acts for the session looks just before whether the
    clock has reached `until_s`, which lies one session timeout after the last answered question was asked. A lease that
    ran out unnoticed comes back when a question is answered in the same session: the session lived.
    """

    def __init__(self, client: ZkClient, session_id: int, clock: Clock = SYSTEM_CLOCK) -> None:
        self.session_id = session_id
        self._client = client
        self._nodes = Nodes(client, session_id)
        self._clock = clock
        self._lock = threading.Lock()
        self.until_s = 0.0  # on the clock; a plain attribute, since it is read for every message
        self._ended = False

    @property
    def renew_interval_s(self) -> float:
        """How often to renew."""
        return self._client.session_timeout_ms / 3000

    def renew(self) -> None:
        """Ask ZooKeeper's leader something in this session. Raises ZkUnavailable when there is no answer."""
        asked_s = self._clock.monotonic_s()
        self._nodes.sync()
        with self._lock:
            if not self._ended:
                self.until_s = max(self.until_s, asked_s + self._client.session_timeout_ms / 1000)

    def end(self) -> None:
        """Give the lease up for good."""
        with self._lock:
            self._ended = True
            self.until_s = 0.0
