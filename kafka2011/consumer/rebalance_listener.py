"""RebalanceListener: what an application may do when partitions come to a member and leave it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zk.cluster import TopicPartition


class RebalanceListener:
    """Is told when partitions come and go; does nothing until a subclass does. Give one to ConsumerConnector.

    All methods are called one at a time, under no lock, in the thread that rebalances, or in the one that shuts the
    connector down. They may call the connector: `commit_offsets`, `rewind`, and `shutdown`, which then returns at once
    and ends the member afterwards. Nothing else of the rebalance happens until they return, and other members wait for
    what is given up, so be brief. What they raise is logged and counted (`listener_errors`), and the rebalance goes on.
    """

    def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        """Begin with partitions: they are owned, and nothing of them was fetched yet."""

    def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """Save what belongs to partitions that are about to go: they are still owned, and can be committed.

        No stream hands out anything of them any more, and the application has come back from what it had, unless it
        took longer than rebalance.backoff.ms.
        """

    def on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        """Give up partitions whose ZooKeeper session has ended: others may own them already.

        The same as `on_revoked` unless a subclass tells them apart; a commit is refused then.
        """
        self.on_revoked(partitions)
