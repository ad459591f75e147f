"""Waiting for brokers to carry out what they are requested in ZooKeeper."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from zk.requests import RequestRegistry

REQUEST_TIMEOUT_S = 60.0
"""The time that a living broker has. It may finish later: to remove a terabyte takes some minutes."""
POLL_S = 0.05


def await_requests(
    requests: RequestRegistry, topic: str, broker_ids: Collection[int], timeout_s: float, *, withdraw: bool = True
) -> dict[int, str | None]:
    """Wait for brokers to carry out their requests with a topic; None for each that has, else why it has not.

    A request that takes longer is withdrawn: what is requested now is not to happen later, when nobody expects it.
    Without `withdraw` it stays.
    """
    outcomes: dict[int, str | None] = {}
    deadline_s = time.monotonic() + timeout_s
    while True:
        is_late = time.monotonic() > deadline_s
        for number in broker_ids:
            if number in outcomes:
                continue
            placed = requests.placed(number).get(topic)
            if placed is None:
                outcomes[number] = None
            elif placed.refusal is not None or is_late:
                if placed.refusal is not None or withdraw:
                    requests.done(number, topic, placed.version)
                outcomes[number] = placed.refusal or (
                    f"has not said within {timeout_s:g} s that it is done, see its log; the request"
                    f" {'is withdrawn' if withdraw else 'stays'}"
                )
        if len(outcomes) == len(broker_ids):
            return outcomes
        time.sleep(POLL_S)
