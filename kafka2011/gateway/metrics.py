"""What a gateway tells Prometheus, read when it asks from what is counted anyway."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka2011.gateway.protocol.answer_codes import forbidden
from kafka2011.metrics.metric import counter, gauge

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafka2011.broker.connections.socket_server import SocketServer
    from kafka2011.broker.memory.memory_budget import MemoryBudget
    from kafka2011.gateway.cache_files import CacheFaults
    from kafka2011.gateway.requests.context import Gateway
    from kafka2011.metrics.metric import Metric, Samples

_BY_PARTITION = ("topic", "partition")

SERVING = gauge(
    "gateway_serving",
    "1 if it has a session in ZooKeeper, and it or another gateway serves brokers, as `/healthz` says; else 0.",
)
BROKERS = gauge("gateway_brokers", "Brokers whose partitions this gateway serves.")
GROUPS = gauge("gateway_groups", "Groups whose members of today's protocol go to this gateway.")
MEMBERS = gauge("gateway_group_members", "Members of these groups that speak today's protocol.")
CONNECTIONS = gauge("gateway_connections", "Connections of clients that are open.")
MEMORY_HELD = gauge("gateway_request_memory_held_bytes", "What requests hold of queued.max.bytes.")
REQUESTS = counter("gateway_requests", "Requests of clients, by the kind of request.", "api")
RECORDS_IN = counter("gateway_received_records", "Records that clients sent and that were well formed.")
BYTES_OUT = counter("gateway_record_bytes_sent", "Bytes of records that were sent to clients.")
INVALID = counter("gateway_invalid_batches", "Record batches that were refused, as the log says.")
FILE_FAILURES = counter(
    "gateway_file_failures", "Failed attempts to read or write a file in the gateway's directory; it serves without."
)
FORBIDDEN_CODES = counter(
    "gateway_forbidden_codes",
    "Error codes that were replaced, as not all clients survive them in this response. Each is a defect: report it.",
    "api",
    "code",
)
CLOSED = counter("gateway_connections_closed", "Connections that did not end as they should, by the reason.", "reason")
NUMBER_START = gauge("gateway_start_number", "The number of the first message that is kept.", *_BY_PARTITION)
NUMBER_END = gauge("gateway_end_number", "The number after the last message that can be read.", *_BY_PARTITION)
RESTARTED = gauge(
    "gateway_numbering_restarted",
    "How often the numbers of a partition began anew, as its log was not the same.",
    *_BY_PARTITION,
)

GATEWAY_METRICS: tuple[Metric, ...] = (
    SERVING,
    BROKERS,
    GROUPS,
    MEMBERS,
    CONNECTIONS,
    MEMORY_HELD,
    REQUESTS,
    RECORDS_IN,
    BYTES_OUT,
    INVALID,
    FILE_FAILURES,
    FORBIDDEN_CODES,
    CLOSED,
    NUMBER_START,
    NUMBER_END,
    RESTARTED,
)
"""All of them, in the order of the documentation."""

_REASONS = {
    "refused": "refused",
    "refused_per_address": "too_many_of_address",
    "refused_idle": "idle",
    "broken_connections": "broken",
    "handler_errors": "unexpected_error",
    "failed_handshakes": "no_tls",
}


def obstacle(gateway: Gateway | None) -> str | None:
    """Return why a gateway serves nothing; None if it serves."""
    if gateway is None:
        return "starting"
    if not gateway.catalogue.is_connected:
        return "not connected to ZooKeeper"
    if not gateway.served_brokers and not gateway.catalogue.claims:
        return "serves no broker, and no other gateway does: none is registered"
    return None


def gateway_samples(
    gateway: Gateway | None, sockets: SocketServer, memory: MemoryBudget, faults: CacheFaults
) -> Samples:
    """Return the numbers of all metrics now."""
    counts: Mapping[str, int] = sockets.counts
    samples: dict[Metric, dict[tuple[str, ...], float]] = {
        SERVING: {(): float(obstacle(gateway) is None)},
        BROKERS: {(): len(gateway.served_brokers) if gateway is not None else 0},
        GROUPS: {(): len(gateway.coordinator.groups) if gateway is not None else 0},
        MEMBERS: {(): len(gateway.coordinator.members()) if gateway is not None else 0},
        CONNECTIONS: {(): sockets.open_connections},
        MEMORY_HELD: {(): memory.held_bytes},
        REQUESTS: {
            (name.removeprefix("requests_"),): count for name, count in counts.items() if name.startswith("requests_")
        },
        RECORDS_IN: {(): counts.get("records_in", 0)},
        BYTES_OUT: {(): counts.get("record_bytes_out", 0)},
        INVALID: {(): counts.get("invalid_records", 0)},
        FILE_FAILURES: {(): faults.count},
        FORBIDDEN_CODES: {(api.name.lower(), str(int(code))): count for (api, code), count in forbidden.items()},
        CLOSED: {(reason,): counts.get(name, 0) for name, reason in _REASONS.items()},
        NUMBER_START: {},
        NUMBER_END: {},
        RESTARTED: {},
    }
    for log in [] if gateway is None else gateway.partitions.logs:
        known = log.known_index
        if known is not None:
            labels = (log.where.topic, str(log.number))
            samples[NUMBER_START][labels] = known.log_start().number
            samples[NUMBER_END][labels] = known.end.number
            samples[RESTARTED][labels] = known.generation
    return samples
