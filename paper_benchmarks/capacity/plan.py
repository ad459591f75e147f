"""How many brokers, cores and disks a flow of messages needs, by what one message was measured to cost."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from paper_benchmarks.measuring.payloads import sent_bytes, stored_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping

DAY_S = 86_400
COSTS_US: Mapping[str, tuple[float, str]] = {
    "broker_produce": (2.27, "broker, a message taken in a batch of 50"),
    "broker_produce_single": (4.08, "broker, a message taken by itself"),
    "broker_fetch": (0.29, "broker, a message given to a consumer"),
    "producer": (0.47, "producer, a message in a batch of 50"),
    "producer_single": (4.96, "producer, a message by itself"),
    "consumer": (0.93, "consumer, a message by `batches()`"),
    "zk_write": (365.0, "ZooKeeper, a write"),
    "zk_read": (282.0, "ZooKeeper, a read"),
}
"""CPU time and what it is of, as measured before on two busy cores: what counts where there are no results."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """Messages of a day, and who reads each of them. `peak` is the busiest time's rate over the mean."""

    messages_per_day: float
    payload_bytes: int = 200
    batch: int = 50
    readers: int = 4
    """Groups that read everything, a mirror among them."""
    peak: float = 2.0
    retention_days: float = 7.0

    @property
    def mean_per_s(self) -> float:
        """Messages a second over the day."""
        return self.messages_per_day / DAY_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What one broker has, and what part of it may be planned with. A broker is one process, which uses one core."""

    link_bits_per_s: float = 1e9
    disk_bytes: float = 4e12
    share: float = 0.5


@dataclass(frozen=True, slots=True)
class Need:
    """What a flow asks of a cluster at its peak: cores wholly busy, bytes a second, bytes kept."""

    broker_cores: float
    in_bytes_per_s: float
    out_bytes_per_s: float
    kept_bytes: float
    producer_cores: float
    consumer_cores: float

    def machines(self, machine: Machine) -> dict[str, float]:
        """Return how many brokers each of them needs, not rounded; a cluster needs the most of these."""
        needed = {
            "processor": self.broker_cores,
            "disk": self.kept_bytes / machine.disk_bytes,
            "network": max(self.in_bytes_per_s, self.out_bytes_per_s) * 8 / machine.link_bits_per_s,
        }
        return {name: value / machine.share for name, value in needed.items()}

    def brokers(self, machine: Machine) -> dict[str, int]:
        """Return the same as whole brokers."""
        return {name: max(math.ceil(value), 1) for name, value in self.machines(machine).items()}


def need(flow: Flow, costs_us: Mapping[str, float]) -> Need:
    """Return what a flow asks of a cluster and its clients."""
    single = "_single" * (flow.batch == 1)
    message_bytes, peak_per_s = stored_bytes(flow.payload_bytes), flow.mean_per_s * flow.peak
    broker_us = costs_us[f"broker_produce{single}"] + flow.readers * costs_us["broker_fetch"]
    return Need(
        broker_cores=peak_per_s * broker_us / 1e6,
        in_bytes_per_s=peak_per_s * sent_bytes(flow.payload_bytes, flow.batch),
        out_bytes_per_s=peak_per_s * message_bytes * flow.readers,
        kept_bytes=flow.messages_per_day * message_bytes * flow.retention_days,
        producer_cores=peak_per_s * costs_us[f"producer{single}"] / 1e6,
        consumer_cores=peak_per_s * costs_us["consumer"] * flow.readers / 1e6,
    )


def most_per_day(brokers: int, like: Flow, costs_us: Mapping[str, float], machine: Machine) -> dict[str, float]:
    """Return how many messages a day so many brokers can take, by what bounds them."""
    each = need(like, costs_us).machines(machine)
    return {name: brokers * like.messages_per_day / value for name, value in each.items()}
