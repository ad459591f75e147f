"""The command line's frame: overview, versions, errors and exit statuses."""

from __future__ import annotations

import importlib.metadata
import json
import re
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING

import click
import pytest

from kafka2011.cli import app
from kafka2011.errors import ConfigError, KafkaError
from kafka2011.message import runs

if TYPE_CHECKING:
    from collections.abc import Callable

CLIENT_COMMANDS = (
    "audit",
    "cluster",
    "consume",
    "dump_log",
    "fetch",
    "groups",
    "offsets",
    "ping",
    "produce",
    "registry",
    "topics",
    "zookeeper",
)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "kafka2011", *arguments], capture_output=True, text=True, timeout=60, check=False
    )


def modules_after(statement: str) -> set[str]:
    code = f"import sys\n{statement}\nprint(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    return set(done.stderr.split())


@pytest.fixture
def fail_with(monkeypatch: pytest.MonkeyPatch) -> Callable[[BaseException], None]:
    """Make every command raise an error."""

    def prepare(error: BaseException) -> None:
        def fail() -> None:
            raise error

        failing = click.Command("ping", callback=fail)
        monkeypatch.setattr(app.LazyGroup, "get_command", lambda self, ctx, name: failing)

    return prepare


def test_overview_names_every_command_without_importing_any() -> None:
    """`--help` is quick: it imports neither a command nor what commands need."""
    found = modules_after("from kafka2011.cli.app import main\nassert main(['--help']) == 0")
    assert not found & {"gevent", "kazoo", "pyspark", "rich", "kafka2011.config", "kafka2011.cli.ping", "zk.client"}
    shown = run("--help").stdout
    for name in app.cli.list_commands(click.Context(app.cli)):
        assert f"  {name} " in shown


@pytest.mark.parametrize("module", CLIENT_COMMANDS)
def test_client_commands_need_no_gevent_and_no_pyspark(module: str) -> None:
    """Only a broker runs on gevent, only Spark's own parts import PySpark."""
    found = modules_after(f"import kafka2011.cli.{module}")
    assert f"kafka2011.cli.{module}" in found
    assert not found & {"gevent", "pyspark"}


def test_overview_says_what_the_commands_say() -> None:
    """A command's line in the overview is the first line of its own help."""
    context = click.Context(app.cli)
    names = app.cli.list_commands(context)
    assert names == sorted(names)
    assert names
    for name in names:
        command = app.cli.get_command(context, name)
        assert command is not None
        assert (command.help or "").splitlines()[0] == app.COMMANDS[name]
        assert command.name == name


def test_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """`--version` tells the installed version, and what works on messages; KAFKA2011_PURE=1 chooses Python."""
    version = f"kafka2011 {importlib.metadata.version('kafka2011')}"
    done = run("--version")
    assert (done.returncode, done.stdout) == (0, f"{version} ({runs.chosen.DESCRIPTION})\n")
    monkeypatch.setenv("KAFKA2011_PURE", "1")
    assert run("--version").stdout == f"{version} (messages in Python)\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("pong",), "No such command 'pong'"),
        (("fetch",), "Missing argument 'TOPIC'"),
        (("fetch", "t", "--max-messages", "x"), "'x' is not a valid integer"),
        (("fetch", "t", "--partition", "x"), "'x' is not a partition"),
        (("fetch", "t", "--broker", "h:1", "--partition", "0-1"), "--partition 0-1 names a broker as --broker does"),
        (("fetch", "t", "--broker", "h:1", "--zookeeper", "h:2"), "--broker and --zookeeper exclude one another"),
        (("fetch", "t", "-f", "%k"), "messages of Kafka 0.7 have no keys"),
        (("fetch", "t", "-D", ""), "it is empty"),
        (("produce", "t", "--partition", "1"), "--partition needs --broker"),
        (
            ("produce", "t", "--property", "confirm=false"),
            "this command chooses confirm itself",
        ),
        (("produce", "t", "--property", "x=1"), "--property x=1: unknown setting 'x' of the producer"),
        (("produce", "t", "--property", "x"), "--property 'x' is not key=value"),
        (("fetch", "t", "--offset", "x"), "'x' is neither a number, earliest nor latest"),
        (("fetch", "t", "--json", "--follow"), "--follow has no end"),
        (("fetch", "t", "--broker", "nowhere"), "'nowhere' is not host:port"),
        (("produce", "t", "--key-regex", "("), "is not a regular expression"),
        (("produce", "t", "--key-regex", "x", "--partition", "1"), "--key-regex chooses partitions"),
        (("offsets", "t", "--time", "soon"), "'soon' is neither latest"),
        (("registry", "--zookeeper", "a b"), "'a b' is not host:port"),
        (("consume",), "give one of TOPIC, --topic"),
        (("consume", "t", "--topic", "t"), "give one of TOPIC, --topic"),
        (("replay", "t", "--to", "a:1", "--until", "5"), "--until 5: an offset belongs to one partition"),
        (("consume", "--topic", "t", "--from", "5"), "--from 5: an offset belongs to one partition"),
        (("consume", "--topic", "t", "--from", "soon"), "'soon' is not earliest, latest, an offset"),
        (("consume", "--topic", "t", "--last", "1", "--from-beginning"), "give one of --from-beginning, --from and"),
        (("consume", "--topic", "t", "--last", "1", "--group", "g"), "exclude --group"),
        (("consume", "--whitelist", "t", "--partition", "0-0"), "--partition and --last need --topic"),
        (("consume", "--topic", "t", "--property", "groupid=g"), "give --group instead"),
        (("consume", "--topic", "t", "--last", "1", "--audit", "live"), "--audit counts what a group reads"),
        (("audit", "--tiers", "producer,,live"), "'producer,,live' is not a list of different tiers"),
        (("audit", "--tiers", "live,live"), "'live,live' is not a list of different tiers"),
        (("audit", "--tiers", "live", "--pipeline", "p.toml"), "--tiers and --pipeline exclude one another"),
        (("audit", "--state", "audit.json"), "--state needs --pipeline or --tiers"),
        (("audit", "--pipeline", "/no/such/file"), "cannot read /no/such/file"),
        (("monitor", "--tiers", "live", "--pipeline", "p.toml"), "--tiers and --pipeline exclude one another"),
        (("audit", "--from", "soon"), "'soon' is not a time: an ISO 8601 time, 20:00"),
        (("groups", "reset", "--group", "g", "--topic", "t", "--to", "now"), "'now' is not earliest"),
        (("topics", "create", "t", "--brokers", "one"), "'one' is not a list of broker ids"),
        (("ping", "host"), "'host' is not host:port"),
        (("dump-log",), "Missing argument"),
        (("dump-log", "/no/such/file"), "does not exist"),
        (("cluster", "--override", "brokerid=1"), "the cluster chooses it"),
        (("cluster", "--override", "prot=1"), "unknown setting 'prot' of the broker"),
        (
            ("cluster", "--status", "--brokers", "2"),
            "--status and --brokers cannot be used together: --status takes --directory and no other option",
        ),
        (("cluster", "--status", "--directory", "/no/such"), "--directory /no/such: the directory does not exist"),
        (("broker", "--override", "port=x"), "--override port=x: port: 'x' is not a whole number"),
        (("broker", "/no/such/file"), "cannot read the settings in /no/such/file"),
        (("broker",), "brokerid must be given"),
    ],
)
def test_wrong_calls_are_one_line_and_status_2(
    arguments: tuple[str, ...],
    words: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A wrong call, settings included, says so in one line on standard error."""
    assert app.main(list(arguments)) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert words in captured.err
    assert captured.err.startswith("kafka2011")
    assert captured.err.count("\n") == 1


@pytest.mark.parametrize(
    ("error", "status", "line"),
    [
        (KafkaError("it\nbroke"), 1, "kafka2011: error: it broke"),
        (ConfigError("wrong"), 2, "kafka2011: error: wrong"),
        (OSError(13, "Permission denied", "/x"), 1, "kafka2011: error: /x: Permission denied"),
        (ZeroDivisionError("oops"), 1, "kafka2011: error: internal error: ZeroDivisionError: oops (try again"),
        (click.ClickException("no"), 1, "kafka2011: error: no"),
    ],
)
def test_failures_are_one_line(
    error: Exception,
    status: int,
    line: str,
    fail_with: Callable[[BaseException], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A failure is one line; with --debug a traceback comes before it."""
    fail_with(error)
    assert app.main(["ping"]) == status
    shown = capsys.readouterr().err
    assert shown.startswith(line)
    assert shown.count("\n") == 1
    assert app.main(["--debug", "ping"]) == status
    shown = capsys.readouterr().err
    assert shown.startswith("Traceback")
    assert line in shown


def test_coordination_errors_are_no_internal_errors(
    fail_with: Callable[[BaseException], None], capsys: pytest.CaptureFixture[str]
) -> None:
    """What the zk package raises is an error of the outside world like our own."""
    from zk.errors import NodeExists

    fail_with(NodeExists("/brokers/ids/1"))
    assert app.main(["ping"]) == 1
    assert capsys.readouterr().err == "kafka2011: error: /brokers/ids/1: exists already\n"


def test_ctrl_c_is_status_130_without_a_traceback(
    fail_with: Callable[[BaseException], None], capsys: pytest.CaptureFixture[str]
) -> None:
    """Ctrl-C ends a client command in silence."""
    fail_with(KeyboardInterrupt())
    assert app.main(["ping"]) == 130
    assert capsys.readouterr().err.strip() == ""


def test_exit_status_of_a_command_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a command returns is the status; nothing is 0."""
    for returned, status in ((None, 0), (0, 0), (1, 1)):
        command = click.Command("ping", callback=lambda returned=returned: returned)
        monkeypatch.setattr(app.LazyGroup, "get_command", lambda self, ctx, name, command=command: command)
        assert app.main(["ping"]) == status


def test_a_reader_that_goes_away_is_no_failure_of_ours() -> None:
    """Output into a closed pipe ends the command as SIGPIPE would, without a message."""
    code = (
        "import sys, click\n"
        "from kafka2011.cli import app\n"
        "many = click.Command('ping', callback=lambda: sys.stdout.writelines(['x' * 80] * 100000))\n"
        "app.LazyGroup.get_command = lambda self, ctx, name: many\n"
        "sys.exit(app.main(['ping']))\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(1)
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 141


@pytest.mark.parametrize("arguments", [(), ("schemas",), ("offsets",)])
def test_without_a_command_there_is_help(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """A group by itself shows its help as it is, and counts as called wrongly."""
    assert app.main(list(arguments)) == 2
    shown = capsys.readouterr().err
    assert shown.startswith(f"Usage: {' '.join(('kafka2011', *arguments))} ")
    assert "\nCommands:\n" in shown
    assert "error:" not in shown


def test_every_command_has_examples() -> None:
    """Each command's help ends with lines that can be copied, and that click can read."""
    pending: list[tuple[click.Command, click.Context]] = [(app.cli, click.Context(app.cli, info_name="kafka2011"))]
    while pending:
        command, context = pending.pop()
        if isinstance(command, click.Group):
            for name in command.list_commands(context):
                below = command.get_command(context, name)
                assert below is not None
                pending.append((below, click.Context(below, info_name=name, parent=context)))
            if not command.invoke_without_command:
                continue
        lines = (command.epilog or "").splitlines()
        assert lines[:2] == ["\b", "Examples:"], context.command_path
        options = {name for parameter in command.params for name in parameter.opts}
        for line in lines[2:]:
            _, program, rest = line.rpartition("kafka2011 ")
            words = shlex.split(rest)
            assert program
            assert f"kafka2011 {words[0]}" in context.command_path
            assert {word for word in words if re.match("--|-[a-zA-Z]", word)} <= options, line


def test_warnings_look_like_errors() -> None:
    """One line in plain words, without a date that nobody needs; servers have it."""
    code = "import logging\nfrom kafka2011.cli import logs\nlogs.configure(debug=False)\nlogging.warning('so')"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert shown.stderr == "kafka2011: warning: so\n"
    server = code.replace("logging.warning", "logs.log_progress_of_a_server()\nlogging.warning")
    shown = subprocess.run([sys.executable, "-c", server], capture_output=True, text=True, timeout=60, check=True)
    assert " WARNING root: so" in shown.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(shell: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is printed has the shell ask the command itself, which then names commands."""
    done = run("completion", shell)
    assert done.returncode == 0
    assert f"_KAFKA2011_COMPLETE={shell}_complete" in done.stdout
    monkeypatch.setenv("_KAFKA2011_COMPLETE", f"{shell}_complete")
    monkeypatch.setenv("COMP_WORDS", "kafka2011 sch" if shell != "fish" else "sch")
    monkeypatch.setenv("COMP_CWORD", "1" if shell != "fish" else "sch")
    assert "schemas" in run().stdout


def test_settings_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """Of one component, or of all: their names, defaults and meanings."""
    assert app.main(["settings", "broker"]) == 0
    shown = capsys.readouterr().out
    assert re.search(
        r"^broker +log\.retention\.hours +168 +KAFKA2011_LOG_RETENTION_HOURS +Segments", shown, re.MULTILINE
    )
    assert app.main(["settings", "--json"]) == 0
    assert {row["component"] for row in json.loads(capsys.readouterr().out)} == {
        "broker",
        "producer",
        "consumer",
        "gateway",
    }
