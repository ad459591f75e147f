"""`kafka2011 certificates`."""

from __future__ import annotations

from pathlib import Path

import click

from kafka2011 import local_security
from kafka2011.certificates import Authority
from kafka2011.cli.options import examples


@click.command(
    "certificates",
    epilog=examples(
        "kafka2011 certificates --directory security --host broker-1 --host zookeeper-1 --host 127.0.0.1",
        "kafka2011 certificates --directory security --host zk-1 --host zk-2 --host zk-3 --deploy machines",
        "kafka2011 certificates --directory security --client reports",
    ),
)
@click.option(
    "--directory",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="The directory of the certificates.",
)
@click.option("--host", "hosts", multiple=True, help="A name or address of a server; may be given many times.")
@click.option("--client", "clients", multiple=True, help="A client's principal; may be given many times.")
@click.option(
    "--deploy",
    "target",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIRECTORY",
    help="Create a directory here for each --host, ready to copy to its machine.",
)
@click.option(
    "--place",
    type=click.Path(path_type=Path),
    default=Path("/etc/kafka2011"),
    show_default=True,
    help="The path of that directory on its machine.",
)
def command(
    directory: Path, hosts: tuple[str, ...], clients: tuple[str, ...], target: Path | None, place: Path
) -> None:
    """Make certificates, a password and access rules for your own cluster, as `cluster --secure` does.

    With --host, the command creates new certificates for ZooKeeper and brokers that are valid for these hosts, and an
    authority, a security file and an allow file if the directory lacks them. With --client, it creates a certificate
    for each client. It needs OpenSSL. It prints the files that clients use.

    With --deploy, each host also gets its own directory: certificates for its broker, ZooKeeper server and clients, the
    security file, the rules, and the lines for zoo.cfg and the broker's settings. ZooKeeper servers then also connect
    to one another over TLS. Keep --directory, which holds the authority's key, off all these machines.
    """
    if not hosts and not clients:
        raise click.UsageError("give at least one --host or --client")
    directory = directory.absolute()
    if target is not None:
        if not hosts:
            raise click.UsageError("--deploy needs a --host for each machine")
        for machine in local_security.deploy(directory, list(dict.fromkeys(hosts)), target.absolute(), place):
            click.echo(machine)
    elif hosts:
        click.echo(local_security.secure(directory, dict.fromkeys(hosts)).security)
    for name in clients:
        issued = Authority(directory).issue(name)
        click.echo(f"{issued.certificate} {issued.key}")
