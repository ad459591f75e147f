"""How many brokers, cores and disks a flow of messages needs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from paper_benchmarks.capacity.costs import sent_bytes, stored_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from paper_benchmarks.capacity.costs import Costs

DAY_S = 86_400


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

    @property
    def peak_per_s(self) -> float:
        """Messages a second when it is busiest."""
        return self.mean_per_s * self.peak


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

    def brokers(self, machine: Machine) -> Mapping[str, int]:
        """Return how many brokers each of them needs; a cluster needs the most of these."""
        link_bytes_per_s = machine.link_bits_per_s / 8 * machine.share
        needed = {
            "processor": self.broker_cores / machine.share,
            "disk": self.kept_bytes / (machine.disk_bytes * machine.share),
            "network": max(self.in_bytes_per_s, self.out_bytes_per_s) / link_bytes_per_s,
        }
        return {name: max(math.ceil(value), 1) for name, value in needed.items()}


def need(flow: Flow, costs: Costs) -> Need:
    """Return what a flow asks of a cluster and its clients."""
    singly = flow.batch == 1
    produce_us = costs.broker_produce_single_us if singly else costs.broker_produce_us
    producer_us = costs.producer_single_us if singly else costs.producer_us
    message_bytes = stored_bytes(flow.payload_bytes)
    return Need(
        broker_cores=flow.peak_per_s * (produce_us + flow.readers * costs.broker_fetch_us) / 1e6,
        in_bytes_per_s=flow.peak_per_s * sent_bytes(flow.payload_bytes, flow.batch),
        out_bytes_per_s=flow.peak_per_s * message_bytes * flow.readers,
        kept_bytes=flow.messages_per_day * message_bytes * flow.retention_days,
        producer_cores=flow.peak_per_s * producer_us / 1e6,
        consumer_cores=flow.peak_per_s * costs.consumer_us * flow.readers / 1e6,
    )


def most_per_day(brokers: int, like: Flow, costs: Costs, machine: Machine) -> Mapping[str, float]:
    """Return how many messages a day so many brokers can take, by what bounds them."""
    asked = need(like, costs)
    link_bytes_per_s = machine.link_bits_per_s / 8
    room = {
        "processor": 1 / asked.broker_cores,
        "disk": machine.disk_bytes / asked.kept_bytes,
        "network": link_bytes_per_s / max(asked.in_bytes_per_s, asked.out_bytes_per_s),
    }
    return {name: each * brokers * machine.share * like.messages_per_day for name, each in room.items()}
