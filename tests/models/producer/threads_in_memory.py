"""What the producer uses of `threading` and `queue`, for fibers."""

from __future__ import annotations

from collections import deque
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Self

from tests.models.producer.fibers import WaitList

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tests.models.producer.fibers import Fiber, Scheduler


class _Lock:
    """A lock that whoever comes first may have, not who waits longest. Around it others may have their turn."""

    def __init__(self, scheduler: Scheduler, *, reentrant: bool = False, yields: bool = True) -> None:
        self.on_release: Callable[[], object] | None = None  # called by the holder
        self._scheduler = scheduler
        self._waiting = WaitList(scheduler)
        self._reentrant = reentrant
        self._yields = yields
        self._holder: Fiber | None = None
        self._depth = 0

    def acquire(self) -> bool:
        current = self._scheduler.current
        if self._yields:
            self._scheduler.pause()
        if self._reentrant and self._holder is current:
            self._depth += 1
            return True
        while self._holder is not None:
            assert self._holder is not current, f"{current.name} waits for itself"
            self._waiting.wait()
        self._holder = current
        self._depth = 1
        return True

    def release(self) -> None:
        self.let_go()
        if self._yields:
            self._scheduler.pause()

    def let_go(self) -> None:
        """Release it without giving others a turn."""
        if self._scheduler.is_over:
            return
        assert self._holder is self._scheduler.current
        self._depth -= 1
        if self._depth:
            return
        if self.on_release is not None:
            self.on_release()
        self._holder = None
        self._waiting.wake(1)

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


class _Condition:
    def __init__(self, scheduler: Scheduler, lock: _Lock | None = None) -> None:
        self._lock = lock or _Lock(scheduler, reentrant=True, yields=False)
        self._waiting = WaitList(scheduler)
        self.acquire = self._lock.acquire
        self.release = self._lock.release

    def wait(self, timeout: float | None = None) -> bool:
        self._lock.let_go()
        try:
            return self._waiting.wait(timeout)
        finally:
            self._lock.acquire()

    def notify(self, count: int = 1) -> None:
        self._waiting.wake(count)

    def notify_all(self) -> None:
        self._waiting.wake()

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


class _Event:
    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._waiting = WaitList(scheduler)
        self._is_set = False

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True
        self._waiting.wake()

    def wait(self, timeout: float | None = None) -> bool:
        self._scheduler.pause()
        if not self._is_set:
            self._waiting.wait(timeout)
        return self._is_set


class _Thread:
    def __init__(
        self,
        scheduler: Scheduler,
        target: Callable[..., object],
        args: Sequence[object] = (),
        kwargs: Mapping[str, object] | None = None,
        *,
        name: str = "thread",
        daemon: bool = False,
    ) -> None:
        self.name = name
        self._fiber: Fiber | None = None
        self._scheduler = scheduler
        self._run = partial(target, *args, **(kwargs or {}))
        self._ended = _Event(scheduler)

    def start(self) -> None:
        self._fiber = self._scheduler.spawn(self.name, self._live)
        self._fiber.thread = self

    def is_alive(self) -> bool:
        return self._fiber is not None and not self._ended.is_set()

    def join(self, timeout: float | None = None) -> None:
        self._ended.wait(timeout)

    def _live(self) -> None:
        self._run()
        self._ended.set()


class _SimpleQueue:
    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._waiting = WaitList(scheduler)
        self._items: deque[Any] = deque()

    def put(self, item: object) -> None:
        self._items.append(item)
        self._waiting.wake(1)
        self._scheduler.pause()

    def get(self) -> Any:
        while not self._items:
            self._waiting.wait()
        return self._items.popleft()


def threading_for(scheduler: Scheduler, *, yields: bool = True) -> SimpleNamespace:
    """Return what stands in for `threading`. `yields` says whether locks give others a turn."""
    return SimpleNamespace(
        Lock=partial(_Lock, scheduler, yields=yields),
        RLock=partial(_Lock, scheduler, reentrant=True, yields=False),
        Condition=partial(_Condition, scheduler),
        Event=partial(_Event, scheduler),
        Thread=partial(_Thread, scheduler),
        current_thread=lambda: scheduler.current.thread,
    )


def queue_for(scheduler: Scheduler) -> SimpleNamespace:
    """Return what stands in for `queue`."""
    return SimpleNamespace(SimpleQueue=partial(_SimpleQueue, scheduler))
