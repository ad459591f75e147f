"""Threads of shipped code as tasks of which exactly one runs at a time, until it would wait; then others are chosen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import greenlet

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Hashable

    from tests.support.clocks import ManualClock

_FOREVER_S = float("inf")


class Task:
    """One thread's work. `history` tells where it stands: how it began, and all that it was told since."""

    def __init__(self, act: Callable[[], None], began: Hashable, now_s: float) -> None:
        self.history: list[Hashable] = [began]
        self.began_s = now_s
        self.is_ready: Callable[[], bool] = lambda: True
        self.deadline_s = _FOREVER_S
        self.greenlet = greenlet.greenlet(act)


class Tasks:
    """All tasks of a group, by the member they belong to and their name."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.running: Task | None = None
        self.by_key: dict[tuple[str, str], Task] = {}
        self.failures: list[BaseException] = []
        self.stopped: set[str] = set()  # members whose processes stand still

    def start(self, member: str, name: str, act: Callable[[], None], began: Hashable) -> None:
        """Begin a task, which runs until it waits for the first time."""

        def guarded() -> None:
            try:
                act()
            except greenlet.GreenletExit:
                raise
            except BaseException as error:  # noqa: BLE001 - it belongs to the test
                self.failures.append(error)

        assert (member, name) not in self.by_key
        self.by_key[member, name] = Task(guarded, began, self.clock.now_s)
        self.run_ready()

    def wait(self, is_ready: Callable[[], bool], timeout_s: float | None = None) -> bool:
        """Wait in a task until something is so; False when the time ran out first."""
        if is_ready():
            return True
        task = self.running
        assert task is not None, "the test itself would wait for ever"
        task.is_ready = is_ready
        task.deadline_s = _FOREVER_S if timeout_s is None else self.clock.now_s + timeout_s
        assert task.greenlet.parent is not None
        task.greenlet.parent.switch()
        task.history.append(is_ready())
        return is_ready()

    def note(self, told: Hashable) -> None:
        """Note something that the running task was told."""
        if self.running is not None:
            self.running.history.append(told)

    def run_ready(self) -> None:
        """Let every task that need not wait any more go on until it must."""
        if self.running is not None:
            return  # it began another, which runs when it waits
        is_idle = False
        while not is_idle:
            is_idle = True
            for key, task in list(self.by_key.items()):
                if self.by_key.get(key) is not task or key[0] in self.stopped:
                    continue
                if task.is_ready() or self.clock.now_s >= task.deadline_s:
                    is_idle = False
                    self.running = task
                    try:
                        task.greenlet.switch()
                    finally:
                        self.running = None
                    if task.greenlet.dead:
                        self.by_key.pop(key, None)
        if self.failures:
            raise self.failures[0]

    def of(self, member: str) -> dict[str, Task]:
        """Return the tasks of a member by name."""
        return {name: task for (owner, name), task in self.by_key.items() if owner == member}

    def drop(self, member: str) -> None:
        """Let the tasks of a member go no further, as when its process is killed."""
        for key in [key for key in self.by_key if key[0] == member]:
            del self.by_key[key]

    def delay(self, seconds: float) -> None:
        """Move all deadlines."""
        for task in self.by_key.values():
            task.deadline_s += seconds


class TaskLock:
    """A lock between tasks."""

    def __init__(self, tasks: Tasks) -> None:
        self._tasks = tasks
        self.is_held = False

    def __enter__(self) -> None:
        self._tasks.wait(lambda: not self.is_held)
        self.is_held = True

    def __exit__(self, *_: object) -> None:
        self.is_held = False


class TaskEvent:
    """An event between tasks."""

    def __init__(self, tasks: Tasks) -> None:
        self._tasks = tasks
        self._is_set = False

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True

    def clear(self) -> None:
        self._is_set = False

    def wait(self, timeout_s: float | None = None) -> bool:
        return self._tasks.wait(self.is_set, timeout_s)


class TaskCondition:
    """A condition between tasks, of a real lock that no other task waits for."""

    def __init__(self, tasks: Tasks, lock: threading.Lock) -> None:
        self._tasks = tasks
        self._lock = lock
        self._notified = 0

    def notify_all(self) -> None:
        self._notified += 1

    def wait(self, timeout_s: float | None = None) -> bool:
        before = self._notified
        self._lock.release()
        try:
            return self._tasks.wait(lambda: self._notified > before, timeout_s)
        finally:
            self._lock.acquire()
