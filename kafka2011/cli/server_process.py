"""What commands that run a server share: options, signals and the exit status."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click
import gevent

from kafka2011.broker.process import run_server
from kafka2011.cli.app import EXIT_INTERRUPTED
from kafka2011.cli.service_manager import notify_ready
from kafka2011.cli.standard_streams import announce

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka2011.broker.process import ServerT

Command = TypeVar("Command", bound="Callable[..., int]")


def settings_options(metavar: str) -> Callable[[Command], Command]:
    """Give a command the arguments `file`, shown as `metavar`, and `overrides`, from which it reads its settings."""
    path = click.Path(dir_okay=False, path_type=Path)
    file = click.argument("file", type=path, required=False, metavar=f"[{metavar}]")
    overrides = click.option(
        "--override", "overrides", multiple=True, metavar="KEY=VALUE", help="One setting; may be given many times."
    )
    return lambda command: file(overrides(command))


def serve(new_server: Callable[[], ServerT], ready: Callable[[ServerT], object]) -> int:
    """Run a server until it is stopped, and return the exit status; print the line that `ready` makes once it serves.

    Raises KafkaError when it does not start.
    """

    def say_ready(server: ServerT) -> None:
        announce(str(ready(server)))
        notify_ready()

    interrupted: list[bool] = []
    gevent.signal_handler(signal.SIGINT, interrupted.append, True)
    status = run_server(new_server, say_ready)
    return EXIT_INTERRUPTED if interrupted and not status else status
