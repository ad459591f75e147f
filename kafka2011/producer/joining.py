"""Joins parcels into the sets that are sent: many small sends for a partition become one set, in one pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka2011.producer.parcel import PartitionSet
from kafka2011.producer.set_encoder import MAX_SET_BYTES

if TYPE_CHECKING:
    from kafka2011.producer.parcel import Parcel
    from kafka2011.producer.set_encoder import SetEncoder
    from zk.cluster import TopicPartition


class JoinedParcels:
    """Parcels for one partition that will be one set; all have a key, or none has."""

    __slots__ = ("keyed", "parcels", "partition", "payloads", "size_bytes", "topic")

    def __init__(self, topic: str, partition: TopicPartition, keyed: bool) -> None:
        self.topic = topic
        self.partition = partition
        self.keyed = keyed
        self.parcels: list[Parcel] = []
        self.payloads: list[bytes] = []
        self.size_bytes = 0

    def encoded(self, encoder: SetEncoder) -> PartitionSet:
        """Return the set. Raises what the encoder raises."""
        ready = self.parcels[0].ready_set
        data = encoder.encode(self.topic, self.payloads) if ready is None else bytes(ready)
        return PartitionSet(self.topic, self.partition, self.keyed, data, self.parcels)


def join_parcels(parcels: list[Parcel]) -> list[JoinedParcels]:
    """Return what becomes one set each; every partition's messages stand in the order of the parcels.

    A ready set stays alone, since it may be one that the broker refuses. Parcels with and without keys stay apart,
    since only the latter may move; so do those that would make a set grow beyond MAX_SET_BYTES.
    """
    all_joined: list[JoinedParcels] = []
    growing: dict[tuple[str, TopicPartition], JoinedParcels] = {}
    for parcel in parcels:
        topic = parcel.ticket.topic
        keyed = parcel.ticket.key is not None
        where = (topic, parcel.partition)
        size_bytes = sum(map(len, parcel.payloads))
        joined = growing.get(where)
        if (
            joined is None
            or parcel.ready_set is not None
            or joined.keyed is not keyed
            or joined.size_bytes + size_bytes > MAX_SET_BYTES
        ):
            joined = JoinedParcels(topic, parcel.partition, keyed)
            all_joined.append(joined)
            if parcel.ready_set is None:
                growing[where] = joined
            else:
                growing.pop(where, None)
        joined.parcels.append(parcel)
        joined.payloads += parcel.payloads
        joined.size_bytes += size_bytes
    return all_joined
