"""Which partition of the target a set goes to: the one that its own corresponds to, where there is one. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zk.cluster import TopicPartition


class PartitionChoice:
    """Pairs a source topic's partitions with the target's, first with first, when there are equally many.

    Partitions are in the order of broker and number. A pairing holds while only partitions of it are registered: they
    go when their broker is away, and come back with it. A new partition on either side ends it.
    """

    def __init__(self) -> None:
        self._paired: dict[str, dict[TopicPartition, TopicPartition]] = {}

    def choose(
        self, where: TopicPartition, sources: Sequence[TopicPartition], targets: Sequence[TopicPartition]
    ) -> TopicPartition | None:
        """Return the target's partition for a source's, of those registered now; None: any will do."""
        paired = self._paired.get(where.topic)
        if paired is None or not (paired.keys() >= set(sources) and set(paired.values()) >= set(targets)):
            paired = dict(zip(sorted(sources), sorted(targets), strict=True)) if len(sources) == len(targets) else {}
            if paired:
                self._paired[where.topic] = paired
            else:
                self._paired.pop(where.topic, None)
        return paired.get(where)
