"""Which faults can explain what: those that concerned the processes and links in question at that time. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from integration.chaos.evidence import Evidence, Happened

AFTERMATH_S = 12.0
"""How long a fault works after its end: sessions run out, connections time out, parts come back at intervals."""
CLOCK_STEPS = "clock steps"
_NO_FAULTS = {"join", "leave", "topic born", "bit flip", CLOCK_STEPS}


def at(evidence: Evidence, begin_s: float, end_s: float) -> Iterator[Happened]:
    """Yield the faults that were at work in this time; what only moves partitions or a wall clock explains nothing."""
    return (each for each in _all_at(evidence, begin_s, end_s) if each.fault.kind not in _NO_FAULTS)


def refusing_certificates(evidence: Evidence, begin_s: float, end_s: float) -> Iterator[Happened]:
    """Yield what made peers refuse each other's certificates in this time: over TLS, a wall clock that was off."""
    if evidence.is_secure:
        yield from (each for each in _all_at(evidence, begin_s, end_s) if each.fault.kind == CLOCK_STEPS)


def _all_at(evidence: Evidence, begin_s: float, end_s: float) -> Iterator[Happened]:
    for happened in evidence.happened:
        if happened.whom and happened.begun_s <= end_s and begin_s <= happened.ended_s + AFTERMATH_S:
            yield happened


def of_broker(faults: Iterable[Happened], broker_id: int) -> Happened | None:
    """Return one that a broker, or the way to it, suffered."""
    names = {f"broker-{broker_id}", f"clients to broker-{broker_id}"}
    return next((each for each in faults if names.intersection(each.whom)), None)


def of_any_broker(faults: Iterable[Happened]) -> Happened | None:
    """Return one that some broker, or the way to it, suffered."""
    return next((each for each in faults if any("broker-" in name for name in each.whom)), None)


def of_process(faults: Iterable[Happened], name: str) -> Happened | None:
    """Return one that a process suffered itself."""
    return next((each for each in faults if name in each.whom), None)


def of_gateway(faults: Iterable[Happened]) -> Happened | None:
    """Return one that a gateway suffered, or its session: another one may have taken over."""
    return next(
        (each for each in faults if any(name.startswith(("gateway-", "zookeeper-")) for name in each.whom)), None
    )


def of_session(faults: Iterable[Happened], client: str) -> Happened | None:
    """Return one that a client's session can have suffered from: the client's own, its links', or ZooKeeper's."""
    for each in faults:
        for name in each.whom:
            if name == client or name.startswith((f"{client} to zookeeper-", "zookeeper-")):
                return each
    return None
