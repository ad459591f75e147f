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
    "--directory", type=click.Path(file_okay=False, path_type=Path), required=True, help="Where they are, or will be."
)
@click.option("--host", "hosts", multiple=True, help="A name or address of a server; may be given many times.")
@click.option("--client", "clients", multiple=True, help="A client's principal; may be given many times.")
@click.option(
    "--deploy",
    "target",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIRECTORY",
    help="Make a directory in there for each --host, ready to be copied to its machine.",
)
@click.option(
    "--place",
    type=click.Path(path_type=Path),
    default=Path("/etc/kafka2011"),
    show_default=True,
    help="Where those directories will be on their machines.",
)
def command(
    directory: Path, hosts: tuple[str, ...], clients: tuple[str, ...], target: Path | None, place: Path
) -> None:
    """Make certificates, a password and rules for a cluster of one's own, as `cluster --secure` does.

    With --host the directory gets what of an authority, a security file and an allow file is not there yet, and new
    certificates for ZooKeeper and brokers, good at those hosts. With --client it gets a certificate for each. OpenSSL
    makes them. Prints the files that clients name.

    With --deploy each host also gets a directory of its own: certificates for its broker, its ZooKeeper server and its
    clients, the security file, the rules, and the lines for zoo.cfg and the broker's settings. ZooKeeper's servers then
    meet one another by TLS too. Keep --directory, which has the authority's key, away from all of these machines.
    """
    if not hosts and not clients:
        raise click.UsageError("give a --host of a server, or a --client, at least one")
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
