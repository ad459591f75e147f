"""`kafka2011 protect`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kafka2011.cli.options import examples, zookeeper_option
from kafka2011.cli.output import counted
from kafka2011.cli.session import open_session
from kafka2011.errors import ConfigError
from kafka2011.printable import printable
from zk.protection import look, protect, undo

if TYPE_CHECKING:
    from zk.protection import Protection

_NAMED = 20


@click.command(
    "protect",
    epilog=examples(
        "kafka2011 protect --dry-run --zookeeper 'zk1:2281/kafka?security=security.toml'",
        "kafka2011 protect --zookeeper 'zk1:2281/kafka?security=security.toml'",
    ),
)
@zookeeper_option
@click.option("--dry-run", is_flag=True, help="List these znodes, and change nothing.")
@click.option(
    "--shut-out-0.7", "shuts_out", is_flag=True, help="Go ahead although brokers or members have no password."
)
@click.option("--undo", "is_undone", is_flag=True, help="Open the user's znodes to everybody again.")
def command(zk_connect: str, dry_run: bool, shuts_out: bool, is_undone: bool) -> None:
    """Restrict open znodes to the user that --zookeeper names.

    Open znodes come from 0.7 clients and brokers, and from our own before they had a user. Afterwards only the user can
    change them. Brokers and members without a user, such as all of 0.7, could then neither commit nor register. While
    such a process is registered, the command changes nothing, unless you give --shut-out-0.7.
    """
    with open_session(zk_connect) as client:
        if client.default_acl is None:
            raise ConfigError(f"{zk_connect} names no user: it does by ?security=FILE, see docs/how-to/security.md")
        found = look(client)
        changed = found.closed_nodes if is_undone else found.open_nodes
        if not dry_run:
            if is_undone:
                undo(client, changed)
            else:
                _check_without_user(found, shuts_out=shuts_out)
                protect(client, changed)
        for path in changed:
            click.echo(printable(path))
        left = look(client)
    if dry_run and not is_undone and found.without_user:
        click.echo(f"these would be shut out: {_listed(found)}", err=True)
    open_nodes = len(left.open_nodes)
    click.echo(f"{counted(open_nodes, 'znode')} {'is' if open_nodes == 1 else 'are'} open to everybody", err=True)


def _check_without_user(found: Protection, *, shuts_out: bool) -> None:
    if found.without_user and not shuts_out:
        are = "is" if len(found.without_user) == 1 else "are"
        raise ConfigError(
            f"nothing was changed: {_listed(found)} {are} registered without this user, as all of Kafka 0.7, and would"
            " be shut out. Stop them or give them the password, or repeat it with --shut-out-0.7"
        )


def _listed(found: Protection) -> str:
    more = len(found.without_user) - _NAMED
    names = ", ".join(printable(path) for path in found.without_user[:_NAMED])
    return f"{names} and {more} more" if more > 0 else names
