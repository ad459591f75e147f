"""All kinds of servers that can be measured."""

from __future__ import annotations

from paper_benchmarks.systems import activemq, confluent, kafka2011, nats, rabbitmq, redis

_MODULES = (kafka2011, rabbitmq, activemq, redis, nats, confluent)
KINDS = {each.KIND.name: each.KIND for each in _MODULES}
"""By name, in the order of reports: ours first."""
