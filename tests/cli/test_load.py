"""`kafka2011 load`: wrong calls, and options that are commands of their own now."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafka2011.cli.app import main
from tests.support.pipelines import TWO_ORIGINS

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
