"""Runs the command line `kafka2011` with a gateway that ends itself by kill -9 at a named point, once it is told to.

    python dying.py ORDER gateway --override ...

The file ORDER says where, and how often that point is passed before: `confirmed 3`. It is removed just before the end.
"""

from __future__ import annotations

import functools
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafka2011.__main__ import main
from kafka2011.broker.connections.answer_writer import AnswerWriter
from kafka2011.gateway.anchors import ZkAnchors
from kafka2011.gateway.appends import Append
from kafka2011.gateway.links import BrokerLink
from kafka2011.gateway.numbering.index_file import IndexDirectory
from kafka2011.gateway.partition_log import PartitionLog

if TYPE_CHECKING:
    from collections.abc import Callable

POINTS = (
    "before the append",
    "within the append",
    "sent",
    "fetched",
    "found",
    "numbered",
    "answered",
    "anchored",
    "stored",
)
"""In the order in which an append passes them; what is anchored and stored is the index."""


PRODUCE = b"\0\0"
"""How a produce request begins, behind its size."""


class Orders:
    """Where to end, as a file says."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._passed = 0

    def is_for(self, point: str) -> bool:
        """Say whether this is the place and time to end."""
        try:
            wanted, _, times = self._path.read_text().rpartition(" ")
        except FileNotFoundError:
            return False
        if wanted != point:
            return False
        self._passed += 1
        return self._passed > int(times)

    def reach(self, point: str) -> None:
        """End the process if it is to end here."""
        if self.is_for(point):
            self.end()

    def end(self) -> None:
        """End the process at once."""
        self._path.unlink(missing_ok=True)  # another gateway may be there too
        os.kill(os.getpid(), signal.SIGKILL)


def plant(orders: Orders) -> None:
    """Have the gateway's parts look for orders."""
    send = BrokerLink.send

    def send_or_end(link: BrokerLink, *parts: bytes) -> None:
        if not any(part[4:6] == PRODUCE for part in parts):
            send(link, *parts)
            return
        orders.reach("before the append")
        if orders.is_for("within the append"):
            data = b"".join(parts)
            send(link, data[: len(data) // 2])
            orders.end()
        send(link, *parts)
        orders.reach("sent")

    planted: Any = BrokerLink
    planted.send = send_or_end
    _surround(PartitionLog, "take", orders, before="fetched", after="numbered")
    _surround(Append, "finish", orders, before="found")
    _surround(AnswerWriter, "send_bytes", orders, after="answered")
    _surround(ZkAnchors, "store", orders, after="anchored")
    _surround(IndexDirectory, "store", orders, after="stored")


def _surround(owner: Any, name: str, orders: Orders, before: str = "", after: str = "") -> None:
    function: Callable[..., Any] = getattr(owner, name)

    @functools.wraps(function)
    def surrounded(*args: Any, **kwargs: Any) -> Any:
        if before:
            orders.reach(before)
        result = function(*args, **kwargs)
        if after:
            orders.reach(after)
        return result

    setattr(owner, name, surrounded)


if __name__ == "__main__":
    plant(Orders(Path(sys.argv.pop(1))))
    main()
