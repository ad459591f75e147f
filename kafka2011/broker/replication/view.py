"""What a replica saw when it last looked into ZooKeeper, for those who ask others about damaged segments."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafka2011.replica.segments import REPLICA_SEGMENT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafka2011.replica.known import Known
    from kafka2011.replica.state import Replica, ReplicaState
    from zk.cluster import TopicPartition
    from zk.replicas import Member
    from zk.security import Security


class ReplicaView(NamedTuple):
    """The state, who is alive, and who of them this is. `tls_path` says how to reach others by TLS."""

    me: Replica
    state: ReplicaState
    members: Mapping[Replica, Member]
    tls_path: str | None
    readable: Mapping[TopicPartition, int]
    """Up to where this disk is known to have what clients may have read: nobody may cut that."""

    @classmethod
    def of(
        cls, known: Known, state: ReplicaState, members: Mapping[Replica, Member], security: Security
    ) -> ReplicaView:
        """Return what was seen, with what is used to reach others by TLS."""
        tls_path = None if security.brokers is None else security.path
        return cls(known.replica, state, members, tls_path, known.readable)

    def helpers(self) -> dict[Replica, Member]:
        """Return the others that are in sync and alive, and can be asked for bytes of segments."""
        return {
            replica: member
            for replica, member in self.members.items()
            if replica in self.state.in_sync and replica != self.me and self.can_be_asked(member)
        }

    def tls_for(self, member: Member) -> str:
        """Return what to reach a member by TLS with; an empty text for one that is reached without."""
        return (self.tls_path or "") if member.by_tls else ""

    def can_be_asked(self, member: Member) -> bool:
        """Say whether a member answers questions about segments, and can be reached."""
        return REPLICA_SEGMENT in member.speaks and not (member.by_tls and self.tls_path is None)
