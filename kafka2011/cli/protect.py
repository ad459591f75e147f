"""`kafka2011 protect`."""

from __future__ import annotations

import click

from kafka2011.cli.options import examples, zookeeper_option
from kafka2011.cli.output import counted
from kafka2011.cli.session import open_session
from kafka2011.errors import ConfigError
from kafka2011.printable import printable
from zk.protection import find_open, protect


@click.command(
    "protect",
    epilog=examples(
        "kafka2011 protect --dry-run --zookeeper 'zk1:2281/kafka?security=security.toml'",
        "kafka2011 protect --zookeeper 'zk1:2281/kafka?security=security.toml'",
    ),
)
@zookeeper_option
@click.option("--dry-run", is_flag=True, help="Say which znodes those are, and change nothing.")
def command(zk_connect: str, dry_run: bool) -> None:
    """Give znodes that anybody may change to the user that --zookeeper names.

    Those are what clients and brokers of 0.7 made, and what ours made before they were given a user; new ones are
    made right. From then on nobody without the password changes them: stop 0.7's own processes first.
    """
    with open_session(zk_connect) as client:
        if client.default_acl is None:
            raise ConfigError(f"{zk_connect} names no user: it does by ?security=FILE, see docs/security.md")
        for path in find_open(client) if dry_run else protect(client):
            click.echo(printable(path))
        left = len(find_open(client))
    click.echo(f"{counted(left, 'znode')} {'is' if left == 1 else 'are'} open to everybody", err=True)
