"""`kafka2011 groups`."""

from __future__ import annotations

import logging
from datetime import datetime
from typing import TYPE_CHECKING

import click

from kafka2011.admin.groups import Groups, describe_groups
from kafka2011.admin.snapshot.cluster_reader import ClusterReader
from kafka2011.admin.snapshot.cluster_snapshot import member_of
from kafka2011.admin.snapshot.lag_history import LagHistory
from kafka2011.cli.command_group import CommandGroup
from kafka2011.cli.options import examples, read_target, zookeeper_option
from kafka2011.cli.output import counted, json_option, show_table
from kafka2011.cli.partitions import find_partitions, misplaced_shown, partitions_option
from kafka2011.cli.session import open_session
from kafka2011.cli.stopping import stop_signals
from kafka2011.consumer.known import nobody
from kafka2011.errors import KafkaError
from zk.clock import SYSTEM_CLOCK
from zk.cluster import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafka2011.admin.snapshot.cluster_snapshot import GroupPartition, MemberInfo
    from kafka2011.cli.partitions import Wanted

logger = logging.getLogger(__name__)

WATCH_INTERVAL_S = 2.0


@click.group(
    "groups",
    cls=CommandGroup,
    invoke_without_command=True,
    epilog=examples(
        "kafka2011 groups",
        "kafka2011 groups --group reports --verify",
        "kafka2011 groups --watch",
    ),
)
@click.option("--group", help="One group only.")
@click.option("--verify", is_flag=True, help="Fail unless every partition has exactly one live owner.")
@click.option("--watch", is_flag=True, help="Refresh until Ctrl-C.")
@zookeeper_option
@json_option
@click.pass_context
def command(
    context: click.Context, group: str | None, verify: bool, watch: bool, zk_connect: str, as_json: bool
) -> None:
    """Show consumer groups: owner, committed offset, end and lag of every partition.

    The lag is in bytes, since offsets are byte positions. --watch also shows the rates of log and group over the last
    minute, and the lag in seconds: the time since the log ended where the group is now, as observed, or estimated from
    the log's rate.
    """
    if context.invoked_subcommand is not None:
        return
    with open_session(zk_connect) as client, stop_signals() as stop:
        reader = ClusterReader(client, nobody if watch else None)
        history = LagHistory() if watch else None
        while True:
            snapshot = describe_groups(reader, None if group is None else [group])
            names = list(snapshot.groups) if group is None else [group]
            rows = [row for name in names for row in _rows(name, snapshot.group_partitions(name), history)]
            if watch and not as_json:
                click.clear()
                click.echo(f"{datetime.now().astimezone():%Y-%m-%d %H:%M:%S %z}, every {WATCH_INTERVAL_S:g} s\n")
            show_table(list(rows[0]) if rows else ["group"], [list(row.values()) for row in rows], as_json=as_json)
            if verify:
                _verify([problem for name in names for problem in snapshot.problems(name)])
            if not watch or stop.wait(WATCH_INTERVAL_S):
                return


def _rows(name: str, partitions: list[GroupPartition], history: LagHistory | None) -> Iterator[dict[str, object]]:
    if history is not None:
        partitions = history.paced(name, partitions, SYSTEM_CLOCK.monotonic_s())
    for partition in partitions:
        columns = partition.columns()
        yield {
            "group": name,
            **{column: round(value) if isinstance(value, float) else value for column, value in columns.items()},
        }


def _verify(problems: list[str]) -> None:
    if problems:
        raise KafkaError(f"{counted(len(problems), 'problem')}: " + "; ".join(problems))


@command.command(
    "list",
    epilog=examples(
        "kafka2011 groups list",
    ),
)
@zookeeper_option
@json_option
def list_groups(zk_connect: str, as_json: bool) -> None:
    """List all groups that ever existed, with members and topics.

    The topics of a group are those in which it has offsets.
    """
    with open_session(zk_connect) as client:
        groups = Groups(client)
        rows = [(name, len(groups.members(name)), ",".join(groups.topics(name))) for name in groups.names()]
    show_table(("group", "members", "topics"), rows, as_json=as_json)


@command.command(
    "members",
    epilog=examples(
        "kafka2011 groups members",
        "kafka2011 groups members --group reports --json",
    ),
)
@click.option("--group", help="One group only.")
@zookeeper_option
@json_option
def members(group: str | None, zk_connect: str, as_json: bool) -> None:
    """List the members of groups, with the number of partitions that each owns.

    Members that reach their group through a gateway have a client id and an address.
    """
    with open_session(zk_connect) as client:
        snapshot = ClusterReader(client).read_groups(None if group is None else [group], with_offsets=False)
    if group is not None:
        snapshot.group(group)
    rows = [
        (name, member, *_client(info), owned.count(member), info.subscription)
        for name, each in snapshot.groups.items()
        for owned in [[member_of(owner.stream_id) for owner in each.owners.values()]]
        for member, info in sorted(each.members.items())
    ]
    columns = ("group", "member", "client_id", "address", "instance_id", "partitions", "subscription")
    show_table(columns, rows, as_json=as_json, noun="member")


def _client(info: MemberInfo) -> tuple[str | None, str | None, str | None]:
    client = info.client
    return (None, None, None) if client is None else (client.client_id, client.host, client.instance_id)


@command.command(
    "reset",
    epilog=examples(
        "kafka2011 groups reset --group reports --topic views --to earliest --dry-run",
        "kafka2011 groups reset --group reports --topic views --to 2011-06-12T10:00Z",
        "kafka2011 groups reset --group reports --topic views --partition 0-1 --to 4711",
        "kafka2011 groups reset --group reports --topic views --shift-by -100 --dry-run",
    ),
)
@click.option("--group", required=True, help="The group to move.")
@click.option("--topic", required=True, help="The topic whose offsets to move.")
@click.option(
    "--to",
    "target",
    type=read_target,
    metavar="earliest|latest|TIME|OFFSET",
    help="The target: the first or last offset, the newest segment from before a time (2011-06-12T10:00, local"
    " unless it has a zone, or @ and ms since 1970), or the offset of a message.",
)
@click.option(
    "--shift-by",
    "messages",
    type=int,
    metavar="MESSAGES",
    help="Move by this number of messages, back if negative. A compressed set counts as one message.",
)
@partitions_option
@click.option("--dry-run", is_flag=True, help="Show the new offsets, and write nothing.")
@zookeeper_option
@json_option
def reset(
    group: str,
    topic: str,
    target: int | str | None,
    messages: int | None,
    partitions: tuple[Wanted, ...],
    dry_run: bool,
    zk_connect: str,
    as_json: bool,
) -> None:
    """Move a group's offsets of a topic.

    Shows the offsets before and after. Refused while the group has members, which would overwrite the offsets, and for
    an offset outside the partition.
    """
    if (target is None) == (messages is None):
        raise click.UsageError("give one of --to and --shift-by")
    chosen = [
        TopicPartition(topic, broker.id, number)
        for broker, number in (find_partitions(topic, None, zk_connect, partitions) if partitions else ())
    ]
    with open_session(zk_connect) as client:
        groups = Groups(client)
        is_new = group not in groups.names()
        before = groups.committed(group, topic)
        if messages is not None:
            moved = groups.shift(group, topic, messages, chosen, dry_run=dry_run)
        else:
            assert target is not None
            with misplaced_shown(as_json=as_json):
                moved = groups.reset(group, topic, target, chosen, dry_run=dry_run)
    rows = [(topic, where.znode_name, before.get(where), offset) for where, offset in moved.items()]
    show_table(("topic", "partition", "before", "offset"), rows, as_json=as_json)
    if is_new:
        logger.warning("there was no group %s: %s", group, "it would be made" if dry_run else "now there is")


@command.command(
    "delete",
    epilog=examples(
        "kafka2011 groups delete --group reports --dry-run",
    ),
)
@click.option("--group", required=True, help="The group to remove.")
@click.option("--dry-run", is_flag=True, help="Show what would be removed, and remove nothing.")
@zookeeper_option
@json_option
def delete(group: str, dry_run: bool, zk_connect: str, as_json: bool) -> None:
    """Remove a group and its offsets, and show the offsets.

    Refused while the group has members. A group that returns later begins where autooffset.reset says.
    """
    with open_session(zk_connect) as client:
        groups = Groups(client)
        offsets = groups.export_offsets(group)
        if not dry_run:
            groups.delete(group)
    rows = [(topic, partition, offset) for topic, of_topic in offsets.items() for partition, offset in of_topic.items()]
    show_table(("topic", "partition", "offset"), rows, as_json=as_json)
