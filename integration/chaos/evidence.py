"""All that a run leaves behind for its account. Times are on the lease's clock, which all processes share. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from integration.chaos.registry_history import RegistryHistory

if TYPE_CHECKING:
    from collections.abc import Iterator

    from integration.chaos.records import Logged, MemberFile, MessageId, Receipt, Sent
    from integration.chaos.schedule import Fault
    from integration.gateway.endless import Line
    from zk.cluster import TopicPartition


class Happened(NamedTuple):
    """A fault as it came: whom it concerned, by name, from when to when. Nobody, if it was left out."""

    fault: Fault
    whom: tuple[str, ...]
    begun_s: float
    ended_s: float

    @property
    def stops_clients(self) -> bool:
        """Whether the clients that it concerned were stopped meanwhile."""
        return self.fault.kind.startswith(("pause", "retention"))

    def __str__(self) -> str:
        how = f" {self.fault.mode} {self.fault.ways}" if self.fault.kind == "link" else ""
        return f"{self.fault.kind}{how} ({', '.join(self.whom)})"


class Deletion(NamedTuple):
    """A segment that a broker deleted: when it was last seen, when missed, and how much of its log was left then."""

    where: TopicPartition
    offset: int
    seen_s: float
    missed_s: float
    left_bytes: int

    def __str__(self) -> str:
        when = f"between {self.seen_s:.2f} and {self.missed_s:.2f}"
        return f"{self.where}@{self.offset} {when}, {self.left_bytes} bytes left"


class Sample(NamedTuple):
    """What a process needed at a time."""

    stamp_s: float
    name: str
    pid: int
    threads: int
    files: int
    memory_bytes: int


@dataclass(slots=True)
class Evidence:
    """What happened, and what everybody wrote down; `is_secure` says that clients connected over TLS only.

    `vanished` is what power cuts took before it was flushed, `deletions` what brokers deleted; `groups` names the
    members of each, `styles` how each reads; `starts` are where logs' segments ever began, or where what is damaged
    ends; `starts_given_up` counts brokers that did not find ZooKeeper when they began, `servers_apart` servers of
    ZooKeeper that noticed that their data is not their leader's. `told` is topic, partition and offset of what gateways
    have acknowledged, and `read_today` what a client of today reads in the end, by topic, Kafka's number and partition;
    `endless` what a Java consumer that never ends wrote down, by topic, with names of messages as values.
    """

    is_secure: bool = False
    started_s: float = 0.0
    healed_s: float = 0.0
    ended_s: float = 0.0
    happened: list[Happened] = field(default_factory=list)
    sent: list[Sent] = field(default_factory=list)
    logged: list[Logged] = field(default_factory=list)
    vanished: set[MessageId] = field(default_factory=set)
    deletions: list[Deletion] = field(default_factory=list)
    members: dict[str, MemberFile] = field(default_factory=dict)
    groups: dict[str, list[str]] = field(default_factory=dict)
    styles: dict[str, str] = field(default_factory=dict)
    killed_s: dict[str, float] = field(default_factory=dict)
    registry: RegistryHistory = field(default_factory=RegistryHistory)
    starts: dict[TopicPartition, set[int]] = field(default_factory=dict)
    samples: list[Sample] = field(default_factory=list)
    told: dict[MessageId, tuple[str, int, int]] = field(default_factory=dict)
    read_today: dict[tuple[str, int, TopicPartition], list[tuple[int, MessageId | None]]] = field(default_factory=dict)
    endless: dict[str, list[Line]] = field(default_factory=dict)
    starts_given_up: int = 0
    servers_apart: int = 0
    troubles: list[str] = field(default_factory=list)

    def confirmed(self) -> Iterator[Sent]:
        """Yield what was confirmed."""
        return (sent for sent in self.sent if sent.outcome == "confirmed")

    def receipts_of(self, group: str) -> list[Receipt]:
        """Return what a group was handed, in the order of time."""
        every = [receipt for name in self.groups[group] for receipt in self.members[name].receipts]
        return sorted(every, key=lambda receipt: receipt.stamp_s)

    def gone(self) -> set[MessageId | None]:
        """Return what is not there any more, by a fault that explains it."""
        return {logged.message for logged in self.logged if logged.gone} | self.vanished

    def places(self) -> dict[MessageId, list[Logged]]:
        """Return where each message lies."""
        found: dict[MessageId, list[Logged]] = {}
        for logged in self.logged:
            if logged.message is not None:
                found.setdefault(logged.message, []).append(logged)
        return found


class Violation(NamedTuple):
    """A rule that did not hold, and where."""

    rule: str
    text: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.text}"
