"""Commands whose options are in the sections of a file."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from typing import TYPE_CHECKING

import click
import pytest

from kafka2011.cli.collect import command as collect
from kafka2011.cli.load import command as load
from kafka2011.cli.mirror import command as mirror
from kafka2011.cli.sections import SectionedCommand, config_option
from kafka2011.cli.stopping import stop_signals
from kafka2011.errors import ConfigError, KafkaError
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Called:
    """A command that notes how it was called, and runs until it is stopped."""

    def __init__(self) -> None:
        self.running: list[tuple[str, ...]] = []
        self.ended: list[tuple[str, ...]] = []
        self.most = 0
        self.lasts_s = 0
        """How long it takes to end."""

        @click.command("work", cls=SectionedCommand)
        @click.argument("files", nargs=-1)
        @click.option("--topic", required=True)
        @click.option("--zookeeper", "zk_connect", default="here", envvar="SECTIONS_TEST_ZOOKEEPER")
        @click.option("--property", "properties", multiple=True)
        @click.option("--count", type=int, default=0)
        @click.option("--follow/--no-follow", default=True)
        @click.option("--deep", is_flag=True)
        @config_option
        def command(**options: object) -> None:
            call = tuple(f"{key}={value}" for key, value in sorted(options.items()) if value)
            if options["topic"] == "bad":
                raise KafkaError("no such thing")
            with stop_signals() as stop:
                self.running.append(call)
                self.most = max(self.most, len(self.running))
                while options["follow"] and not stop.wait(10):
                    pass
            time.sleep(self.lasts_s)
            self.running.remove(call)
            self.ended.append(call)

        self.command = command

    def main(self, *arguments: str) -> None:
        self.command.main(list(arguments), standalone_mode=False)

    @property
    def topics(self) -> list[str]:
        return sorted(each.removeprefix("topic=") for call in self.running for each in call if each[:6] == "topic=")


@pytest.fixture
def called() -> Called:
    return Called()


def meanwhile(*steps: Callable[[], object]) -> threading.Thread:
    """Do something in a thread while the command has this one, which signals need, and stop it then."""

    def run() -> None:
        try:
            for step in steps:
                step()
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def test_without_a_file_it_is_a_command_like_others(called: Called) -> None:
    """Options as they are given, once."""
    called.main("a", "--topic", "views", "--no-follow")
    assert called.ended == [("files=('a',)", "topic=views", "zk_connect=here")]


def test_each_section_is_a_call(called: Called, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With arguments, lists, numbers, flags and what the environment says; they run at once until SIGTERM."""
    monkeypatch.setenv("SECTIONS_TEST_ZOOKEEPER", "there")
    file = tmp_path / "file.toml"
    file.write_text(
        '[[work]]\nfiles = ["a", "-"]\ntopic = "views"\nproperty = ["x=1", "y=2"]\ncount = 3\ndeep = true\n'
        '[[work]]\ntopic = "-clicks"\nfollow = true\ndeep = false\n'
        '[[work]]\ntopic = "once"\nfollow = false\n'
    )
    thread = meanwhile(lambda: eventually(lambda: len(called.running) == 2 and called.ended))
    called.main("--config", str(file))
    thread.join()
    assert sorted(called.ended) == [
        (
            "count=3",
            "deep=True",
            "files=('a', '-')",
            "follow=True",
            "properties=('x=1', 'y=2')",
            "topic=views",
            "zk_connect=there",
        ),
        ("follow=True", "topic=-clicks", "zk_connect=there"),
        ("topic=once", "zk_connect=there"),
    ]


def test_it_ends_when_all_have_ended_and_tells_of_failures(
    called: Called, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One that fails does not end the others."""
    file = tmp_path / "file.toml"
    file.write_text('[[work]]\ntopic = "bad"\n[[work]]\ntopic = "once"\nfollow = false\n')
    with pytest.raises(KafkaError, match=f"1 section of {file} failed"):
        called.main(f"--config={file}")
    assert len(called.ended) == 1
    assert "--topic=bad --: no such thing" in caplog.text


def test_sighup_reads_the_file_again(called: Called, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What stayed goes on, what is gone ends, what is new begins; a file that is no good changes nothing."""
    caplog.set_level(logging.INFO)
    file = tmp_path / "file.toml"
    file.write_text('[[work]]\ntopic = "a"\n[[work]]\ntopic = "b"\n')

    def change(text: str) -> None:
        file.write_text(text)
        os.kill(os.getpid(), signal.SIGHUP)

    thread = meanwhile(
        lambda: eventually(lambda: called.topics == ["a", "b"]),
        lambda: change('[[work]]\ntopic = "b"\n[[work]]\ntopic = "c"\n[[work]]\ntopic = "d"\n'),
        lambda: eventually(lambda: called.topics == ["b", "c", "d"]),
        lambda: change('[[work]]\ntopik = "b"\n'),
        lambda: eventually(lambda: "nothing is changed" in caplog.text),
        lambda: change('[[work]]\ntopic = "c"\n'),
        lambda: eventually(lambda: called.topics == ["c"]),
    )
    called.main("--config", str(file))
    thread.join()
    assert [call[1] for call in called.ended[:1]] == ["topic=a"]
    assert len(called.ended) == 4


def test_what_is_new_begins_after_what_is_gone_has_ended(called: Called, tmp_path: Path) -> None:
    """They may be the same but for one option, and use the same files."""
    file = tmp_path / "file.toml"
    file.write_text('[[work]]\ntopic = "a"\n')
    called.lasts_s = 1

    def change() -> None:
        file.write_text('[[work]]\ntopic = "a"\ncount = 1\n')
        os.kill(os.getpid(), signal.SIGHUP)

    thread = meanwhile(
        lambda: eventually(lambda: called.topics == ["a"]),
        change,
        lambda: eventually(lambda: any("count=1" in call for call in called.running)),
    )
    called.main("--config", str(file))
    thread.join()
    assert called.most == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[[work]]\ntopik = "a"\n', r"\[\[work\]\] number 1: unknown option 'topik': did you mean topic\?"),
        ('[[work]]\nconfig = "a"\n', "unknown option 'config'"),
        ('[[work]]\ntopic = "a"\n[[work]]\n', r"number 2: Missing option '--topic'"),
        ('[[work]]\ntopic = "a"\ncount = "many"\n', "'many' is not a valid integer"),
        ('[[work]]\ntopic = "a"\nfollow = 1\n', "follow is true or false"),
        ("[[work]]\ntopic = true\n", "topic is neither true nor false"),
        ('[[work]]\ntopic = ["a", "b"]\n', "topic is one value"),
        ("[[work]]\ntopic = {a = 1}\n", "topic is not a text, a number or a list of these"),
        ('[[work]]\ntopic = "a"\n[[work]]\ntopic = "a"\n', "number 2 says the same as another one"),
        ('[[worker]]\ntopic = "a"\n', r"there are sections \[\[work\]\] only, no 'worker'"),
        ('[work]\ntopic = "a"\n', r"has no section \[\[work\]\]"),
        ("", r"has no section \[\[work\]\]"),
        ("[[", "is not TOML"),
    ],
)
def test_a_wrong_file_is_refused(called: Called, tmp_path: Path, text: str, words: str) -> None:
    """With the section, and the option that was meant perhaps, before anything runs."""
    file = tmp_path / "file.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=words):
        called.main("--config", str(file))
    assert called.running == called.ended == []


def test_a_file_that_is_not_there_is_told(called: Called, tmp_path: Path) -> None:
    """By its path."""
    with pytest.raises(ConfigError, match=f"cannot read {tmp_path}/none: No such file"):
        called.main("--config", str(tmp_path / "none"))


@pytest.mark.parametrize(
    "arguments", [("--topic", "a", "--config", "f"), ("--config",), ("--config=",), ("x", "--config=f")]
)
def test_a_file_goes_alone(called: Called, arguments: tuple[str, ...]) -> None:
    """Other options would be silently ignored."""
    with pytest.raises(click.UsageError, match="excludes other options"):
        called.main(*arguments)


@pytest.mark.parametrize("command", [collect, load, mirror], ids=["collect", "load", "mirror"])
def test_commands_that_take_a_file(command: SectionedCommand, tmp_path: Path) -> None:
    """They have all their options there."""
    file = tmp_path / "file.toml"
    file.write_text(f'[[{command.name}]]\nno-such-option = "a"\n')
    with pytest.raises(ConfigError, match="unknown option 'no-such-option'"):
        command.main(["--config", str(file)], standalone_mode=False)
