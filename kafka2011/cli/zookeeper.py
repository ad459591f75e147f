"""`kafka2011 zookeeper`."""

from __future__ import annotations

from pathlib import Path

import click

from kafka2011.cli.options import examples
from kafka2011.cli.standard_streams import announce
from kafka2011.cli.stopping import stop_signals, wait_for_stop
from kafka2011.errors import KafkaError
from zk.local_zookeeper import LocalZooKeeper


@click.command(
    "zookeeper",
    epilog=examples(
        "kafka2011 zookeeper",
        "kafka2011 zookeeper --port 2182 --data-dir zookeeper",
    ),
)
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=2181, show_default=True, help="The port; 0 picks a free one."
)
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where to keep the data. Default: a temporary directory, deleted at the end.",
)
def command(host: str, port: int, data_dir: Path | None) -> None:
    """Run a local ZooKeeper server until Ctrl-C.

    It runs from the jars of Debian's libzookeeper-java or of PySpark, with a small heap, and allows sessions of one
    second. It is for trials on one machine.
    """
    with stop_signals() as stop, LocalZooKeeper(port, data_dir, host) as server:
        announce(f"ZooKeeper listens on {server.connect_string}; Ctrl-C stops it")
        wait_for_stop(stop, lambda: _must_run(server))


def _must_run(server: LocalZooKeeper) -> None:
    if not server.running:
        raise KafkaError(f"ZooKeeper on {server.connect_string} has stopped unexpectedly: see {server.log_path}")
