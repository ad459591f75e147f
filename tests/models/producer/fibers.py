"""Threads that take turns as a seed says, on a clock that moves only when they do."""

from __future__ import annotations

import heapq
import traceback
from typing import TYPE_CHECKING

from greenlet import GreenletExit, getcurrent, greenlet

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

_MAX_STEPS = 300_000
_STEP_S = 0.0001
_STALL_PROBABILITY = 0.01
_STALL_S = 0.05


class StuckError(AssertionError):
    """Nobody can go on, or nothing ever comes to an end."""


class Fiber:
    """One thread of the simulation."""

    def __init__(self, name: str, run: Callable[[], object], hub: greenlet) -> None:
        self.name = name
        self.greenlet = greenlet(run, parent=hub)
        self.thread: object = self  # what `current_thread` gives
        self.is_done = False
        self.waits = 0  # how often it has waited: tells its present timer from those before
        self.is_waiting = False
        self.was_woken = False

    def where(self) -> str:
        """Say where it stands, for a report."""
        frame = self.greenlet.gr_frame
        return "ended" if frame is None else "".join(traceback.format_stack(frame)[-6:])


class Scheduler:
    """Runs fibers one at a time. Which one goes on, and when one has to stop for another, is drawn from `random`.

    It is also the clock of all that runs in it: time passes a little with every turn, now and then while somebody
    could go on, and else only when all wait, up to the first one's time.
    """

    def __init__(self, random: Random, switch_probability: float) -> None:
        self.random = random
        self.now_s = 1000.0
        self.fibers: list[Fiber] = []
        self.steps = 0
        self._switch_probability = switch_probability
        self._current: Fiber | None = None
        self._ready: list[Fiber] = []
        self._timers: list[tuple[float, int, int, Fiber]] = []
        self._failure: BaseException | None = None
        self.is_over = False
        self._hub = getcurrent()

    @property
    def current(self) -> Fiber:
        """The fiber that runs."""
        assert self._current is not None
        return self._current

    def monotonic_s(self) -> float:
        """Return the time, as a clock does."""
        return self.now_s

    wall_s = monotonic_s

    def spawn(self, name: str, target: Callable[[], object]) -> Fiber:
        """Start a fiber, which has its first turn later."""
        fiber = Fiber(name, lambda: self._live(fiber, target), self._hub)
        self.fibers.append(fiber)
        self._ready.append(fiber)
        return fiber

    def pause(self) -> None:
        """Stop for others, if it is to be: what a thread may have to do anywhere."""
        if self.is_over:
            raise GreenletExit
        self._count_step()
        if self._ready and self.random.random() < self._switch_probability:
            self._ready.append(self.current)
            self._hub.switch()
        elif self._failure is not None:
            self._hub.switch()  # and never come back

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until woken; False when the time passes first."""
        if self.is_over:
            raise GreenletExit
        fiber = self.current
        fiber.waits += 1
        fiber.is_waiting, fiber.was_woken = True, False
        if timeout_s is not None:
            heapq.heappush(self._timers, (self.now_s + max(timeout_s, 0.0), self.steps, fiber.waits, fiber))
        self._hub.switch()
        return fiber.was_woken

    def wake(self, fiber: Fiber) -> None:
        """Let a fiber that waits go on."""
        if fiber.is_waiting:
            fiber.is_waiting, fiber.was_woken = False, True
            self._ready.append(fiber)

    def sleep(self, seconds: float) -> None:
        """Wait for a time."""
        self.wait(seconds)

    def run(self, main: Callable[[], object]) -> None:
        """Run until `main` has ended. Raises what any fiber failed with, and StuckError; ends all others."""
        first = self.spawn("main", main)
        try:
            while not first.is_done:
                self._turn()
                if self._failure is not None:
                    raise self._failure
        finally:
            self.is_over = True
            for fiber in self.fibers:
                fiber.greenlet.throw()

    def guarded(self, check: Callable[[], object]) -> None:
        """Call something inside the code under test: what it raises ends the run, and never meets that code."""
        try:
            check()
        except AssertionError as error:
            self._failure = self._failure or error

    def _turn(self) -> None:
        self._count_step()
        if not self._ready:
            if not self._timers:
                raise StuckError(f"nobody can go on, at {self.now_s:.3f} s\n{self._report()}")
            self.now_s = max(self.now_s, self._timers[0][0])
        elif self._timers and self.random.random() < _STALL_PROBABILITY:
            self.now_s = max(self.now_s, min(self._timers[0][0], self.now_s + _STALL_S))
        while self._timers and self._timers[0][0] <= self.now_s:
            _, _, waits, fiber = heapq.heappop(self._timers)
            if fiber.is_waiting and fiber.waits == waits:
                fiber.is_waiting = False
                self._ready.append(fiber)
        if self._ready:
            following = self._ready.pop(int(self.random.random() * len(self._ready)))
            self._current = following
            following.greenlet.switch()

    def _count_step(self) -> None:
        self.steps += 1
        self.now_s += _STEP_S
        if self.steps > _MAX_STEPS and self._failure is None:
            self._failure = StuckError(f"it goes on and on, at {self.now_s:.3f} s\n{self._report()}")

    def _live(self, fiber: Fiber, target: Callable[[], object]) -> None:
        try:
            target()
        except GreenletExit:
            pass
        except BaseException as error:  # noqa: BLE001 (run raises it)
            self._failure = self._failure or error
        fiber.is_done = True

    def _report(self) -> str:
        return "\n".join(f"{fiber.name}:\n{fiber.where()}" for fiber in self.fibers if not fiber.is_done)


class WaitList:
    """Fibers that wait for the same thing."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._waiting: list[Fiber] = []

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait to be woken; False when the time passes first."""
        fiber = self._scheduler.current
        self._waiting.append(fiber)
        try:
            return self._scheduler.wait(timeout_s)
        finally:
            if fiber in self._waiting:
                self._waiting.remove(fiber)

    def wake(self, count: int | None = None) -> None:
        """Wake the first ones, or all."""
        woken = self._waiting[:count]
        del self._waiting[:count]
        for fiber in woken:
            self._scheduler.wake(fiber)
