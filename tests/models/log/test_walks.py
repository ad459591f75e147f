"""Whatever happens to a broker, in a random order: appends, flushes, retention, stops, crashes and failing calls."""

from __future__ import annotations

import errno
import random
import secrets
from typing import TYPE_CHECKING

import pytest

from kafka2011.log.log_settings import LogSettings
from kafka2011.message.compression import Codec
from tests.models.depth import IS_DEEP, by_depth
from tests.models.log.disk import Survival
from tests.models.log.file_layer import Fault
from tests.models.log.life import TOPICS, Life
from tests.models.log.scenarios import DAY_MS

if TYPE_CHECKING:
    from pathlib import Path

STEPS = {
    "append": 8,
    "flush": 2,
    "flush_due": 1,
    "retain": 2,
    "stop": 1,
    "end": 1,
    "cut_power": 3,
    "fail": 2,
    "delete": 1,
    "grow": 1,
}
"""What happens, and how often."""

FIRST_SEED = secrets.randbelow(10**9) if IS_DEEP else 0
"""The unit tests repeat the same walks; a deep search takes new ones: the seed is in the name of the test."""


def some_survival(draw: random.Random) -> Survival:
    return Survival(draw.choice([0, 0.5, 1]), draw.choice([0, 0.5, 1]), draw.choice([0, 0.5, 1]), draw.randrange(1000))


def some_fault(draw: random.Random, at: int) -> Fault:
    error = draw.choice([errno.ENOSPC, errno.EMFILE, errno.EIO, None])
    return Fault(at, error, lasts=draw.random() < 0.5, short=error == errno.ENOSPC and draw.random() < 0.5)


def do(life: Life, step: str, draw: random.Random) -> None:
    topic = draw.choice(TOPICS)
    if step == "append":
        sizes = [draw.randrange(80) for _ in range(draw.randint(1, 4))]
        life.append(topic, *sizes, codec=draw.choice([Codec.NONE, Codec.NONE, Codec.GZIP, Codec.SNAPPY]))
    elif step == "flush":
        life.flush(topic)
    elif step == "flush_due":
        life.flush_due(draw.choice([0, 3000, DAY_MS + 1]))
    elif step == "retain":
        life.retain(draw.choice([0, DAY_MS, 11 * DAY_MS]))
    elif step == "stop":
        life.stop()
        life.start()
    elif step == "end":
        life.end()
        life.start()
    elif step == "delete":
        life.delete(topic)
    elif step == "grow":
        life.grow(topic, draw.randint(1, 4))
    elif life.layer.fault is None:
        life.layer.fault = some_fault(draw, len(life.layer.calls) + draw.randrange(30))


def cut_power(life: Life, draw: random.Random) -> Life:
    """Cut the power at some moment of one more step."""
    life.crashes.clear()
    life.notes_crashes = True
    do(life, draw.choice(["append", "flush", "retain", "stop", "delete", "grow"]), draw)
    crash = draw.choice([*life.crashes, life.crash_now()])
    life.end()
    begun = life.after(crash, some_survival(draw))
    begun.others_write = life.others_write
    begun.start()
    return begun


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + by_depth(50, 3000)))
def test_a_broker_keeps_its_promises_whatever_happens_in_any_order(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    settings = LogSettings(
        max_segment_bytes=draw.choice([100, 300]),
        flush_interval=draw.choice([1, 3, 1000]),
        retention_bytes=draw.choice([-1, 0, 150]),
        roll_ms=DAY_MS,
        retention_ms=10 * DAY_MS,
    )
    life = Life(tmp_path, settings)
    life.others_write = draw.random() < 0.3
    life.start()
    for step in draw.choices(list(STEPS), list(STEPS.values()), k=by_depth(20, 50)):
        if step == "cut_power":
            life = cut_power(life, draw)
        else:
            do(life, step, draw)
        life.tree()
    life.end()
