"""`kafka2011 cluster`."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from kafka2011.cli.background import Background
from kafka2011.cli.cluster_parts import ClusterParts, Part
from kafka2011.cli.options import examples, pairs_of
from kafka2011.cli.output import json_option, show_json, show_table
from kafka2011.cli.running import RunningOnce
from kafka2011.cli.standard_streams import announce
from kafka2011.cli.state import state_directory
from kafka2011.cli.stopping import stop_signals, wait_for_stop
from kafka2011.config import BrokerConfig
from kafka2011.local_cluster import LocalCluster

if TYPE_CHECKING:
    from collections.abc import Mapping

_NAME = "cluster"


@click.command(
    _NAME,
    epilog=examples(
        "kafka2011 cluster",
        "kafka2011 cluster --background",
        "kafka2011 cluster --status",
        "kafka2011 cluster --stop",
        "kafka2011 cluster --brokers 2 --replicas 2",
        "kafka2011 cluster --gateway",
        "kafka2011 cluster --brokers 1 --directory data --override num.partitions=4 --override log.flush.interval=1",
    ),
)
@click.option("--brokers", type=click.IntRange(1, 100), default=3, show_default=True, help="How many brokers.")
@click.option(
    "--replicas",
    type=click.IntRange(1, 10),
    default=1,
    show_default=True,
    help="The number of processes per broker, each with a copy of its logs.",
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
    help="The port of broker 0. The others use the next ports, or a free one if that is taken. 0 picks free ports.",
)
@click.option("--gateway", is_flag=True, help="Also run a gateway, for clients of Kafka 0.8 and later.")
@click.option(
    "--gateway-port",
    type=click.IntRange(0, 65535),
    default=9092,
    show_default=True,
    help="The gateway's port, or a free one if it is taken.",
)
@click.option(
    "--bind-address",
    default="127.0.0.1",
    show_default=True,
    metavar="ADDRESS",
    help="The address to listen on. With 0.0.0.0, every interface, also give --override hostname=NAME for clients.",
)
@click.option(
    "--directory",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where to keep logs and data. Default: a temporary directory, deleted at the end.",
)
@click.option(
    "--override",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    help="One setting of all brokers; may be given many times.",
)
@click.option(
    "--secure", is_flag=True, help="Listen over TLS only, with a password at ZooKeeper: see docs/how-to/security.md."
)
@click.option("--background", is_flag=True, help="Return once all are ready, and keep them running until --stop.")
@click.option("--stop", is_flag=True, help="Stop the cluster in the background, or the one in --directory.")
@click.option(
    "--status", is_flag=True, help="Show the parts of the cluster in the background, or of the one in --directory."
)
@click.option("--is-background", is_flag=True, hidden=True)
@json_option
@click.pass_context
def command(
    context: click.Context,
    brokers: int,
    replicas: int,
    zookeeper_port: int,
    first_port: int,
    gateway: bool,
    gateway_port: int,
    bind_address: str,
    directory: Path | None,
    overrides: tuple[str, ...],
    secure: bool,
    background: bool,
    stop: bool,
    status: bool,
    is_background: bool,
    as_json: bool,
) -> None:
    """Run a ZooKeeper and several brokers until Ctrl-C, or in the background.

    Everything listens on 127.0.0.1 unless you give --bind-address. The command prints the addresses, as text or JSON,
    once all are ready. A broker that crashes is restarted, unless it crashes repeatedly; with replicas, another replica
    takes over meanwhile. --status shows which parts run, and how often each was restarted.
    """
    place = Background((directory or state_directory()).absolute(), _NAME)
    if status:
        _check_alone(context, "status", "as_json")
        _show_status(Path(place.document()["directory"]) if directory is None else directory, as_json=as_json)
        return
    if stop:
        _check_alone(context, "stop")
        document = place.stop()
        click.echo(f"stopped the cluster of {document['zk.connect']}")
        return
    properties = pairs_of(overrides)
    _check(properties)
    if background:
        _start(place, context.params, as_json=as_json)
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
            gateway=gateway and (gateway_port or True),
        ) as cluster,
        _parts_of(cluster.directory).running() as tell_parts,
    ):
        parts = ClusterParts(cluster, lambda parts: tell_parts({"parts": [part.to_json() for part in parts]}))
        parts.look()
        if tell is not None:
            tell(_described(cluster))
        _show(_described(cluster), "Ctrl-C stops all of it", as_json=as_json)
        wait_for_stop(stopped, parts.look)


def _start(place: Background, options: Mapping[str, Any], *, as_json: bool) -> None:
    """Run this command with the same options in the background, and say what it says of itself once it is ready."""
    directory: Path | None = options["directory"]
    arguments = [f"--brokers={options['brokers']}", f"--replicas={options['replicas']}"]
    arguments += [f"--zookeeper-port={options['zookeeper_port']}", f"--port={options['first_port']}"]
    arguments += [f"--bind-address={options['bind_address']}"]
    arguments += [f"--directory={directory.absolute()}"] if directory is not None else []
    arguments += ["--gateway", f"--gateway-port={options['gateway_port']}"] if options["gateway"] else []
    arguments += ["--secure"] if options["secure"] else []
    arguments += [f"--override={override}" for override in options["overrides"]]
    document = place.start([_NAME, "--is-background", *arguments])
    end = "--stop" if directory is None else f"--stop --directory {directory}"
    _show(document, f"its own log is {place.log}; 'kafka2011 cluster {end}' stops all of it", as_json=as_json)


def _parts_of(directory: Path) -> RunningOnce:
    """Return where a cluster with this directory says what its parts are."""
    return RunningOnce(directory.absolute(), "cluster-parts", "cluster runs in")


def _show_status(directory: Path, *, as_json: bool) -> None:
    """Show the parts of a cluster that runs. Raises KafkaError if none runs there."""
    if not directory.is_dir():
        raise click.UsageError(f"--directory {directory}: the directory does not exist")
    parts = _parts_of(directory).document()["parts"]
    show_table(Part.COLUMNS, [[part[column] for column in Part.COLUMNS] for part in parts], as_json=as_json)


def _check_alone(context: click.Context, what: str, *also: str) -> None:
    """Raise UsageError for options that mean nothing beside --stop or --status."""
    for parameter in context.command.params:
        name = parameter.name or ""
        is_given = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if is_given and name not in {what, "directory", *also}:
            raise click.UsageError(
                f"--{what} and {parameter.opts[0]} cannot be used together: --{what} takes"
                f" --directory and no other option"
            )


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
    document = {"zk.connect": cluster.zk_connect, "directory": str(cluster.directory), "brokers": addresses}
    return document if cluster.gateway is None else {**document, "bootstrap.servers": cluster.bootstrap_servers}


def _show(document: dict[str, Any], how_to_stop: str, *, as_json: bool) -> None:
    if as_json:
        show_json(document)
        return
    announce(f"ZooKeeper  {document['zk.connect']}")
    for broker in document["brokers"]:
        announce(f"broker {broker['broker']}   {broker['address']}")
    if "bootstrap.servers" in document:
        announce(f"gateway    {document['bootstrap.servers']}")
    announce(f"logs in    {document['directory']}\nready; {how_to_stop}")
