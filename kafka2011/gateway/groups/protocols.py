"""The assignment protocols that clients name when they join a group, and which of them the gateway can serve.

The gateway assigns partitions itself and writes assignments without user data. An assignor that needs user data of its
own (Kafka Streams, Faust) would fail at such an assignment, so only members with a protocol that is known may join.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from zk.gateway_members import GatewayMember

RULE = "range"
"""The protocol of a group whose members are all of 0.7: the paper's rule is Kafka's of this name."""

KNOWN = frozenset(
    (
        *(RULE, "roundrobin", "sticky", "cooperative-sticky"),  # Java, librdkafka, kafka-python, franz-go, Sarama
        *("RoundRobinAssigner", "DefaultAssignmentStrategy"),  # KafkaJS; no-kafka
        "rack-affinity",  # kafka-go
        *("roundrobin_v2", "callback_implemented"),  # brod
        *("assign", "standard", "group"),  # KafkaEx; old ruby-kafka; kafka-php
    )
)
"""Protocols whose members read plain lists of partitions."""


def choose(protocols: Sequence[dict[str, Any]], more: Collection[str]) -> dict[str, Any] | None:
    """Return the first protocol of a member that is known, or named in `more`; None without one."""
    return next((protocol for protocol in protocols if protocol["name"] in KNOWN or protocol["name"] in more), None)


def protocol_of(clients: Iterable[GatewayMember | None]) -> str:
    """Return the protocol of a group: that of most of today's clients among its members, RULE without any."""
    names = Counter(client.protocol for client in clients if client is not None and client.protocol)
    return min(names, key=lambda name: (-names[name], name), default=RULE)
