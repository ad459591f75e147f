"""What brokers and groups ask of ZooKeeper: znodes, watches, writes and reads, as our clients are written.

Writes are transactions, as ZooKeeper counts them: a create that finds the znode there is one too. Reads are requests
that change nothing. What is said of one member leaves out what depends on timing: a claim that comes before the other
member has let go fails, which costs a write and a new attempt.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from kafka2011.consumer.rebalance import assign
from zk.cluster import TopicPartition

EMPTY_ZNODES = 5
"""Those of a ZooKeeper that nobody has used."""
AUDIT_INTERVAL_S = 10.0
"""A member compares its registries this often."""
LEASE_RENEWALS = 6
"""A member asks the leader so often in a session timeout."""
PINGS = 3
"""A session that asks nothing else pings so often in its timeout."""
_CLOSE_SESSION = 1  # one transaction deletes all that was the session's


class Requests(NamedTuple):
    """What something costs ZooKeeper once."""

    writes: int
    reads: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Registries:
    """A cluster and its groups, all alike: each group's members subscribe to the same topics, one stream each.

    Every topic has `partitions` on each broker. `writing` is the share of partitions that get a message within a commit
    interval: the others are not committed again.
    """

    brokers: int
    topics: int
    partitions: int = 1
    groups: int = 1
    members: int = 1
    topics_of_group: int = 1
    producers: int = 0
    topics_of_producer: int = 1
    commit_interval_s: float = 10.0
    session_timeout_s: float = 6.0
    writing: float = 1.0

    @property
    def partitions_of_group(self) -> int:
        """All that one group consumes."""
        return self.topics_of_group * self.brokers * self.partitions

    @property
    def znodes(self) -> int:
        """All of them, parents too."""
        brokers = 3 + self.brokers + self.topics * (1 + self.brokers)
        group = 4 + self.members + 2 * (self.topics_of_group + self.partitions_of_group)
        return EMPTY_ZNODES + brokers + (1 + self.groups * group if self.groups else 0)

    @property
    def watches_of_member(self) -> float:
        """One member's: lists of members, brokers and each topic's brokers, every znode in them, and its own claims."""
        claims = self.partitions_of_group / self.members
        return 1 + self.members + (1 + self.brokers) * (1 + self.topics_of_group) + claims

    @property
    def watches_of_brokers(self) -> int:
        """What brokers leave that were started one after another: each has looked at those before it."""
        return self.brokers * (self.brokers - 1) // 2

    @property
    def watches(self) -> int:
        """All of them; a producer's are lists of brokers and of each topic's, and every znode in them."""
        members = self.groups * self.members * self.watches_of_member
        producers = self.producers * (1 + self.brokers) * (1 + self.topics_of_producer)
        return round(members) + producers + self.watches_of_brokers

    @property
    def writes_per_s(self) -> float:
        """Commits of offsets, which are all that is written while nobody comes or goes."""
        return self.groups * self.partitions_of_group * self.writing / self.commit_interval_s

    @property
    def reads_per_s(self) -> float:
        """Leases and audits of members, and the pings of brokers and producers."""
        each = LEASE_RENEWALS / self.session_timeout_s + self._comparisons / AUDIT_INTERVAL_S
        pings = (self.brokers + self.producers) * PINGS / self.session_timeout_s
        return self.groups * self.members * each + pings

    @property
    def _comparisons(self) -> int:
        """How many registries a member compares: members, brokers, topics, and brokers and owners of each topic."""
        return 3 + 2 * self.topics_of_group

    def broker_goes(self) -> Requests:
        """Return what it costs one group that a broker goes: every member reads brokers and topics again.

        The same again when it comes back. The session's end is one transaction; what moves is claimed anew.
        """
        topics = self.topics_of_group
        before = _shares(self.brokers, self.partitions, self.members)
        after = _shares(self.brokers - 1, self.partitions, self.members)
        claimed = topics * sum(1 for where, member in after.items() if before[where] != member)
        released = topics * sum(1 for where, member in before.items() if after.get(where) != member)
        reading = 2 * self._comparisons + self.brokers * (1 + topics) + topics
        return Requests(
            writes=_CLOSE_SESSION + released + 2 * claimed + round(released * self.writing),
            reads=self.members * reading + released + 2 * claimed,
        )


@lru_cache(maxsize=32)
def _shares(brokers: int, partitions: int, members: int) -> dict[TopicPartition, str]:
    """Return the owner of each partition of a topic, as members work it out."""
    every = TopicPartition.all_of("topic", dict.fromkeys(range(brokers), partitions))
    shares = assign(every, [f"member-{number:06}" for number in range(members)])
    return {where: member for member, share in shares.items() for where in share}
