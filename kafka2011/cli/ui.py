"""`kafka2011 ui`."""

from __future__ import annotations

import click

from kafka2011.cli.options import examples, zookeeper_option
from kafka2011.cli.session import open_session
from kafka2011.cli.stopping import stop_signals


@click.command(
    "ui",
    epilog=examples(
        "kafka2011 ui",
        "kafka2011 ui --zookeeper zk1:2181,zk2:2181/live --port 8080 --always-on",
    ),
)
@zookeeper_option
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    metavar="ADDRESS",
    help="The address to listen on. It has no users: whoever reaches it sees topics and messages.",
)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=2011, show_default=True, help="The port; 0 picks a free one."
)
@click.option(
    "--always-on",
    "is_always_on",
    is_flag=True,
    help="Follow members and owners even while no browser looks, to know in the morning what happened at night.",
)
@click.option(
    "--retention-hours",
    type=click.FloatRange(min=0, min_open=True),
    default=168.0,
    show_default=True,
    help="log.retention.hours of the brokers, which do not tell: where to draw the edge of retention.",
)
@click.option(
    "--name",
    "names",
    multiple=True,
    help="A name by which browsers ask for it, beside localhost and addresses; may be given many times.",
)
@click.option("--warehouse", default="", metavar="PATH", help="Show how far the tables of this warehouse are loaded.")
def command(
    zk_connect: str,
    host: str,
    port: int,
    is_always_on: bool,
    retention_hours: float,
    names: tuple[str, ...],
    warehouse: str,
) -> None:
    """Show the cluster to browsers, live, until Ctrl-C.

    It only reads: of ZooKeeper what a watch has told of, of brokers small answers, and without --always-on nothing at
    all while no browser looks. See docs/ui.md.
    """
    from kafka2011.ui.serving import serve

    with (
        stop_signals() as stop,
        open_session(zk_connect) as client,
        serve(
            client,
            host,
            port,
            is_always_on=is_always_on,
            retention_hours=retention_hours,
            warehouse=warehouse,
            names=names,
        ) as address,
    ):
        click.echo(f"the cluster is shown at {address}; Ctrl-C stops it")
        stop.wait()
