"""All kinds of servers that can be measured."""

from __future__ import annotations

from paper_benchmarks.systems import activemq, confluent, kafka, nats, rabbitmq, redis

KINDS = {kind.name: kind for kind in (kafka.KIND, rabbitmq.KIND, activemq.KIND, redis.KIND, nats.KIND, confluent.KIND)}
"""By name, in the order of reports: ours first."""
