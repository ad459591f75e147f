"""What threads do for the answers of all connections of a server, so that its event loop goes on."""

from __future__ import annotations

from typing import NamedTuple, Self

from kafka2011.broker.connections.page_reads import PageReads
from kafka2011.broker.connections.send_threads import SendThreads


class AnswerThreads(NamedTuple):
    """Reads from the disk, and sends."""

    reads: PageReads
    sends: SendThreads | None

    @classmethod
    def with_sends(cls, count: int) -> Self:
        """Make them; `count` is how many threads send, 0 for none."""
        return cls(PageReads(), SendThreads.of(count))

    def stop(self) -> None:
        """End the threads that send; may be called twice."""
        if self.sends is not None:
            self.sends.stop()
