"""Small evidence, written by hand: two messages, one partition, one group of two members, and nothing wrong."""

from __future__ import annotations

from integration.chaos.evidence import Evidence, Happened, Sample
from integration.chaos.records import Logged, MemberFile, MessageId, Place, Receipt, Sent, Tenure
from integration.chaos.registry_history import FOREVER_S, Commit, Owned, RegistryHistory
from integration.chaos.schedule import Fault
from zk.cluster import TopicPartition

WHERE = TopicPartition("chaos-1", 0, 0)
GROUP = "growing"
A, B = "growing-1", "growing-2"
SIZE = 100


def message(number: int, producer: str = "keyed.1") -> MessageId:
    return MessageId(producer, number)


def place(index: int, where: TopicPartition = WHERE) -> Place:
    """Return the place of the message with this index in a partition."""
    return Place(where, index * SIZE, 0)


def sent(
    number: int, outcome: str = "confirmed", *, producer: str = "keyed.1", key: str = "k", named: str = ""
) -> Sent:
    """Return a message that was sent at its number in seconds, and answered a tenth of a second later."""
    return Sent(message(number, producer), WHERE.topic, key, named, float(number), outcome, number + 0.1, 0)


def logged(index: int, number: int | None = None, *, producer: str = "keyed.1", key: str = "k") -> Logged:
    """Return a message as it lies at an index, by default the one of that number."""
    return Logged(place(index), message(index if number is None else number, producer), key)


def receipt(member: str, stamp_s: float, index: int, number: int | None = None) -> Receipt:
    """Return that a member was handed what lies at an index."""
    return Receipt(stamp_s, member, place(index), (index + 1) * SIZE, message(index if number is None else number))


def tenure(member: str, stamp_s: float, what: str) -> Tenure:
    return Tenure(stamp_s, member, what, (WHERE,))


def happened(kind: str, begun_s: float, ended_s: float, *whom: str) -> Happened:
    return Happened(Fault(begun_s, kind, ended_s - begun_s, 0.0), whom, begun_s, ended_s)


def owned(member: str, begin_s: float = 0.0, end_s: float = FOREVER_S, *, group: str = GROUP) -> Owned:
    return Owned(group, WHERE, member, 7, begin_s, end_s)


def commit(stamp_s: float, messages: int, *, session_id: int = 7, owner_id: int = 7) -> Commit:
    """Return a commit of so many messages."""
    return Commit(stamp_s, GROUP, WHERE, messages * SIZE, session_id, owner_id)


def sample(stamp_s: float, threads: int, files: int, memory_bytes: int) -> Sample:
    return Sample(stamp_s, "broker-0", 4711, threads, files, memory_bytes)


def good_evidence() -> Evidence:
    """Member A has both messages."""
    return Evidence(
        ended_s=100.0,
        sent=[sent(0), sent(1)],
        logged=[logged(0), logged(1)],
        members={
            A: MemberFile([receipt(A, 1, 0), receipt(A, 2, 1)], [tenure(A, 0, "assigned")], []),
            B: MemberFile([], [], []),
        },
        groups={GROUP: [A, B]},
        styles={A: "one", B: "one"},
        registry=RegistryHistory([owned(A), owned(B)], [commit(0.5, 0), commit(1.5, 1), commit(2.5, 2)]),
        starts={WHERE: {0}},
    )
