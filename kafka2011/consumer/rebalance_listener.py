"""RebalanceListener: what an application may do when partitions come to a member and leave it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zk.cluster import TopicPartition


class RebalanceListener:
    """Receives calls when partitions are assigned and revoked; pass a subclass to ConsumerConnector.

    The methods are called one at a time, under no lock, in the thread that rebalances or the one that shuts the
    connector down. They may call the connector: `commit_offsets`, `rewind`, and `shutdown`, which then returns at once
    and ends the member afterwards. The rebalance waits until they return, and other members wait for what is given up,
    so be brief. What they raise is logged and counted (`listener_errors`), and the rebalance goes on.
    """

    def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        """Prepare for partitions that are owned from now on; nothing was fetched from them yet."""

    def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """Save what belongs to partitions that are given up next: they are still owned and can be committed.

        Streams hand out nothing more from them, and the application has finished what it had, unless that took longer
        than rebalance.backoff.ms.
        """

    def on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        """Give up partitions whose ZooKeeper session has ended: others may own them already.

        The same as `on_revoked` unless a subclass defines it; commits are refused by then.
        """
        self.on_revoked(partitions)
