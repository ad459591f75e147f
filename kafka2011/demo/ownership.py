"""Who owned which partition when, as the owner znodes showed while the demo ran."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Self

from kafka2011.demo.takeover import Owned
from zk.errors import ZkError
from zk.owners import OwnerRegistry

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from zk.client import ZkClient

LOOK_INTERVAL_S = 0.2
_JOIN_TIMEOUT_S = 10.0


class OwnershipLog:
    """Looks at a group's owner znodes now and then, in a thread; a context manager.

    Members are named by their consumerid: a stream's id is `{group}_{member}-{number}`.
    """

    def __init__(self, client: ZkClient, group: str, topic: str) -> None:
        self._registry = OwnerRegistry(client)
        self._group = group
        self._topic = topic
        self._seen: list[Owned] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"owners of {group}", daemon=True)

    @property
    def seen(self) -> Sequence[Owned]:
        """What was seen so far, in order."""
        return tuple(self._seen)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join(_JOIN_TIMEOUT_S)

    def _run(self) -> None:
        while not self._stop.wait(LOOK_INTERVAL_S):
            try:
                owners = self._registry.owners(self._group, self._topic)
            except ZkError:
                continue  # another look comes
            named = {
                where: owner.stream_id.rpartition("-")[0].removeprefix(f"{self._group}_")
                for where, owner in owners.items()
            }
            if not self._seen or self._seen[-1].owners != named:
                self._seen.append(Owned(int(time.time() * 1000), named))
