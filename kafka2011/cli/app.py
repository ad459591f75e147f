"""The group of all commands, and what happens when one of them fails.

Exit status: 0 done, 1 failed, 2 called wrongly (settings included), 3 when `audit` cannot tell, 130 after Ctrl-C. An
error is one line on standard error; `--debug` adds the traceback.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import sys
import traceback
from typing import TYPE_CHECKING, Any

import click

from kafka2011.cli.command_group import CommandGroup
from kafka2011.cli.extras import missing_for
from kafka2011.cli.logs import configure
from kafka2011.cli.standard_streams import EXIT_BROKEN_PIPE, close_output, open_standard_streams
from kafka2011.cli.stopping import catch_interrupts
from kafka2011.errors import ConfigError, KafkaError

if TYPE_CHECKING:
    from collections.abc import Sequence

PROGRAM = "kafka2011"

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_CANNOT_TELL = 3
EXIT_INTERRUPTED = 130

COMMANDS = {
    "audit": "Compare what the tiers have counted, window by window, and fail if one lacks messages.",
    "broker": "Run a broker until it is stopped.",
    "certificates": "Make certificates, a password and access rules for your own cluster, as `cluster --secure` does.",
    "cluster": "Run a ZooKeeper and several brokers until Ctrl-C, or in the background.",
    "collect": "Publish the lines of files, standard input and a local socket, each at least once.",
    "completion": "Print a script that completes commands and options in your shell.",
    "consume": "Read topics as a member of a consumer group, and print each message on a line.",
    "demo": "Replay a log through a cluster with faults, and account for every line.",
    "doctor": "Find what is wrong with a cluster, and say what to do about it.",
    "drain": "Deregister a broker, so that it can be stopped without losing messages of Kafka 0.7's producers.",
    "dump-log": "Show the messages in segment files, and check them.",
    "export": "Turn segment files into Parquet files, without a broker.",
    "fetch": "Read partitions from an offset, without a group.",
    "gateway": "Let clients of Kafka 0.8 and later read and write the topics of a cluster, until stopped.",
    "generate": "Publish synthetic events of a social network.",
    "groups": "Show consumer groups: owner, committed offset, end and lag of every partition.",
    "lab": "Build your own broker in any language, stage by stage, and have it graded by its bytes.",
    "load": "Load new messages of topics into tables of a warehouse, each exactly once.",
    "mirror": "Copy topics of one or more clusters into another, continuously, until Ctrl-C.",
    "monitor": "Serve Prometheus the lag of all groups and the verdict of an audit, until Ctrl-C.",
    "offsets": "Show where a partition begins and ends; save and restore a group's offsets.",
    "perf": "Measure how fast a cluster appends and delivers messages.",
    "ping": "Check whether brokers answer requests.",
    "produce": "Publish lines, each as one message.",
    "protect": "Restrict open znodes to the user that --zookeeper names.",
    "registry": "Show what ZooKeeper knows of brokers, topics and consumers.",
    "replay": "Publish a topic's stored messages again, into another topic or cluster.",
    "replicas": "Show, create, elect and remove replicas of brokers.",
    "report": "Derive reports from loaded tables or from brokers, as Parquet files and one HTML page.",
    "schemas": "List, show, check, register and retire the schemas of events.",
    "settings": "Show the settings of brokers, producers, consumers and the gateway: name, default and meaning.",
    "tables": "Maintain tables of a warehouse: status, compaction, cleaning, swaps, rollbacks, quarantine.",
    "topics": "List, describe, create, grow and delete topics.",
    "ui": "Serve the console, which shows the cluster in a browser, until Ctrl-C.",
    "zookeeper": "Run a local ZooKeeper server until Ctrl-C.",
}
"""Every command with the first line of its help, so that the overview imports none of them."""


class LazyGroup(CommandGroup):
    """A group that imports a command's module when the command is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the names of all commands."""
        return [name for name in COMMANDS if importlib.util.find_spec(_module(name)) is not None]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import a command; None when there is none of that name."""
        if cmd_name not in COMMANDS:
            return None
        command = importlib.import_module(_module(cmd_name)).command
        assert isinstance(command, click.Command)
        catch_interrupts()
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; without a reader of its output, end with the status of SIGPIPE.

        Raises MissingExtraError where a package that it needs is not installed.
        """
        try:
            return super().invoke(ctx)
        except ImportError as error:
            missing = missing_for(ctx.invoked_subcommand or "", error)
            if missing is None:
                raise
            raise missing from error
        except BrokenPipeError:
            ctx.exit(EXIT_BROKEN_PIPE)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the overview without importing the commands."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name]) for name in self.list_commands(ctx)])


def _module(command: str) -> str:
    return f"kafka2011.cli.{command.replace('-', '_')}"


def _show_version(ctx: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        from kafka2011.message import runs

        click.echo(f"{PROGRAM} {importlib.metadata.version(PROGRAM)} ({runs.chosen.DESCRIPTION})")
        ctx.exit()


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--debug", is_flag=True, help="Log everything, and show a traceback with an error.")
@click.option(
    "--version", is_flag=True, expose_value=False, is_eager=True, callback=_show_version, help="Show the version."
)
def cli(debug: bool) -> None:
    """Run and use the messaging system of the 2011 Kafka paper.

    A command's --zookeeper may also stand before the command.
    """
    configure(debug=debug)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    debug = "--debug" in arguments
    try:
        result = cli.main(args=arguments, prog_name=PROGRAM, standalone_mode=False)
    except (click.Abort, KeyboardInterrupt):
        return EXIT_INTERRUPTED
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return EXIT_USAGE
    except Exception as error:  # noqa: BLE001  # the last resort: one line, whatever it was
        if debug:
            traceback.print_exc()
        click.echo(_one_line(error), err=True)
        return _exit_status(error)
    return result if isinstance(result, int) else EXIT_OK


def run_with_standard_streams(arguments: Sequence[str] | None = None) -> int:
    """Run one command in a process of its own, whatever became of its standard streams; return its exit status."""
    open_standard_streams()
    status = main(arguments)
    error = close_output()
    if error is None or status != EXIT_OK:
        return status
    if isinstance(error, BrokenPipeError):
        return EXIT_BROKEN_PIPE
    click.echo(_one_line(error), err=True)
    return EXIT_FAILED


def _exit_status(error: Exception) -> int:
    return EXIT_USAGE if isinstance(error, (click.UsageError, ConfigError)) else EXIT_FAILED


def _one_line(error: Exception) -> str:
    where = PROGRAM
    text = str(error)
    if isinstance(error, click.ClickException):
        text = error.format_message()
        context: Any = getattr(error, "ctx", None)
        if context is not None:
            where = context.command_path
            text += f" (try '{where} --help')"
    elif isinstance(error, OSError) and not isinstance(error, KafkaError):
        text = _os_error_text(error)
    elif not isinstance(error, KafkaError):
        text = f"internal error: {type(error).__name__}: {text} (try again with --debug)"
    return f"{where}: error: {' '.join(text.split())}"


def _os_error_text(error: OSError) -> str:
    """Return what failed and why, without the number of the error."""
    if error.strerror is None:
        return str(error)
    paths = " -> ".join(str(path) for path in (error.filename, error.filename2) if path is not None)
    return f"{paths}: {error.strerror}" if paths else error.strerror
