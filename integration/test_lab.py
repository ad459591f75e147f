"""The lab with a real ZooKeeper, and with this project's own broker in the place of a student's."""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from kafka2011.lab import connection
from kafka2011.lab.grading import grade
from kafka2011.lab.stages import STAGES
from tests.support.students import OUR_BROKER, ROOT, SOLUTION, defects, go_program, python_program

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("number", [8, 9])
def test_a_right_member_passes(number: int, tmp_path: Path) -> None:
    """It joins, leaves and commits."""
    verdict = grade(python_program(tmp_path, SOLUTION), STAGES[number])
    assert verdict.passed, verdict.text()


@pytest.mark.parametrize("number", [8, 9])
def test_a_right_member_in_another_language_passes(number: int, tmp_path: Path) -> None:
    """It speaks to ZooKeeper with a client of its own."""
    if shutil.which("go") is None:
        pytest.skip("Go is not installed")
    verdict = grade(go_program(tmp_path / "mine"), STAGES[number])
    assert verdict.passed, verdict.text()


@pytest.mark.parametrize("name", ["a partition is taken from its owner", "commits have no version"])
def test_a_member_with_a_defect_fails_its_stage(name: str, tmp_path: Path) -> None:
    """proof/test_lab.py tries all others."""
    [defect] = [defect for defect in defects() if defect.name == name]
    assert not grade(python_program(tmp_path, defect.plant()), STAGES[defect.stage]).passed


@pytest.mark.parametrize("number", [5])
def test_our_own_broker_passes(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """proof/test_lab.py tries the other stages."""
    monkeypatch.setattr(connection, "CONNECT_TIMEOUT_S", 60.0)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    verdict = grade(OUR_BROKER, replace(STAGES[number], time_limit_s=120.0))
    assert verdict.passed, verdict.text()
