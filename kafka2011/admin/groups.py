"""How far consumer groups have read, who owns what, and moving their offsets."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafka2011.admin.partitions import asking, ends_of_many, fault_of_offset, offset_before
from kafka2011.admin.shifting import shifted
from kafka2011.consumer.topic_count import MalformedSubscriptionError, TopicCount
from kafka2011.errors import KafkaError
from kafka2011.wire.protocol import EARLIEST, LATEST
from zk.brokers import BrokerRegistry
from zk.cluster import TopicPartition
from zk.consumers import ConsumerRegistry
from zk.errors import GroupInUse, MalformedNode
from zk.offsets import OffsetRegistry
from zk.owners import OwnerRegistry

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from kafka2011.consumer.simple_consumer import SimpleConsumer
    from zk.client import ZkClient
    from zk.cluster import Broker

logger = logging.getLogger(__name__)

_TIMES = {"earliest": EARLIEST, "latest": LATEST}
_LIKELY_MS = 10**11
"""From here on, a number that is in no log may be meant as a time: ms, 1973 or later."""


class MisplacedOffsetsError(KafkaError):
    """Offsets do not belong where they should go; `faults` says why for each partition. The text has the first."""

    def __init__(self, faults: Mapping[TopicPartition, str], hint: str = "") -> None:
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        super().__init__(f"{next(iter(faults.values()))}{more}{hint}")
        self.faults = faults


@dataclass(frozen=True, slots=True)
class GroupPartition:
    """One partition as a group sees it. None: nobody, nothing committed, or no broker that answers."""

    where: TopicPartition
    owner: str | None
    committed: int | None
    end: int | None

    @property
    def lag_bytes(self) -> int | None:
        """How much is flushed and not committed as consumed, in bytes of the log."""
        return None if self.committed is None or self.end is None else self.end - self.committed


class Groups:
    """What ZooKeeper and the brokers know of consumer groups. Every method raises ZkError when ZooKeeper is away."""

    def __init__(self, client: ZkClient) -> None:
        self._brokers = BrokerRegistry(client)
        self._consumers = ConsumerRegistry(client)
        self._owners = OwnerRegistry(client)
        self._offsets = OffsetRegistry(client)

    def names(self) -> list[str]:
        """List all groups that ever were."""
        return self._consumers.groups()

    def topics(self, group: str) -> list[str]:
        """List the topics for which a group has offsets."""
        return self._offsets.topics(group)

    def members(self, group: str) -> dict[str, str]:
        """Return the live members of a group, with the text of their subscriptions."""
        return self._consumers.subscriptions(group)

    def describe(self, group: str) -> list[GroupPartition]:
        """Return every partition that the group subscribes to, owns or has an offset of. Raises KafkaError: unknown."""
        self._check_exists(group)
        brokers = self._brokers.brokers()
        found: list[GroupPartition] = []
        for topic in self._topics(group):
            live = set(self._live_partitions(topic))
            owners = self._owners.owners(group, topic)
            offsets = self._offsets.offsets(group, topic)
            partitions = sorted(live | owners.keys() | offsets.keys())
            ends = self._ends(live, brokers)
            for where in partitions:
                owner = owners.get(where)
                committed = offsets.get(where)
                found.append(
                    GroupPartition(
                        where,
                        owner.stream_id if owner else None,
                        committed.offset if committed else None,
                        ends.get(where),
                    )
                )
        return found

    def problems(self, group: str) -> list[str]:
        """Say what keeps the group from having exactly one live owner for every partition; nothing if all is well."""
        self._check_exists(group)
        members = self.members(group)
        subscribed = self._subscribed(members)
        if not members:
            return [f"group {group} has no members"]
        found: list[str] = []
        for topic in sorted(subscribed):
            live = set(self._live_partitions(topic))
            owners = self._owners.owners(group, topic)
            found += [f"{where} has no owner" for where in sorted(live - owners.keys())]
            for where, owner in owners.items():
                if where not in live:
                    found.append(f"{where} is owned by {owner.stream_id}, but no broker has it")
                elif owner.stream_id.rpartition("-")[0] not in members:
                    found.append(f"{where} is owned by {owner.stream_id}, which is no member")
        return found

    def reset(
        self,
        group: str,
        topic: str,
        to: int | str,
        partitions: Collection[TopicPartition] = (),
        *,
        dry_run: bool = False,
    ) -> dict[TopicPartition, int]:
        """Move a group's offsets of a topic, or some of its partitions, and return them.

        `to` is `earliest`, `latest`, `@` and a time in ms, or an offset at which a message starts. With `dry_run`
        nothing is written. Raises GroupInUse while the group has members, MisplacedOffsetsError for an offset that is
        not in a partition, and KafkaError when a broker does not answer.
        """
        faults: dict[TopicPartition, str] = {}

        def resolve(consumer: SimpleConsumer, where: TopicPartition) -> int:
            if isinstance(to, int) and (fault := fault_of_offset(consumer, where.topic, where.partition, to)):
                faults[where] = fault
            return _resolved(consumer, where, to)

        moved = self._resolve_each(group, topic, partitions, resolve)
        _raise_for(faults, to)
        if not dry_run:
            self._offsets.import_group(group, moved)
        return moved

    def shift(
        self,
        group: str,
        topic: str,
        messages: int,
        partitions: Collection[TopicPartition] = (),
        *,
        dry_run: bool = False,
    ) -> dict[TopicPartition, int]:
        """Move a group's offsets of a topic by so many messages, back if negative, and return them.

        No further than a partition goes; a compressed set counts as one. All partitions of which the group has an
        offset, unless some are named. Raises as `reset` does, and KafkaError where there is no offset to move from.
        """
        committed = self.committed(group, topic)
        lacking = sorted(set(partitions) - committed.keys()) if committed else [topic]
        if lacking:
            raise KafkaError(f"group {group} has no offset of {lacking[0]} to move from")
        moved = self._resolve_each(
            group, topic, partitions or committed, lambda consumer, w: shifted(consumer, w, committed[w], messages)
        )
        if not dry_run:
            self._offsets.import_group(group, moved)
        return moved

    def committed(self, group: str, topic: str) -> dict[TopicPartition, int]:
        """Return the offsets that a group has of a topic; none for an unknown group."""
        return {where: found.offset for where, found in self._offsets.offsets(group, topic).items()}

    def export_offsets(self, group: str) -> dict[str, dict[str, int]]:
        """Return all offsets of a group: topic to `{broker}-{partition}` to offset."""
        self._check_exists(group)
        exported: dict[str, dict[str, int]] = {}
        for where, offset in self._offsets.export_group(group).items():
            exported.setdefault(where.topic, {})[where.znode_name] = offset
        return exported

    def import_offsets(
        self, group: str, offsets: Mapping[str, Mapping[str, int]], *, check: bool = False, dry_run: bool = False
    ) -> int:
        """Write offsets as `export_offsets` returns them; say how many. Raises GroupInUse while it has members.

        With `check` they must lie in partitions of living brokers, else KafkaError; with `dry_run` nothing is written.
        """
        self._check_unused(group)
        try:
            parsed = {
                TopicPartition.from_znode_name(topic, name): int(offset)
                for topic, of_topic in offsets.items()
                for name, offset in of_topic.items()
            }
        except (AttributeError, TypeError, ValueError, MalformedNode) as error:
            raise KafkaError(f"not a group's offsets, topic to partition to offset: {error}") from error
        if check:
            self._check_offsets(parsed)
        if not dry_run:
            self._offsets.import_group(group, parsed)
        return len(parsed)

    def delete(self, group: str) -> None:
        """Remove a group with its offsets. Raises GroupInUse while it has members."""
        self._consumers.delete_group(group)

    def _check_exists(self, group: str) -> None:
        if group not in self.names():
            raise KafkaError(f"there is no group {group}")

    def _check_unused(self, group: str) -> None:
        members = self.members(group)
        if members:
            raise GroupInUse(group, sorted(members))

    def _topics(self, group: str) -> list[str]:
        known = {*self._offsets.topics(group), *self._owners.topics(group)}
        return sorted(known | self._subscribed(self.members(group)))

    def _subscribed(self, members: Mapping[str, str]) -> set[str]:
        topics: set[str] = set()
        for member, text in members.items():
            try:
                topics.update(TopicCount.parse(text).topics(self._brokers.topics()))
            except MalformedSubscriptionError as error:
                logger.warning("member %s: %s", member, error)
        return topics

    def _live_partitions(self, topic: str) -> list[TopicPartition]:
        return TopicPartition.all_of(topic, self._brokers.partitions_of(topic))

    def _ends(self, partitions: set[TopicPartition], brokers: Mapping[int, Broker]) -> dict[TopicPartition, int]:
        ends: dict[TopicPartition, int] = {}
        for broker_id in sorted({where.broker_id for where in partitions} & brokers.keys()):
            its = sorted(where for where in partitions if where.broker_id == broker_id)
            try:
                with asking(brokers[broker_id]) as consumer:
                    asked = ends_of_many(consumer, [(where.topic, where.partition) for where in its])
                    for where, (_, end) in zip(its, asked, strict=True):
                        ends[where] = end
            except KafkaError as error:
                logger.warning("broker %d does not answer for the ends of %s: %s", broker_id, its[0].topic, error)
        return ends

    def _resolve_each(
        self,
        group: str,
        topic: str,
        partitions: Collection[TopicPartition],
        resolve: Callable[[SimpleConsumer, TopicPartition], int],
    ) -> dict[TopicPartition, int]:
        """Ask the brokers of partitions, or of all that a topic has, where a group is to go on."""
        self._check_unused(group)
        live = self._live_partitions(topic)
        if not live:
            raise KafkaError(f"topic {topic} has no partitions on living brokers")
        missing = sorted(set(partitions) - set(live))
        if missing:
            raise KafkaError(f"{missing[0]} is not registered; there are {', '.join(map(str, live))}")
        found: dict[TopicPartition, int] = {}
        for broker, its in self._by_broker(partitions or live).items():
            with asking(broker) as consumer:
                found.update((where, resolve(consumer, where)) for where in its)
        return found

    def _by_broker(self, partitions: Collection[TopicPartition]) -> dict[Broker, list[TopicPartition]]:
        """Divide partitions among their brokers. Raises KafkaError when one of these is not registered."""
        brokers = self._brokers.brokers()
        found: dict[Broker, list[TopicPartition]] = {}
        for where in sorted(partitions):
            if where.broker_id not in brokers:
                raise KafkaError(f"broker {where.broker_id} of {where} is not registered")
            found.setdefault(brokers[where.broker_id], []).append(where)
        return found

    def _check_offsets(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Raise MisplacedOffsetsError unless all these partitions are registered and hold these offsets."""
        topics = sorted({where.topic for where in offsets})
        live = {where for topic in topics for where in self._live_partitions(topic)}
        faults = {where: f"{where} is not registered" for where in sorted(offsets.keys() - live)}
        for broker, its in self._by_broker(offsets.keys() & live).items():
            with asking(broker) as consumer:
                for where in its:
                    if fault := fault_of_offset(consumer, where.topic, where.partition, offsets[where]):
                        faults[where] = fault
        _raise_for(faults)


def _resolved(consumer: SimpleConsumer, where: TopicPartition, to: int | str) -> int:
    """Return the offset that a word, a time or an offset means in a partition. Raises KafkaError."""
    if isinstance(to, int):
        return to
    if to not in _TIMES and not (to.startswith("@") and to[1:].isascii() and to[1:].isdigit()):
        raise KafkaError(f"{to!r} is not earliest, latest, @ and a time in ms since 1970, or an offset")
    return offset_before(consumer, where.topic, where.partition, _TIMES[to] if to in _TIMES else int(to[1:]))


def _raise_for(faults: Mapping[TopicPartition, str], to: int | str | None = None) -> None:
    if faults:
        hint = f" (a time in ms is written @{to})" if isinstance(to, int) and to >= _LIKELY_MS else ""
        raise MisplacedOffsetsError(faults, hint)
