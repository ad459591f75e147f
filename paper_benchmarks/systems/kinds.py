"""All kinds of servers that can be measured."""

from __future__ import annotations

from paper_benchmarks.systems import activemq, gateway, kafka, kafka2011, nats, rabbitmq, redis

KINDS = {
    kind.name: kind
    for kind in (
        kafka2011.KIND,
        kafka2011.PURE_KIND,
        gateway.KIND,
        kafka.KIND,
        rabbitmq.STREAMS,
        rabbitmq.KIND,
        activemq.KIND,
        redis.KIND,
        nats.KIND,
    )
}
"""By name, in the order of reports: ours first, then the logs, then the queues."""
