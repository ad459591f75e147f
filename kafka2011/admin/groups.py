"""How far consumer groups have read, who owns what, and how their offsets are moved."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from kafka2011.admin.partitions import asking, fault_of_offset, offset_before
from kafka2011.admin.shifting import shifted
from kafka2011.admin.snapshot.cluster_reader import ClusterReader
from kafka2011.admin.snapshot.log_offsets import warn_of_brokers, with_log_offsets
from kafka2011.errors import KafkaError
from kafka2011.wire.protocol import EARLIEST, LATEST
from zk.brokers import BrokerRegistry
from zk.cluster import TopicPartition
from zk.consumers import ConsumerRegistry
from zk.errors import GroupInUse, MalformedNode
from zk.offsets import OffsetRegistry

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from kafka2011.admin.snapshot.cluster_snapshot import ClusterSnapshot, GroupPartition
    from kafka2011.consumer.simple_consumer import SimpleConsumer
    from zk.client import ZkClient
    from zk.cluster import Broker

logger = logging.getLogger(__name__)

_TIMES = {"earliest": EARLIEST, "latest": LATEST}
_LIKELY_MS = 10**11
"""From here on, a number that is in no log may be meant as a time: ms, 1973 or later."""


class MisplacedOffsetsError(KafkaError):
    """Means that offsets do not lie in their partitions; `faults` gives the reason for each. The text has the first."""

    def __init__(self, faults: Mapping[TopicPartition, str], hint: str = "") -> None:
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        super().__init__(f"{next(iter(faults.values()))}{more}{hint}")
        self.faults = faults


def describe_groups(reader: ClusterReader, names: Collection[str] | None = None) -> ClusterSnapshot:
    """Read groups, all of them by default, and where the partitions of their topics begin and end.

    The log says which brokers do not answer, and whose subscriptions cannot be read. Raises ZkUnavailable.
    """
    snapshot = with_log_offsets(reader.read_groups(names))
    warn_of_brokers(snapshot)
    for name, group in snapshot.groups.items():
        for member in group.malformed:
            subscription = group.members[member].subscription
            logger.warning("member %s of group %s: %.200r is not a subscription", member, name, subscription)
    return snapshot


class Groups:
    """What ZooKeeper and the brokers know of consumer groups. Every method raises ZkError when ZooKeeper is away."""

    def __init__(self, client: ZkClient) -> None:
        self._client = client
        self._brokers = BrokerRegistry(client)
        self._consumers = ConsumerRegistry(client)
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
        return describe_groups(ClusterReader(self._client), [group]).group_partitions(group)

    def problems(self, group: str) -> list[str]:
        """Say what keeps the group from having exactly one live owner for every partition; nothing if all is well."""
        return ClusterReader(self._client).read_groups([group], with_offsets=False).problems(group)

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
        return {where: committed.offset for where, committed in self._offsets.offsets(group, topic).items()}

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

    def _live_partitions(self, topic: str) -> list[TopicPartition]:
        return TopicPartition.all_of(topic, self._brokers.partitions_of(topic))

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
        resolved: dict[TopicPartition, int] = {}
        for broker, its in self._by_broker(partitions or live).items():
            with asking(broker) as consumer:
                resolved.update((where, resolve(consumer, where)) for where in its)
        return resolved

    def _by_broker(self, partitions: Collection[TopicPartition]) -> dict[Broker, list[TopicPartition]]:
        """Divide partitions among their brokers. Raises KafkaError when one of these is not registered."""
        brokers = self._brokers.brokers()
        by_broker: dict[Broker, list[TopicPartition]] = {}
        for where in sorted(partitions):
            if where.broker_id not in brokers:
                raise KafkaError(f"broker {where.broker_id} of {where} is not registered")
            by_broker.setdefault(brokers[where.broker_id], []).append(where)
        return by_broker

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
    is_time = isinstance(to, str) and to.startswith("@") and to[1:].isascii() and to[1:].isdigit()
    if to not in _TIMES and not is_time:
        raise KafkaError(f"{to!r} is not earliest, latest, @ and a time in ms since 1970, or an offset")
    return offset_before(consumer, where.topic, where.partition, _TIMES[to] if to in _TIMES else int(to[1:]))


def _raise_for(faults: Mapping[TopicPartition, str], to: int | str | None = None) -> None:
    if faults:
        hint = f" (a time in ms is written @{to})" if isinstance(to, int) and to >= _LIKELY_MS else ""
        raise MisplacedOffsetsError(faults, hint)
