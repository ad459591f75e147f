"""Following a session: waking owners that must register again, and a lease on its certain lifetime."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING

from kazoo.protocol.states import KazooState

from zk.nodes import Nodes

if TYPE_CHECKING:
    from collections.abc import Callable

    from zk.client import ZkClient

_RENEWALS = 6
"""How many times in a session timeout a lease is to be renewed."""
_APART = 1 / 3
"""What part of the session timeout lies between a request and the one that proves it: more than the half tick from one
of the leader's pings to the next, since a session lasts at least two ticks."""


class SessionEvents:
    """Wakes an owner's own loop when the connection or the session changes. It says *that*, not *what*.

    The loop compares `session_id` with the one it registered in: kazoo makes a new session by itself after one has
    expired, and an owner that was asleep may have missed every state between. So:

        while running:
            if events.session_id not in (None, registered_in):
                registered_in = register()
            events.wait(timeout_s)

    `reconnects` counts how often a connection was lost and there was one again.
    """

    def __init__(self, client: ZkClient) -> None:
        self._client = client
        self._changed = client.handler.event_object()
        self._wakers: list[Callable[[], object]] = []
        self._is_lost = False
        self.reconnects = 0
        client.add_listener(self._on_state)

    @property
    def session_id(self) -> int | None:
        """The session while connected, else None."""
        return self._client.session_id

    def wake(self, waker: Callable[[], object]) -> None:
        """Also call `waker` at every change. It must only set an event: kazoo's connection loop waits for it."""
        self._wakers.append(waker)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for a change since the last wait; False when there was none in time. For one waiting loop."""
        happened = bool(self._changed.wait(timeout_s))
        self._changed.clear()
        return happened

    def close(self) -> None:
        """Stop listening, and wake those who wait."""
        self._client.remove_listener(self._on_state)
        self._changed.set()

    def _on_state(self, state: object) -> None:
        if state != KazooState.CONNECTED:
            self._is_lost = True
        elif self._is_lost:
            self._is_lost = False
            self.reconnects += 1
        self._changed.set()
        for waker in self._wakers:
            waker()


class SessionLease:
    """How long one session is certain to live, by answered requests and a clock, without trusting any listener.

    It is the leader that ends a session, and a follower reports which sessions it has heard from only when the leader
    pings, every half tick. So an answer shows that *this* server has heard from us, which is of no use if it is cut off
    from the leader the moment after. But a sync is answered by the leader, over the same connection and in the same
    order as the follower's answers to its pings. So an answered sync proves what was asked at least one ping earlier:
    the lease counts from the newest request that was answered a third of the session timeout before it. A connect is
    passed on to the leader at once, so it counts by itself.

    A process that was stopped past its session and woken runs on for long before its listeners know. So the lease is
    renewed every `renew_interval_s`, and anything done for the session first checks whether the clock has reached
    `until_s`. A lease that ran out unnoticed comes back when requests are answered in the same session: it was alive.
    """

    def __init__(self, client: ZkClient, session_id: int) -> None:
        self.session_id = session_id
        self._client = client
        self._nodes = Nodes(client, session_id)
        self._clock = client.clock
        self._lock = threading.Lock()
        self.answered: deque[tuple[float, float]] = deque()  # when requests were made and answered, oldest first
        self.until_s = 0.0  # on the clock; a plain attribute, since it is read for every message
        self._ended = False

    @property
    def renew_interval_s(self) -> float:
        """How often to renew."""
        return self._client.session_timeout_ms / 1000 / _RENEWALS

    def renew(self) -> None:
        """Ask ZooKeeper's leader something in this session. Raises ZkUnavailable when there is no answer."""
        asked_s = self._clock.monotonic_s()
        self._nodes.sync()
        timeout_s = self._client.session_timeout_ms / 1000
        with self._lock:
            answered_s = self._clock.monotonic_s()
            proven_s = self._proven_s(asked_s - timeout_s * _APART)
            if proven_s is not None and not self._ended:
                self.until_s = max(self.until_s, proven_s + timeout_s)
            if not self.answered or answered_s - self.answered[-1][1] >= timeout_s / _RENEWALS / 2:
                self.answered.append((asked_s, answered_s))  # more would be useless

    def _proven_s(self, answered_before_s: float) -> float | None:
        """Return when the newest request was made that the leader certainly knows of; None when there is none."""
        while len(self.answered) > 1 and self.answered[1][1] <= answered_before_s:
            self.answered.popleft()
        proven_s = [asked_s for asked_s, answered_s in self.answered if answered_s <= answered_before_s]
        connected_to, asked_s = self._client.connect_asked
        if connected_to == self.session_id:
            proven_s.append(asked_s)
        return max(proven_s, default=None)

    def end(self) -> None:
        """Give the lease up for good."""
        with self._lock:
            self._ended = True
            self.until_s = 0.0
