"""`kafka2011 replicas`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kafka2011.admin.replicas import begin_replicas, candidates, describe_replicas, elect, remove_replicas
from kafka2011.cli.command_group import CommandGroup
from kafka2011.cli.options import examples, zookeeper_option
from kafka2011.cli.output import confirm, json_option, show_json, show_table
from kafka2011.cli.session import open_session
from kafka2011.errors import ConfigError, KafkaError

if TYPE_CHECKING:
    from kafka2011.admin.replicas import Candidate
    from kafka2011.replica.lineage import SeenState

_COLUMNS = (
    *("broker", "replica", "role", "in_sync", "epoch", "address", "bytes_behind", "seconds_behind", "disk"),
    *("trouble", "damage"),
)


@click.group("replicas", cls=CommandGroup, default="list")
def command() -> None:
    """Show, create, elect and remove replicas of brokers.

    `kafka2011 replicas` is short for `kafka2011 replicas list`.
    """


@command.command("list", epilog=examples("kafka2011 replicas", "kafka2011 replicas list --json"))
@zookeeper_option
@json_option
def list_replicas(zk_connect: str, as_json: bool) -> None:
    """List the replicas of all brokers: the leader, the replicas in sync, and the lag of the others.

    The lag comes from the leaders. A replica is `away` if it is in sync and its process does not run. A replica that is
    neither in sync nor running is unknown to ZooKeeper, and not listed.
    """
    with open_session(zk_connect) as client:
        brokers, unreadable = describe_replicas(client)
    rows = [
        (
            broker.broker_id,
            replica.name,
            replica.role,
            replica.is_in_sync if as_json else _yes(replica.is_in_sync),
            replica.epoch,
            replica.address,
            replica.bytes_behind,
            replica.seconds_behind if as_json or replica.seconds_behind is None else f"{replica.seconds_behind:.1f}",
            replica.replica.disk,
            replica.trouble,
            replica.damage,
        )
        for broker in brokers.values()
        for replica in broker.replicas
    ]
    show_table(_COLUMNS, rows, as_json=as_json, noun="replica")
    for broker in brokers.values():
        if broker.error:
            click.echo(f"broker {broker.broker_id}: {broker.error}", err=True)
    if unreadable:
        raise KafkaError("; ".join(unreadable))


def _yes(is_so: bool) -> str:
    return "yes" if is_so else "no"


@command.command("init", epilog=examples("kafka2011 replicas init 0 a /var/lib/kafka2011"))
@click.argument("broker_id", type=click.IntRange(0), metavar="ID")
@click.argument("name")
@click.argument("log_dir", type=click.Path(path_type=Path), metavar="LOG.DIR")
@click.option("--new", "is_new", is_flag=True, help="The broker is new, and its log.dir may be empty.")
@click.option("--accept-loss", is_flag=True, help="Accept the loss of what this log.dir lacks.")
@zookeeper_option
@json_option
def init(
    broker_id: int, name: str, log_dir: Path, is_new: bool, accept_loss: bool, zk_connect: str, as_json: bool
) -> None:
    """Turn a broker into its first replica NAME, with all messages in LOG.DIR.

    Run it once, on the machine with the log.dir, while the broker is stopped. A log.dir of Kafka 0.7.2 will do. Then
    start the broker with replica.name=NAME, and the other replicas with their own names and empty log.dirs. A LOG.DIR
    that was a replica's before, or that ends before a group's offset, is refused without --accept-loss, since another
    one may have more.
    """
    with open_session(zk_connect) as client:
        replica = begin_replicas(client, broker_id, name, log_dir, is_new=is_new, accept_loss=accept_loss)
    if as_json:
        show_json({"broker": broker_id, "replica": replica.name, "disk": replica.disk})
    else:
        click.echo(f"broker {broker_id} has replicas now; {name}, in {log_dir}, has everything (disk {replica.disk})")


@command.command("elect", epilog=examples("kafka2011 replicas elect 0 b --accept-loss"))
@click.argument("broker_id", type=click.IntRange(0), metavar="ID")
@click.argument("name")
@click.option("--accept-loss", is_flag=True, help="Accept the loss of what this replica lacks.")
@zookeeper_option
@json_option
def elect_replica(broker_id: int, name: str, accept_loss: bool, zk_connect: str, as_json: bool) -> None:
    """Make an incomplete replica the leader, when all complete ones are lost for good.

    What this replica lacks is lost, confirmed or not. Consumers that were ahead of it start over where autooffset.reset
    says. A replica that has more and returns later cuts the rest off, and keeps it in .cut files while its disk has
    space. If you can, start a replica that was in sync instead: it leads without this command, and nothing is lost. If
    ZooKeeper was restored to an older state, no replica leads without this command. Without --accept-loss it shows what
    each replica has seen, and which one has most.
    """
    with open_session(zk_connect) as client:
        if not accept_loss:
            raise ConfigError(_what_would_be_lost(candidates(client, broker_id)))
        chosen, former = elect(client, broker_id, name)
    if as_json:
        given_up = sorted(map(str, former.in_sync))
        show_json({"broker": broker_id, "elected": chosen.name, "disk": chosen.disk, "were_in_sync": given_up})
    else:
        were = ", ".join(sorted(map(str, former.in_sync)))
        click.echo(f"{chosen} will lead broker {broker_id}; before, {were} were in sync")


def _what_would_be_lost(alive: list[Candidate]) -> str:
    proposed = next((candidate for candidate in alive if candidate.is_proposed), None)
    if proposed is None:
        return (
            "what this replica does not have would be lost: start one that is in sync, or repeat it with --accept-loss"
        )
    seen = "; ".join(f"{candidate.replica.name} has seen {_seen(candidate.seen)}" for candidate in alive)
    doubt = ", though it may lack something that one who is away has" if proposed.may_lack else ""
    return (
        f"ZooKeeper has gone back to an older state: {seen}. Start all replicas there are, then elect"
        f" {proposed.replica.name}, which has most{doubt}, with --accept-loss"
    )


def _seen(seen: SeenState | None) -> str:
    if seen is None:
        return "what an older release does not say"
    return f"epoch {seen.epoch}, version {seen.version}{', in sync' if seen.is_in_sync else ''}"


@command.command("remove", epilog=examples("kafka2011 replicas remove 0 --yes"))
@click.argument("broker_id", type=click.IntRange(0), metavar="ID")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@zookeeper_option
def remove(broker_id: int, yes: bool, zk_connect: str) -> None:
    """Turn a broker with replicas back into one process, once all its processes are stopped.

    The command names the replicas that were in sync: start one of them without replica.name. The log.dirs of the others
    are no longer used.
    """
    if not yes:
        confirm(f"forget the replicas of broker {broker_id}?", "removed")
    with open_session(zk_connect) as client:
        state = remove_replicas(client, broker_id)
    click.echo(
        f"broker {broker_id} has no replicas any more; everything is in the log.dir of"
        f" {' and of '.join(sorted(replica.name for replica in state.in_sync))}"
    )
