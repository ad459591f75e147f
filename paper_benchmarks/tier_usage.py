"""CPU time of processes that come and go, by name: looked at again and again, as the last look before an end counts."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Self

import psutil

from paper_benchmarks.systems.usage import tree_cpu_s

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_LOOK_S = 0.5


class TierUsage:
    """Watches the processes that `pids` names, with all below them, from `start` to `close`; a context manager."""

    def __init__(self, pids: Callable[[], Mapping[str, int]]) -> None:
        self._pids = pids
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tier usage", daemon=True)
        self.cpu_s: dict[str, float] = {}

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self.look()

    def look(self) -> None:
        """Note what each has used by now."""
        for name, pid in self._pids().items():
            with suppress(psutil.NoSuchProcess):
                self.cpu_s[name] = max(tree_cpu_s(psutil.Process(pid)), self.cpu_s.get(name, 0.0))

    def _run(self) -> None:
        while not self._ended.wait(_LOOK_S):
            self.look()
