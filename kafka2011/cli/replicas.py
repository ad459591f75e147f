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
from kafka2011.errors import ConfigError

if TYPE_CHECKING:
    from kafka2011.admin.replicas import Candidate
    from kafka2011.replica.lineage import SeenState

_COLUMNS = (
    *("broker", "replica", "role", "in_sync", "epoch", "address", "bytes_behind", "seconds_behind", "disk"),
    *("trouble", "damage"),
)


@click.group("replicas", cls=CommandGroup, default="list")
def command() -> None:
    """Show the replicas of brokers, and begin, elect and remove them.

    `kafka2011 replicas` is short for `kafka2011 replicas list`.
    """


@command.command("list", epilog=examples("kafka2011 replicas", "kafka2011 replicas list --json"))
@zookeeper_option
@json_option
def list_replicas(zk_connect: str, as_json: bool) -> None:
    """List the replicas of all broker ids: who leads, who is in sync, how far the others are behind.

    Leaders are asked for that. A replica is `away` when it is in sync and its process is not there. One that is neither
    in sync nor there is not known to ZooKeeper, and not listed.
    """
    with open_session(zk_connect) as client:
        brokers = describe_replicas(client)
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
        for broker in brokers
        for replica in broker.replicas
    ]
    show_table(_COLUMNS, rows, as_json=as_json, noun="replica")
    for broker in brokers:
        if broker.error:
            click.echo(f"broker {broker.broker_id}: {broker.error}", err=True)


def _yes(is_so: bool) -> str:
    return "yes" if is_so else "no"


@command.command("init", epilog=examples("kafka2011 replicas init 0 a /var/lib/kafka2011"))
@click.argument("broker_id", type=click.IntRange(0), metavar="ID")
@click.argument("name")
@click.argument("log_dir", type=click.Path(path_type=Path), metavar="LOG.DIR")
@click.option("--new", "is_new", is_flag=True, help="The broker is new, and its log.dir may be empty.")
@click.option("--accept-loss", is_flag=True, help="Lose what this log.dir does not have.")
@zookeeper_option
@json_option
def init(
    broker_id: int, name: str, log_dir: Path, is_new: bool, accept_loss: bool, zk_connect: str, as_json: bool
) -> None:
    """Begin to have replicas of a broker: the one of this NAME has everything, in this LOG.DIR.

    Run it once, on the machine that has the log.dir, while the broker is stopped; a directory that Kafka 0.7.2 wrote is
    as good. Then start the broker again with replica.name=NAME, and the others, with other names and log.dirs that are
    empty: they follow it. A LOG.DIR that was a replica's before, or ends before a group's offset, is refused without
    --accept-loss: another one may have more.
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
@click.option("--accept-loss", is_flag=True, help="Lose what this replica does not have.")
@zookeeper_option
@json_option
def elect_replica(broker_id: int, name: str, accept_loss: bool, zk_connect: str, as_json: bool) -> None:
    """Let a replica lead that may not have everything, since all that have are gone for good.

    What it does not have is lost, confirmed or not, and consumers that were ahead of it start over where
    autooffset.reset says. A replica that has more and comes back cuts it off, and keeps it beside the log as .cut files
    while its disk has room. Whoever is in sync and comes back in time leads by itself, and nothing is lost: start that
    one if you can. If ZooKeeper has gone back to an older state, nobody leads by itself: without --accept-loss this
    says what each replica has seen, and which one has most.
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
        click.echo(f"{chosen} leads broker {broker_id} soon; in sync were {were}")


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
@click.option("--yes", is_flag=True, help="Do not ask.")
@zookeeper_option
def remove(broker_id: int, yes: bool, zk_connect: str) -> None:
    """Forget that a broker has replicas, once all their processes are stopped.

    Then start one of those that were in sync without replica.name; it says which. The others' log.dirs are not used.
    """
    if not yes:
        confirm(f"forget the replicas of broker {broker_id}?", "removed")
    with open_session(zk_connect) as client:
        state = remove_replicas(client, broker_id)
    click.echo(
        f"broker {broker_id} has no replicas any more; everything is in the log.dir of"
        f" {' and of '.join(sorted(replica.name for replica in state.in_sync))}"
    )
