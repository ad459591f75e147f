"""Commands that are not named, misspelt, or stand after an option of their own."""

from __future__ import annotations

import click
import pytest

from kafka2011.cli import app
from kafka2011.cli.command_group import CommandGroup

Called = list[tuple[str, str]]


@pytest.fixture
def called() -> Called:
    """Give what was called, with which ZooKeeper."""
    return []


@pytest.fixture
def group(called: Called) -> CommandGroup:
    group = CommandGroup("all", params=[click.Option(["--debug"], is_flag=True)], callback=lambda debug: None)
    topics = CommandGroup("topics", default="list")
    group.add_command(topics)
    for name in ("list", "create"):

        @topics.command(name)
        @click.option("--zookeeper", default="here")
        def command(zookeeper: str, name: str = name) -> None:
            called.append((name, zookeeper))

    group.add_command(click.Command("plain", callback=lambda: called.append(("plain", ""))))
    return group


@pytest.mark.parametrize(
    ("arguments", "call"),
    [
        (["topics"], ("list", "here")),
        (["topics", "--zookeeper", "z"], ("list", "z")),
        (["--zookeeper", "z", "topics"], ("list", "z")),
        (["--zookeeper=z", "topics", "create"], ("create", "z")),
        (["--debug", "--zookeeper", "z", "topics", "create"], ("create", "z")),
        (["topics", "--zookeeper", "z", "create"], ("create", "z")),
        (["topics", "create", "--zookeeper", "z"], ("create", "z")),
        (["--zookeeper", "y", "topics", "create", "--zookeeper", "z"], ("create", "z")),
    ],
)
def test_zookeeper_may_stand_anywhere(
    group: CommandGroup, called: Called, arguments: list[str], call: tuple[str, str]
) -> None:
    """It reaches the command that is meant."""
    group.main(arguments, standalone_mode=False)
    assert called == [call]


def test_a_command_without_a_zookeeper_takes_none(group: CommandGroup, called: Called) -> None:
    """It is not silently ignored."""
    with pytest.raises(click.NoSuchOption):
        group.main(["--zookeeper", "z", "plain"], standalone_mode=False)
    assert called == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("topcs",), "No such command 'topcs': did you mean 'topics'?"),
        (("consumer",), "did you mean 'consume'?"),
        (("topics", "lst"), "No such command 'lst': did you mean 'list'?"),
        (("groups", "rset"), "did you mean 'reset'?"),
        (("tables", "compct"), "did you mean 'compact'?"),
    ],
)
def test_a_misspelt_command_is_suggested(
    arguments: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """In every group."""
    assert app.main(arguments) == 2
    assert words in capsys.readouterr().err


def test_what_is_like_no_command_is_not_guessed(capsys: pytest.CaptureFixture[str]) -> None:
    """A wild guess would be worse than none."""
    assert app.main(["xyzzy"]) == 2
    assert "No such command 'xyzzy' (try" in capsys.readouterr().err
