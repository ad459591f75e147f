"""`kafka2011 cluster`."""

from __future__ import annotations

from pathlib import Path

import click

from kafka2011.cli.options import examples, pairs_of
from kafka2011.cli.output import json_option, show_json
from kafka2011.cli.stopping import stop_signals, wait_for_stop
from kafka2011.config import BrokerConfig
from kafka2011.errors import KafkaError
from kafka2011.local_cluster import LocalCluster


@click.command(
    "cluster",
    epilog=examples(
        "kafka2011 cluster",
        "kafka2011 cluster --brokers 1 --directory data --override num.partitions=4 --override log.flush.interval=1",
    ),
)
@click.option("--brokers", type=click.IntRange(1, 100), default=3, show_default=True, help="How many brokers.")
@click.option(
    "--zookeeper-port",
    type=click.IntRange(0, 65535),
    default=2181,
    show_default=True,
    help="ZooKeeper's port; 0 picks a free one.",
)
@click.option(
    "--port",
    "first_port",
    type=click.IntRange(0, 65535),
    default=6667,
    show_default=True,
    help="The port of broker 0; the others use those after it, or a free one where one is taken. 0 picks free ones.",
)
@click.option(
    "--directory",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where to keep logs and data. Default: a temporary directory, which goes at the end.",
)
@click.option(
    "--override",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    help="One setting of all brokers; may be given many times.",
)
@json_option
def command(
    brokers: int,
    zookeeper_port: int,
    first_port: int,
    directory: Path | None,
    overrides: tuple[str, ...],
    as_json: bool,
) -> None:
    """Run a ZooKeeper and several brokers until Ctrl-C.

    Everything listens on 127.0.0.1; clients find the brokers in ZooKeeper. Prints the addresses, as text or as a JSON
    object, once all of them are ready.
    """
    properties = pairs_of(overrides)
    _check(properties)
    with (
        stop_signals() as stop,
        LocalCluster(
            brokers,
            zookeeper_port=zookeeper_port,
            directory=directory,
            properties=properties,
            first_port=first_port,
        ) as cluster,
    ):
        _show(cluster, as_json=as_json)
        wait_for_stop(stop, lambda: _must_run(cluster))


def _check(properties: dict[str, str]) -> None:
    """Refuse settings here, rather than in the logs of processes that end at once. Raises ConfigError."""
    own = {"brokerid": "0", "log.dir": ".", "zk.connect": "localhost:2181"}
    for key in own:
        if key in properties:
            raise click.UsageError(f"--override {key}: the cluster chooses it for each broker")
    BrokerConfig.from_properties({**properties, **own}, "--override")


def _show(cluster: LocalCluster, *, as_json: bool) -> None:
    running = cluster.brokers.values()
    if as_json:
        addresses = [{"broker": each.broker_id, "address": f"{each.host}:{each.port}"} for each in running]
        show_json({"zk.connect": cluster.zk_connect, "directory": str(cluster.directory), "brokers": addresses})
        return
    click.echo(f"ZooKeeper  {cluster.zk_connect}")
    for broker in running:
        click.echo(f"broker {broker.broker_id}   {broker.host}:{broker.port}")
    click.echo(f"logs in    {cluster.directory}\nready; Ctrl-C stops all of it")


def _must_run(cluster: LocalCluster) -> None:
    for broker in cluster.brokers.values():
        if not broker.running:
            raise KafkaError(f"broker {broker.broker_id} ended by itself: see {broker.output_path}")
    if cluster.zookeeper is not None and not cluster.zookeeper.running:
        raise KafkaError(f"ZooKeeper on {cluster.zk_connect} ended by itself: see {cluster.zookeeper.log_path}")
