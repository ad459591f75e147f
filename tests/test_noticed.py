"""Each defect of some files in tests/planted is noticed by the test that it names, and for the right reason."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.planted.patches import read_defects

ROOT = Path(__file__).parent.parent
TIMEOUT_S = 400
"""The longest takes half a minute on an idle machine."""

FILES = (
    "gateway_limits",
    "gateway_records",
    "lab",
    "order",
    "pipeline",
    "readers",
    "schemas",
    "source",
    "tables",
    "verdicts",
)

pytestmark = pytest.mark.timeout(TIMEOUT_S + 20)


@pytest.mark.slow
@pytest.mark.parametrize("file", FILES)
def test_each_defect_is_noticed_by_the_test_that_it_names(file: str) -> None:
    """The failure says what is wrong, and is no error on the way there. The same test passes without the defect."""
    defects = read_defects(file)
    run = [sys.executable, "-m", "tests.planted.noticing", file]
    done = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr
    tried = [json.loads(line) for line in done.stdout.splitlines()]
    assert [each["defect"] for each in tried] == list(defects)
    wrong = []
    for each in tried:
        shows = defects[each["defect"]].shows
        failures = [why for test, why in each["failures"].items() if test.startswith(shows["noticed_by"])]
        if not any(re.search(shows["says"], why) for why in failures):
            wrong.append(each)
    assert wrong == []


@pytest.mark.parametrize("file", FILES)
def test_who_fails_in_the_right_way_is_told_from_who_does_not(file: str) -> None:
    """Each defect says what its test's failure has to say: an empty pattern would fit any."""
    assert [name for name, defect in read_defects(file).items() if not defect.shows["says"]] == []
