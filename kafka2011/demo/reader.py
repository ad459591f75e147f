"""The demo's consumer group: one member, in a thread, that notes which lines it was given."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Self

from kafka2011.consumer.connector import ConsumerConnector
from kafka2011.demo.patience import Patience
from kafka2011.demo.records import ReceivedLine

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

READER_SETTINGS: dict[str, object] = {
    "fetcher.backoff.ms": 50,
    "autocommit.interval.ms": 1000,
    "rebalance.backoff.ms": 1000,
    "zk.sessiontimeout.ms": 2000,
}
_POLL_S = 0.2


class Reader:
    """Reads a topic as a group of its own; a context manager, which leaves the group at the end."""

    def __init__(self, group: str, topic: str, settings: Mapping[str, object]) -> None:
        self.group = group
        self._lines: list[ReceivedLine] = []
        self._connector = ConsumerConnector({**settings, "groupid": group})
        [self._stream] = self._connector.create_message_streams({topic: 1})[topic]
        self._thread = threading.Thread(target=self._run, name=f"reader of {topic}", daemon=True)

    @property
    def lines(self) -> Sequence[ReceivedLine]:
        """What was delivered so far, in order."""
        return self._lines

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._connector.shutdown()
        self._thread.join()

    def wait_for(self, lines: int) -> bool:
        """Wait until so many different lines were delivered; False when none has been for long."""
        patience = Patience(lambda: len(self._lines))
        while len({line.number for line in self._lines}) < lines:
            if patience.is_over():
                return False
            time.sleep(_POLL_S)
        return True

    def _run(self) -> None:
        for message in self._stream:
            self._lines.append(ReceivedLine.of(message))
