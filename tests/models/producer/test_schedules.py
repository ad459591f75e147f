"""The producer keeps its promises whatever happens to brokers, and in whatever order its threads go on.

A failure names its seed; MODEL_SEED=... runs that one alone.
"""

from __future__ import annotations

import os
import random

from tests.models.depth import by_depth
from tests.models.producer.simulation import simulate_all

SCHEDULES = by_depth(200, 20_000)


def test_whatever_happens_every_promise_is_kept() -> None:
    """Sends end, once and in time; what is confirmed is there; order and bounds hold; nothing is left behind."""
    first = by_depth(0, random.SystemRandom().randrange(1 << 32))
    seeds = range(first, first + SCHEDULES)
    if "MODEL_SEED" in os.environ:
        seeds = range(int(os.environ["MODEL_SEED"]), int(os.environ["MODEL_SEED"]) + 1)
    turns = simulate_all(seeds)
    print(  # noqa: T201 (how far a deep run went)
        f"\nproducer: {len(seeds)} schedules, {turns} turns, seeds {seeds[0]} to {seeds[-1]}"
    )
