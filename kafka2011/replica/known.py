"""What a replica knows of itself, and keeps in its log.dir: its disk's id, epochs, partitions, and what was readable.

It is written whole and fsynced before anything else in a log.dir, and before a replica acts in a new epoch.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

from kafka2011.json_document import read_document
from kafka2011.replica.lineage import SeenState
from kafka2011.replica.state import Replica, ReplicaStateError
from zk.cluster import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from kafka2011.replica.state import ReplicaState


@dataclass(frozen=True, slots=True)
class Known:
    """The text of the file `replica`.

    `epoch` is the highest that was seen. `readable` is, for each partition, an offset up to which this disk holds what
    clients may have read: a lower bound, which need not be up to date. `seen` is the newest state that was acted on;
    None if that was by an older release.
    """

    replica: Replica
    epoch: int = 0
    readable: Mapping[TopicPartition, int] = field(default_factory=dict)
    seen: SeenState | None = None

    @property
    def text(self) -> str:
        """The file's text."""
        readable = [[*where, offset] for where, offset in sorted(self.readable.items())]
        document: dict[str, Any] = {"replica": str(self.replica), "epoch": self.epoch, "readable": readable}
        if self.seen is not None:
            document["seen"] = self.seen.text
        return json.dumps(document)

    @classmethod
    def of(cls, text: str | bytes, path: str) -> Self:
        """Read the file's text; `path` names it in the ReplicaStateError that is raised if it is damaged."""
        return read_document(text, cls._of_document, ReplicaStateError, f"{path} is not what a replica knows of itself")

    @classmethod
    def _of_document(cls, document: dict[str, Any]) -> Self:
        epoch = document["epoch"]
        readable = {
            TopicPartition(topic, broker_id, partition): offset
            for topic, broker_id, partition, offset in document["readable"]
        }
        if any(type(number) is not int or number < 0 for number in (epoch, *readable.values())):
            raise ValueError("epoch and offsets must be numbers, and not negative")
        seen = document.get("seen")
        return cls(Replica.of(document["replica"]), epoch, readable, None if seen is None else SeenState.of(seen))

    def named(self, name: str) -> Known:
        """Return the same of a replica of another name."""
        return replace(self, replica=Replica(name, self.replica.disk))

    @property
    def newest_seen(self) -> SeenState:
        """The newest state that this disk knows of, by its epoch alone if an older release has noted it."""
        return SeenState(self.epoch, "", 0, is_in_sync=False) if self.seen is None else self.seen

    def entering(self, state: ReplicaState, version: int) -> Known:
        """Return what is known in the epoch of a state that was read, or written, and has that version.

        What was readable before an operator accepted a loss counts no more: the elected replica may not have it.
        """
        readable = {} if self.epoch < state.loss_epoch else self.readable
        seen = state.seen_by(self.replica, version)
        return replace(self, epoch=max(self.epoch, state.epoch), readable=readable, seen=seen)

    def with_readable(self, readable: Mapping[TopicPartition, int]) -> Known:
        """Return the same with other offsets, never lower ones."""
        known = self.readable
        return replace(
            self, readable={**known, **{where: max(end, known.get(where, 0)) for where, end in readable.items()}}
        )

    def without(self, topics: Collection[str]) -> Known:
        """Return the same without what was readable of topics, which is on disk before their logs are deleted."""
        return replace(self, readable={where: end for where, end in self.readable.items() if where.topic not in topics})

    def missing(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Return the partitions that this disk has had and has no more: a replica without them may not go on."""
        return sorted(self.readable.keys() - set(partitions))
