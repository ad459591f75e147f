"""Draining a broker before it is stopped, so that producers of Kafka 0.7 lose nothing.

They get no answers, and asynchronous ones queue messages for each broker: when it stops, what is in the queue, and what
it has not read, is lost. So its znodes are removed while it runs. Producers that use ZooKeeper send to other brokers,
and the broker appends what is on its way. Consumers continue at the same offsets once the broker is registered again.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from kafka2011.consumer.simple_consumer import SimpleConsumer
from kafka2011.errors import KafkaError
from kafka2011.wire.protocol import LATEST
from zk.brokers import BrokerRegistry

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zk.client import ZkClient
    from zk.cluster import Broker

POLL_S = 0.5
_MOST_NAMED = 5


def drain(client: ZkClient, broker_id: int, *, quiet_s: float, timeout_s: float) -> Mapping[str, int]:
    """Deregister a broker and wait until none of its logs has grown for `quiet_s`; return its partitions by topic.

    Raises KafkaError if the broker is not registered or its logs still grow after `timeout_s`.
    """
    registry = BrokerRegistry(client)
    broker = registry.brokers().get(broker_id)
    if broker is None:
        raise KafkaError(f"broker {broker_id} is not registered")
    counts = registry.withdraw(broker_id)
    _await_quiet(broker, counts, quiet_s, timeout_s)
    return counts


def _await_quiet(broker: Broker, counts: Mapping[str, int], quiet_s: float, timeout_s: float) -> None:
    """Wait until the ends of all logs have stayed the same for `quiet_s`."""
    asked = [(topic, partition, LATEST, 1) for topic, count in counts.items() for partition in range(count)]
    with SimpleConsumer.of(broker) as consumer:
        ends = consumer.get_many_offsets_before(asked)
        began_s = changed_s = time.monotonic()
        while time.monotonic() < changed_s + quiet_s:
            time.sleep(POLL_S)
            before, ends = ends, consumer.get_many_offsets_before(asked)
            if before != ends:
                changed_s = time.monotonic()
                if changed_s > began_s + timeout_s:
                    pairs = zip(asked, before, ends, strict=True)
                    growing = sorted({where[0] for where, old, new in pairs if old != new})
                    raise KafkaError(
                        f"broker {broker.id} is deregistered, but logs still grow after {timeout_s:g} s:"
                        f" {', '.join(growing[:_MOST_NAMED])}. A producer sends to {broker.address} without ZooKeeper"
                    )
