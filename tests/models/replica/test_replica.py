"""Replicas keep their promises in walks of every kind, and a defect in their rules is noticed."""

from __future__ import annotations

import os
from collections import Counter

import pytest

from tests.models.depth import by_depth
from tests.models.replica.scenarios import SCENARIOS
from tests.models.replica.world import walk
from tests.planted.patches import Defect, read_defects
from tests.planted.planting import planted

WALKS = by_depth(400, 60_000)
WALKS_BACK = by_depth(60, 20_000)
AT_A_TIME = 100
MUST_HAPPEN = ("takeovers", "registrations", "expansions", "shrinks", "doubts", "confirmed", "cuts", "wiped disks")


@pytest.mark.parametrize("first", range(0, WALKS, AT_A_TIME))
def test_nothing_readable_changes_and_nothing_confirmed_is_lost(first: int) -> None:
    """Processes die, disks are wiped, power fails, messages are late, sessions end, answers of ZooKeeper are lost."""
    seed = os.environ.get("MODEL_SEED")
    seeds = range(first, first + AT_A_TIME) if seed is None else range(int(seed), int(seed) + 1)
    seen: Counter[str] = Counter()
    for each in seeds:
        seen += walk(each).counts
    assert seed is not None or all(seen[what] for what in MUST_HAPPEN), seen


@pytest.mark.parametrize("faults", [("copy",), ("end",), ("copy", "end")], ids=" and ".join)
def test_a_disk_that_goes_back_loses_nothing(faults: tuple[str, ...]) -> None:
    """It is put back to an earlier copy, or loses the end of what was fsynced, while another one in sync has all."""
    seen: Counter[str] = Counter()
    for seed in range(WALKS_BACK):
        seen += walk(seed, *faults).counts
    must = {"copy": "disks put back: something is missing", "end": "ends lost: something is missing"}
    assert all(seen[must[fault]] for fault in faults), seen
    assert seen["waits: its disk has gone back"] or "copy" not in faults, seen


@pytest.mark.parametrize("faults", [("delete",), ("delete", "copy")], ids=" and ".join)
def test_a_topic_that_is_deleted_stays_deleted(faults: tuple[str, ...]) -> None:
    """Each replica deletes it, also one that was away. A new topic of its name has nothing of it."""
    seen: Counter[str] = Counter()
    for seed in range(WALKS_BACK):
        seen += walk(seed, *faults).counts
    assert seen["topics deleted"], seen
    assert seen["logs deleted"], seen


def test_zookeeper_that_goes_back_loses_nothing() -> None:
    """What was readable stays whole on a disk, and the tool finds that disk."""
    seen: Counter[str] = Counter()
    for seed in range(WALKS_BACK):
        seen += walk(seed, "zookeeper").counts
    assert seen["ZooKeeper went back: an operator elects"], seen
    assert seen["waits: ZooKeeper has gone back"], seen


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_breaks_no_promise(name: str) -> None:
    """Each is an order of events that walks hardly ever take."""
    assert SCENARIOS[name]().counts["confirmed"]


@pytest.mark.parametrize("defect", read_defects("replica").values(), ids=lambda defect: defect.name)
def test_a_defect_is_noticed(defect: Defect) -> None:
    """A model that misses a known defect proves nothing."""
    with planted(defect), pytest.raises(AssertionError):
        _meet(defect.shows["meets"])


def _meet(walk_or_scenario: int | str) -> None:
    if isinstance(walk_or_scenario, str):
        SCENARIOS[walk_or_scenario]()
    else:
        walk(walk_or_scenario)
