"""`kafka2011 load`: wrong calls, and options that are commands of their own now."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from kafka2011.cli import load
from kafka2011.cli.app import main
from kafka2011.metrics.loads import LoadProgress
from kafka2011.warehouse.loading.loader import Round
from tests.support.pipelines import TWO_ORIGINS
from zk.errors import ZkError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--topic", "views", "--whitelist", "v.*"),
        ("--topic", "views", "--interval", "5"),
        ("--rebuild", "--topic", "views"),
        ("--into", "again", "--topic", "views"),
        ("--rebuild", "--into", "again", "--topic", "views", "--topic", "clicks"),
        ("--rebuild", "--into", "again", "--topic", "views", "--from", "latest"),
        ("--rebuild", "--into", "again", "--topic", "views", "--from", '{"0:1": 5}'),
        ("--rebuild", "--into", "again", "--topic", "views", "--from", "[1]"),
        ("--rebuild", "--into", "again", "--topic", "views", "--audit", "warehouse"),
        ("--rebuild", "--into", "again", "--topic", "views", "--group", "loaded"),
        ("--rebuild", "--into", "views", "--topic", "views"),
    ],
)
def test_what_does_not_go_together_is_a_wrong_call(
    arguments: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Said before Spark is started, or anybody is asked."""
    assert main(["load", "--warehouse", str(tmp_path), "--zookeeper", "127.0.0.1:1", *arguments]) == 2
    assert capsys.readouterr().out == ""


def test_a_load_is_a_tier_of_the_declared_pipeline(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One of another name, or that does not count, could not be told from one that is silent."""
    path = tmp_path / "pipeline.toml"
    path.write_text(TWO_ORIGINS)
    call = [
        "load",
        "--warehouse",
        str(tmp_path),
        "--zookeeper",
        "127.0.0.1:1",
        "--topic",
        "views",
        "--pipeline",
        str(path),
    ]
    for tier in ((), ("--audit", "ware")):
        assert main([*call, *tier]) == 2
        assert f"{path} does not declare the tier of this load" in capsys.readouterr().err


def test_an_option_that_never_was_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    """As with every command."""
    assert main(["load", "--warehouse", "/nowhere", "--states"]) == 2
    assert "No such option '--states'" in capsys.readouterr().err


def run_rounds(rounds: list[Round | ZkError], interval_s: float | None) -> Round:
    """Run loads with these results, and stop after the last."""
    stop, coming = threading.Event(), iter(rounds)

    def run(_stopping: object) -> Round:
        result = next(coming)
        if result is rounds[-1]:
            stop.set()
        if isinstance(result, ZkError):
            raise result
        return result

    engine: Any = SimpleNamespace(progress=lambda: "")
    return load.run_loads(engine, cast("Any", SimpleNamespace(run=run)), stop, LoadProgress(), interval_s)


def test_a_load_that_follows_outlives_an_outage_while_topics_are_listed(caplog: pytest.LogCaptureFixture) -> None:
    """The warning comes once an outage."""
    outage, last = ZkError("no ZooKeeper answered"), Round()
    assert run_rounds([Round(), outage, outage, Round(), last], 0.0) is last
    warned = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert warned == ["the topics could not be listed, the next load is tried in 0 s: no ZooKeeper answered"]


@pytest.mark.parametrize("interval_s", [None, 0.0], ids=["once", "follow"])
def test_a_load_ends_if_topics_cannot_be_listed_at_the_start(interval_s: float | None) -> None:
    with pytest.raises(ZkError):
        run_rounds([ZkError("no ZooKeeper answered"), Round()], interval_s)
