"""Commands that take their options from a file: one process does what several calls would, each a section of it.

[[collect]]
files = ["/var/log/nginx/*.log"]
topic = "access"
follow = true
"""

from __future__ import annotations

import difflib
import logging
import threading
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kafka2011.cli.output import counted
from kafka2011.cli.stopping import given_stop, hangups, stop_signals
from kafka2011.errors import ConfigError, KafkaError

if TYPE_CHECKING:
    from collections.abc import Mapping

logger = logging.getLogger(__name__)

_LOOK_S = 0.2
_CONFIG = "--config"

config_option = click.option(
    _CONFIG,
    type=click.Path(),
    expose_value=False,
    metavar="FILE",
    help="Take all options from a TOML file and run each of its sections. SIGHUP reads the file again.",
)


class SectionedCommand(click.Command):
    """A command that runs once, or, with --config FILE alone, as often as the file has sections of its name."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the arguments; with a file they are in its sections."""
        if not any(argument.partition("=")[0] == _CONFIG for argument in args):
            return super().parse_args(ctx, args)
        option, equals, path = args[0].partition("=")
        if not equals and len(args) > 1:
            path = args[1]
        if option != _CONFIG or not path or len(args) != (1 if equals else 2):
            raise click.UsageError(f"{_CONFIG} FILE excludes other options: put them into the file", ctx)
        ctx.params["config"] = Path(path)
        return []

    def invoke(self, ctx: click.Context) -> Any:
        """Run once, or each section."""
        path = ctx.params.get("config")
        return super().invoke(ctx) if path is None else self._run(ctx, path)

    def _run(self, ctx: click.Context, path: Path) -> None:
        """Run each section in a thread until all have ended; on SIGHUP the file is read again.

        What it no longer says is stopped, and then what is new begins. A section that fails does not end the others,
        but makes this fail in the end. Raises ConfigError when the file is no good at the start.
        """
        wanted = self._read(ctx, path)
        failed = 0
        with stop_signals() as stop, hangups() as hangup:
            running = {key: _Section(key, context) for key, context in wanted.items()}
            while running:
                if running.keys() <= wanted.keys():  # or a new one would find what it needs in use
                    for section in running.values():
                        section.start()
                stop.wait(_LOOK_S)
                if stop.is_set():
                    wanted = {}
                elif hangup.is_set():
                    hangup.clear()
                    again = self._read_again(ctx, path)
                    if again is not None:
                        wanted = again
                        running = {key: _Section(key, context) for key, context in wanted.items()} | running
                for key in running.keys() - wanted.keys():
                    running[key].stop()
                for section in [section for section in running.values() if section.has_ended]:
                    del running[section.key]
                    failed += section.has_failed
        if failed:
            raise KafkaError(f"{counted(failed, 'section')} of {path} failed: see above")

    def _read_again(self, ctx: click.Context, path: Path) -> dict[tuple[str, ...], click.Context] | None:
        try:
            wanted = self._read(ctx, path)
        except ConfigError as error:
            logger.error("%s: nothing is changed", error)  # noqa: TRY400
            return None
        logger.info("read %s again: %s", path, counted(len(wanted), "section"))
        return wanted

    def _read(self, ctx: click.Context, path: Path) -> dict[tuple[str, ...], click.Context]:
        """Return the arguments that each section stands for, and what they mean. Raises ConfigError."""
        name = self.name or ""
        try:
            document = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise ConfigError(f"cannot read {path}: {error.strerror}") from error
        except ValueError as error:
            raise ConfigError(f"{path} is not TOML: {error}") from error
        for key in document:
            if key != name:
                raise ConfigError(f"{path}: there are sections [[{name}]] only, no {key!r}")
        sections = document.get(name)
        if not isinstance(sections, list) or not sections or not all(isinstance(section, dict) for section in sections):
            raise ConfigError(f"{path} has no section [[{name}]]")
        contexts: dict[tuple[str, ...], click.Context] = {}
        for number, section in enumerate(sections, 1):
            where = f"{path}: [[{name}]] number {number}"
            arguments = self._arguments(section, where)
            if tuple(arguments) in contexts:
                raise ConfigError(f"{where} says the same as another one")
            try:
                context = self.make_context(ctx.info_name, list(arguments), ctx.parent)
            except click.UsageError as error:
                raise ConfigError(f"{where}: {error.format_message()}") from error
            contexts[tuple(arguments)] = context
        return contexts

    def _arguments(self, section: Mapping[str, object], where: str) -> list[str]:
        """Return what would stand on the command line. Raises ConfigError."""
        options: list[str] = []
        operands: list[str] = []
        known = {_key(parameter): parameter for parameter in self.params if parameter.expose_value}
        for key, value in section.items():
            parameter = known.get(key)
            if parameter is None:
                near = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
                hint = f": did you mean {near[0]}?" if near else ""
                raise ConfigError(f"{where}: unknown option {key!r}{hint}")
            is_flag = isinstance(parameter, click.Option) and parameter.is_flag
            if isinstance(value, bool) != is_flag:
                raise ConfigError(f"{where}: {key} is {'true or false' if is_flag else 'neither true nor false'}")
            if is_flag:
                options += (parameter.opts if value else parameter.secondary_opts)[:1]
                continue
            values = value if isinstance(value, list) else [value]
            if not all(isinstance(element, (str, int, float)) for element in values):
                raise ConfigError(f"{where}: {key} is not a text, a number or a list of these")
            if isinstance(parameter, click.Argument):
                operands += map(str, values)
            elif len(values) != 1 and not parameter.multiple:
                raise ConfigError(f"{where}: {key} is one value")
            else:
                options += (f"--{key}={element}" for element in values)
        return [*options, "--", *operands]


def _key(parameter: click.Parameter) -> str:
    """Return what a parameter is called in a file: an option as on the command line, without the dashes."""
    if isinstance(parameter, click.Argument):
        return parameter.name or ""
    return max(parameter.opts, key=len).lstrip("-")


class _Section:
    """A section that runs in a thread; its command's `stop_signals` is our event."""

    def __init__(self, key: tuple[str, ...], context: click.Context) -> None:
        self.key = key
        self.has_failed = False
        self._context = context
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=" ".join(key), daemon=True)

    @property
    def has_ended(self) -> bool:
        """Whether it runs no more, or never will."""
        return not self._thread.is_alive() and (self._thread.ident is not None or self._stop.is_set())

    def start(self) -> None:
        """Begin to run it. May be called twice."""
        if self._thread.ident is None:
            self._thread.start()

    def stop(self) -> None:
        """Let it end."""
        self._stop.set()

    def _run(self) -> None:
        given_stop.set(self._stop)
        try:
            with self._context:
                self._context.command.invoke(self._context)
        except Exception as error:
            self.has_failed = True
            text = error.format_message() if isinstance(error, click.ClickException) else str(error)
            if isinstance(error, (click.ClickException, KafkaError, OSError)):
                logger.error("%s: %s", " ".join(self.key), text)  # noqa: TRY400
            else:
                logger.exception("%s failed unexpectedly", " ".join(self.key))
