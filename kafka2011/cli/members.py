"""Members of groups, in commands that read: how they end, and what is left of a group of a command's own."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING

from kafka2011.cli.session import open_session
from zk.consumers import ConsumerRegistry
from zk.errors import ZkUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafka2011.consumer.connector import ConsumerConnector


@contextlib.contextmanager
def ended_by(stop: threading.Event, connector: ConsumerConnector) -> Iterator[None]:
    """Shut the connector down when the event comes, so that a waiting stream ends."""
    is_done = False

    def wait() -> None:
        stop.wait()
        if not is_done:
            connector.shutdown()

    waiting = threading.Thread(target=wait, daemon=True)
    waiting.start()
    try:
        yield
    finally:
        is_done = True
        stop.set()
        waiting.join()


@contextlib.contextmanager
def removed_at_the_end(zk_connect: str, group: str) -> Iterator[None]:
    """Remove a group, with its offsets, after the block."""
    try:
        yield
    except ZkUnavailable:
        raise  # having waited for ZooKeeper in vain, do not wait again
    except BaseException:
        _remove(zk_connect, group)
        raise
    _remove(zk_connect, group)


def _remove(zk_connect: str, group: str) -> None:
    with open_session(zk_connect) as client:
        ConsumerRegistry(client).delete_group(group)
