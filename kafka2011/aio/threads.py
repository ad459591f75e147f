"""Calls that wait for sockets or ZooKeeper, taken out of the event loop."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
T = TypeVar("T")


class Thread:
    """One thread, in which calls are made in their order. For the event loop that it was made in."""

    def __init__(self, name: str) -> None:
        self._executor = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._loop = asyncio.get_running_loop()

    async def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Make a call there and return what it returns. When this is cancelled, the call goes on to its end."""
        return await self._loop.run_in_executor(self._executor, partial(function, *args, **kwargs))

    def end(self) -> None:
        """Let the thread end with the call that it is in."""
        self._executor.shutdown(wait=False)
