"""Planted defects are one change each to code that is there, and are planted only where they are named."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from integration.chaos import defects
from integration.chaos.account.messages import LOST
from integration.chaos.defects import PLANTINGS, announced, plant
from integration.chaos.planted import Outcome, find
from integration.chaos.schedule import FEWEST_KINDS, WEIGHTS, draw_schedule, swarm_of
from kafka2011.producer.confirmation_window import ConfirmationWindow
from tests.planted.patches import read_defects
from tests.planted.planting import planted

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("name", PLANTINGS)
def test_each_defect_can_be_planted(name: str) -> None:
    """What it changes still stands in the code, and stands there again afterwards."""
    with planted(read_defects("chaos")[name]):
        pass
    with planted(read_defects("chaos")[name]):
        pass


def test_each_patch_has_its_process_and_rules() -> None:
    """And the other way round."""
    assert PLANTINGS.keys() == read_defects("chaos").keys()


def test_ten_defects_of_three_kinds_of_processes() -> None:
    """Whoever has them, a rule names them."""
    assert sum(not planting.is_rare for planting in PLANTINGS.values()) >= 10
    assert {planting.process for planting in PLANTINGS.values()} == {"broker", "member", "producer"}
    assert all(planting.rules for planting in PLANTINGS.values())


def test_a_process_has_the_defect_of_its_kind_that_the_environment_names() -> None:
    """And none without a name."""
    code = ConfirmationWindow.lost.__code__
    plant("producer")
    with announced("what is sent again goes behind what is newer"):
        plant("broker")
        plant("member")
        assert ConfirmationWindow.lost.__code__ is code
        plant("producer")
        assert ConfirmationWindow.lost.__code__ is not code
    defects.planted_defects.close()
    assert ConfirmationWindow.lost.__code__ is code


def test_what_came_of_a_defect_is_not_tried_again(tmp_path: Path) -> None:
    """The file of an earlier run tells."""
    known = Outcome("it is late", LOST, 3, 2, 41, 120.0, 7, [])
    (tmp_path / "it-is-late.json").write_text(
        json.dumps({name: getattr(known, name) for name in Outcome.__dataclass_fields__})
    )
    assert find("it is late", tmp_path, lambda _: None) == known
    assert known.text == f"it is late: {LOST} (3 times), after 41 faults in 120 s of 2 runs"


def test_a_swarm_leaves_kinds_out() -> None:
    """The same ones each time for a seed, others for another; over some seeds each kind comes and is left out."""
    swarms = [swarm_of(seed) for seed in range(100)]
    assert swarms == [swarm_of(seed) for seed in range(100)]
    assert all(len(swarm) >= FEWEST_KINDS for swarm in swarms)
    for kind in WEIGHTS:
        assert 20 < sum(kind in swarm for swarm in swarms) < 80
    kinds = {fault.kind for fault in draw_schedule(3, 600, swarms[3])}
    assert kinds <= swarms[3].keys() != WEIGHTS.keys()
