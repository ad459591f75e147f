"""`kafka2011 ui`."""

from __future__ import annotations

from pathlib import Path

import click

from kafka2011.cli.logs import log_progress_of_a_server
from kafka2011.cli.options import examples, zookeeper_option
from kafka2011.cli.session import open_session
from kafka2011.cli.standard_streams import announce
from kafka2011.cli.stopping import stop_signals
from zk.clock import SYSTEM_CLOCK

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command(
    "ui",
    epilog=examples(
        "kafka2011 ui",
        "kafka2011 ui --zookeeper zk1:2181,zk2:2181/live --port 8080 --always-on",
        "kafka2011 ui --host 0.0.0.0 --name console.example --tls-certificate ui.pem --tls-key ui.key --tls-ca ca.pem",
    ),
)
@zookeeper_option
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    metavar="ADDRESS",
    help="The address to listen on. Without --tls-ca, everyone who reaches it sees topics and messages.",
)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=2011, show_default=True, help="The port; 0 picks a free one."
)
@click.option(
    "--always-on",
    "is_always_on",
    is_flag=True,
    help="Follow members and owners also while no browser is open.",
)
@click.option(
    "--retention-hours",
    type=click.FloatRange(min=0, min_open=True),
    default=168.0,
    show_default=True,
    help="log.retention.hours of the brokers, for the edge of retention; the protocol does not report it.",
)
@click.option(
    "--name",
    "names",
    multiple=True,
    help="A name by which browsers reach the console, besides localhost and addresses; may be given many times.",
)
@click.option(
    "--tls-certificate",
    type=_FILE,
    help="Listen over TLS with this certificate, and those between it and its signer: PEM.",
)
@click.option("--tls-key", type=_FILE, help="The key of that certificate: PEM.")
@click.option(
    "--tls-ca", type=_FILE, help="Accept only browsers with a certificate that this authority has signed: PEM."
)
@click.option(
    "--allow-changes",
    is_flag=True,
    help="Let the page move the offsets of groups. On another address than this machine's it needs --tls-ca.",
)
@click.option(
    "--allow",
    "rules",
    type=_FILE,
    help="Show messages of a topic only to whom this file, the brokers' allow.file, lets consume it.",
)
@click.option("--warehouse", default="", metavar="PATH", help="Show how far the tables of this warehouse are loaded.")
def command(
    zk_connect: str,
    host: str,
    port: int,
    is_always_on: bool,
    retention_hours: float,
    names: tuple[str, ...],
    tls_certificate: Path | None,
    tls_key: Path | None,
    tls_ca: Path | None,
    allow_changes: bool,
    rules: Path | None,
    warehouse: str,
) -> None:
    """Serve the console, which shows the cluster in a browser, until Ctrl-C.

    Without --allow-changes it only reads. While no browser is open it sends no requests, unless you give --always-on.
    See docs/how-to/ui.md.
    """
    from kafka2011.broker.security.access import Access
    from kafka2011.broker.security.certificates import Certificates
    from kafka2011.ui.doors import Doors
    from kafka2011.ui.serving import serve

    if (tls_certificate is None) != (tls_key is None) or (tls_ca is not None and tls_certificate is None):
        raise click.UsageError("TLS needs --tls-certificate and --tls-key")
    certificates = None
    if tls_certificate is not None and tls_key is not None:
        certificates = Certificates(tls_certificate, tls_key, tls_ca, required=True, clock=SYSTEM_CLOCK)
    log_progress_of_a_server()

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
            doors=Doors(certificates, allow_changes, None if rules is None else Access(rules, SYSTEM_CLOCK)),
        ) as address,
    ):
        announce(f"the cluster is shown at {address}; Ctrl-C stops it")
        stop.wait()
