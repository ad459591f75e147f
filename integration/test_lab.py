"""The lab with a real ZooKeeper, and with this project's own broker in the place of a student's."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import urllib.request
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from kafka2011.lab import connection
from kafka2011.lab.grading import grade
from kafka2011.lab.stages import STAGES
from tests.support.students import OUR_BROKER, ROOT, SOLUTION, defects, go_program, python_program
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("number", [8, 9, 11])
def test_a_right_member_passes(number: int, tmp_path: Path) -> None:
    """It joins, leaves and commits."""
    verdict = grade(python_program(tmp_path, SOLUTION), STAGES[number])
    assert verdict.passed, verdict.text()


@pytest.mark.parametrize("number", [8, 9, 11])
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


def test_a_student_s_broker_is_shown_beside_ours(tmp_path: Path) -> None:
    """`lab show` prints the address of a page, and a command by which kcat reads from both brokers."""
    program = python_program(tmp_path, SOLUTION)
    settings = f"command = {json.dumps(list(program.command))}"
    (tmp_path / "lab.toml").write_text(settings, encoding="utf-8")
    command = [sys.executable, "-m", "kafka2011", "lab", "show", "--folder", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            page, kcat = next(process.stdout), next(process.stdout)
            address = page.split()[5].rstrip(".")
            with urllib.request.urlopen(address, timeout=10) as answer:
                assert b"kafka2011" in answer.read()
            if shutil.which("kcat") is not None:
                words = [*kcat.split(": ", 1)[1].split(), "-e", "-q"]
                eventually(lambda: _lines(words) == {b"yours", b"ours"}, what="messages of both brokers")
        finally:
            process.terminate()
    assert process.returncode == 0


def _lines(command: list[str]) -> set[bytes]:
    """Return whose messages kcat reads."""
    done = subprocess.run(command, capture_output=True, timeout=30, check=False)
    return {line.split(b",")[0] for line in done.stdout.splitlines()}


@pytest.mark.parametrize("number", [5])
def test_our_own_broker_passes(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """proof/test_lab.py tries the other stages."""
    monkeypatch.setattr(connection, "CONNECT_TIMEOUT_S", 60.0)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    verdict = grade(OUR_BROKER, replace(STAGES[number], time_limit_s=120.0))
    assert verdict.passed, verdict.text()
