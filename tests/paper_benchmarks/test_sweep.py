"""What a sweep tries, and what its chapter says of the table of tuned settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from paper_benchmarks.experiments.sweep import chapter, groups
from paper_benchmarks.systems.kinds import KINDS
from paper_benchmarks.systems.tuned import SETTINGS


@pytest.mark.parametrize("name", ["kafka2011", "kafka", "rabbitmq-streams"])
def test_every_value_is_tried_by_a_client_that_knows_the_setting(name: str) -> None:
    """One setting at a time: the others have the values of the table."""
    found = [trial for group in groups([KINDS[name]]) for trial in group.trials]
    wanted = [
        (row.key, value) for several in SETTINGS.values() for row in several if row.kind == name for value in row.tried
    ]
    assert [(trial.setting.key, trial.value) for trial in found] == wanted
    for trial in found:
        assert trial.line.client in trial.setting.clients
        of_client, of_server = trial.settings()
        assert (of_server if trial.setting.of_server else of_client)[trial.setting.key] == trial.value


def test_producers_have_a_server_each_and_consumers_one_together() -> None:
    """A topic is filled once for all consumers; what producers send goes with their server."""
    found = list(groups([KINDS["kafka"]]))
    assert all(len(group.trials) == 1 for group in found[:-1])
    assert {trial.line.do for trial in found[-1].trials} == {"consume"}
    assert len({str(group) for group in found}) == len(found)


def test_a_value_that_is_better_than_the_table_is_marked() -> None:
    """By more than 5%, in the median, and only beside the same setting of the same client."""

    def line(value: object, rate: float, setting: str = "linger.ms", client: str = "lists") -> dict[str, Any]:
        facts = {"kind": "kafka", "do": "produce", "client": client, "line": client, "setting": setting, "value": value}
        return {**facts, "shipped": value == 5, "rate": [rate * 1e6], "cpu_us": [1.0]}

    [used] = [row.value for row in SETTINGS["produce"] if row.kind == "kafka" and row.key == "linger.ms"][:1]
    rows = chapter({"lines": [line(used, 1.0), line(5, 1.04), line(100, 1.06)]}, Path()).splitlines()[-3:]
    assert [row.rpartition(" | ")[2] for row in rows] == ["used |", " |", "**better** |"]
    assert "5 (ships)" in rows[1]
