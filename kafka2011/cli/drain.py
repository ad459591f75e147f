"""`kafka2011 drain`."""

from __future__ import annotations

import click

from kafka2011.admin.draining import drain
from kafka2011.cli.options import examples, zookeeper_option
from kafka2011.cli.output import counted
from kafka2011.cli.session import open_session


@click.command("drain", epilog=examples("kafka2011 drain 0", "kafka2011 drain 0 --quiet-seconds 30"))
@click.argument("broker_id", type=click.IntRange(0), metavar="ID")
@click.option(
    "--quiet-seconds",
    type=click.FloatRange(0),
    default=10.0,
    show_default=True,
    help="How long no log may grow. Choose more than the queue.time of asynchronous producers and the flush interval.",
)
@click.option(
    "--timeout-seconds",
    type=click.FloatRange(0),
    default=120.0,
    show_default=True,
    help="Fail if logs still grow after this time.",
)
@zookeeper_option
def command(broker_id: int, quiet_seconds: float, timeout_seconds: float, zk_connect: str) -> None:
    """Deregister a broker, so that it can be stopped without losing messages of Kafka 0.7's producers.

    Such producers get no answers, and asynchronous ones queue messages for each broker: when a broker stops, some are
    lost. This removes its znodes while it runs. Producers that use ZooKeeper then send to other brokers, and consumers
    wait until the broker is registered again. The command waits until the broker's logs have stopped growing. Stop the
    broker afterwards; its next start registers it.
    """
    with open_session(zk_connect) as client:
        counts = drain(client, broker_id, quiet_s=quiet_seconds, timeout_s=timeout_seconds)
    click.echo(
        f"broker {broker_id} with {counted(len(counts), 'topic')} is deregistered, and its logs have not grown for"
        f" {quiet_seconds:g} s: stop it now"
    )
