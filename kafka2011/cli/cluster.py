"""`kafka2011 cluster`."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from kafka2011.cli.background import Background
from kafka2011.cli.options import examples, pairs_of
from kafka2011.cli.output import json_option, show_json
from kafka2011.cli.restarts import Restarts
from kafka2011.cli.state import state_directory
from kafka2011.cli.stopping import stop_signals, wait_for_stop
from kafka2011.config import BrokerConfig
from kafka2011.errors import KafkaError
from kafka2011.local_cluster import LocalCluster
from zk.clock import SYSTEM_CLOCK

_NAME = "cluster"


@click.command(
    _NAME,
    epilog=examples(
        "kafka2011 cluster",
        "kafka2011 cluster --background",
        "kafka2011 cluster --stop",
        "kafka2011 cluster --brokers 2 --replicas 2",
        "kafka2011 cluster --brokers 1 --directory data --override num.partitions=4 --override log.flush.interval=1",
    ),
)
@click.option("--brokers", type=click.IntRange(1, 100), default=3, show_default=True, help="How many brokers.")
@click.option(
    "--replicas",
    type=click.IntRange(1, 10),
    default=1,
    show_default=True,
    help="How many processes each broker has, which hold the same logs.",
)
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
    "--bind-address",
    default="127.0.0.1",
    show_default=True,
    metavar="ADDRESS",
    help="Where all of it listens; 0.0.0.0 means everywhere, and then --override hostname=NAME is how clients find it.",
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
@click.option("--secure", is_flag=True, help="By TLS alone, with a password at ZooKeeper; see docs/security.md.")
@click.option("--background", is_flag=True, help="Return once all are ready, and let them go on until --stop.")
@click.option("--stop", is_flag=True, help="Stop what runs in the background; of --directory, if it was given one.")
@click.option("--is-background", is_flag=True, hidden=True)
@json_option
@click.pass_context
def command(
    context: click.Context,
    brokers: int,
    replicas: int,
    zookeeper_port: int,
    first_port: int,
    bind_address: str,
    directory: Path | None,
    overrides: tuple[str, ...],
    secure: bool,
    background: bool,
    stop: bool,
    is_background: bool,
    as_json: bool,
) -> None:
    """Run a ZooKeeper and several brokers until Ctrl-C, or in the background.

    Everything listens on 127.0.0.1, unless told otherwise; clients find the brokers in ZooKeeper. Prints the addresses,
    as text or as a JSON object, once all of them are ready. A broker that ends by itself is started again, unless it
    has ended again and again; with replicas, another one leads meanwhile.
    """
    place = Background((directory or state_directory()).absolute(), _NAME)
    if stop:
        _check_alone(context)
        document = place.stop()
        click.echo(f"stopped the cluster of {document['zk.connect']}")
        return
    properties = pairs_of(overrides)
    _check(properties)
    if background:
        arguments = [f"--brokers={brokers}", f"--zookeeper-port={zookeeper_port}", f"--port={first_port}"]
        arguments += [f"--bind-address={bind_address}"]
        arguments += [f"--directory={directory.absolute()}"] if directory is not None else []
        arguments += ["--secure"] if secure else []
        arguments += [f"--replicas={replicas}"] if replicas > 1 else []
        document = place.start(
            [_NAME, "--is-background", *arguments, *(f"--override={override}" for override in overrides)]
        )
        end = "--stop" if directory is None else f"--stop --directory {directory}"
        _show(document, f"its own log is {place.log}; 'kafka2011 cluster {end}' stops all of it", as_json=as_json)
        return
    with (
        stop_signals() as stopped,
        place.running() if is_background else contextlib.nullcontext() as tell,
        LocalCluster(
            brokers,
            zookeeper_port=zookeeper_port,
            directory=directory,
            properties=properties,
            first_port=first_port,
            bind_address=bind_address,
            secure=secure,
            replicas=replicas,
        ) as cluster,
    ):
        if tell is not None:
            tell(_described(cluster))
        _show(_described(cluster), "Ctrl-C stops all of it", as_json=as_json)
        restarts = Restarts()
        wait_for_stop(stopped, lambda: _keep_running(cluster, restarts))


def _check_alone(context: click.Context) -> None:
    """Raise UsageError for options that mean nothing beside --stop."""
    for parameter in context.command.params:
        name = parameter.name or ""
        if name not in {"stop", "directory"} and context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--stop goes with --directory only, not with {parameter.opts[0]}")


def _check(properties: dict[str, str]) -> None:
    """Refuse settings here, rather than in the logs of processes that end at once. Raises ConfigError."""
    own = {"brokerid": "0", "log.dir": ".", "zk.connect": "localhost:2181"}
    for key in own:
        if key in properties:
            raise click.UsageError(f"--override {key}: the cluster chooses it for each broker")
    BrokerConfig.from_properties({**properties, **own}, "--override")


def _described(cluster: LocalCluster) -> dict[str, Any]:
    addresses = [
        {"broker": process.broker_id, "address": f"{process.host}:{process.port}"} for process in cluster.processes
    ]
    return {"zk.connect": cluster.zk_connect, "directory": str(cluster.directory), "brokers": addresses}


def _show(document: dict[str, Any], how_to_stop: str, *, as_json: bool) -> None:
    if as_json:
        show_json(document)
        return
    click.echo(f"ZooKeeper  {document['zk.connect']}")
    for broker in document["brokers"]:
        click.echo(f"broker {broker['broker']}   {broker['address']}")
    click.echo(f"logs in    {document['directory']}\nready; {how_to_stop}")


def _keep_running(cluster: LocalCluster, restarts: Restarts) -> None:
    """Start again brokers that have ended. Raises KafkaError when one has ended too often, or ZooKeeper has."""
    for broker in cluster.processes:
        if broker.running:
            continue
        name = f"replica {broker.replica} of broker" if broker.replica else "broker"
        name = f"{name} {broker.broker_id}"
        pause_s = restarts.ended(name, SYSTEM_CLOCK.monotonic_s())
        if pause_s is None:
            raise KafkaError(f"{name} ended by itself, again and again: see {broker.output_path}")
        if pause_s == 0:
            click.echo(f"{name} ended by itself, and is started again: see {broker.output_path}", err=True)
            broker.launch()
            restarts.started(name)
    if cluster.zookeeper is not None and not cluster.zookeeper.running:
        raise KafkaError(f"ZooKeeper on {cluster.zk_connect} ended by itself: see {cluster.zookeeper.log_path}")
