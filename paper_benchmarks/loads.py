"""How many messages keep a system busy for a second or two."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from paper_benchmarks.systems.kafka import OWN

if TYPE_CHECKING:
    from paper_benchmarks.systems.system import Kind


class Load(NamedTuple):
    """How many messages a line has: those that come in batches and are read, and those that come one by one."""

    many: int
    few: int


LOADS = {
    OWN: Load(1_000_000, 200_000),
    "rabbitmq": Load(50_000, 50_000),
    "activemq": Load(40_000, 40_000),
    "redis": Load(250_000, 20_000),
    "nats": Load(60_000, 60_000),
    "confluent": Load(1_000_000, 100_000),
}
"""As many of all would take some systems minutes, or be over at once in others."""


def load_of(kind: Kind) -> Load:
    """Return that of a kind."""
    return LOADS.get(kind.name, LOADS[OWN])
