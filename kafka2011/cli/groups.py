"""`kafka2011 groups`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kafka2011.admin.groups import Groups
from kafka2011.cli.command_group import CommandGroup
from kafka2011.cli.options import examples, read_target, zookeeper_option
from kafka2011.cli.output import counted, json_option, show_table
from kafka2011.cli.partitions import find_partitions, partitions_option
from kafka2011.cli.session import open_session
from kafka2011.cli.stopping import stop_signals
from kafka2011.errors import KafkaError
from zk.cluster import TopicPartition

if TYPE_CHECKING:
    from kafka2011.admin.groups import GroupPartition
    from kafka2011.cli.partitions import Wanted

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
@click.option("--watch", is_flag=True, help="Show it repeatedly, until Ctrl-C.")
@zookeeper_option
@json_option
@click.pass_context
def command(
    context: click.Context, group: str | None, verify: bool, watch: bool, zk_connect: str, as_json: bool
) -> None:
    """Show consumer groups: owner, committed offset, end and lag of every partition.

    The lag is in bytes of the log, since offsets are byte positions.
    """
    if context.invoked_subcommand is not None:
        return
    with open_session(zk_connect) as client, stop_signals() as stop:
        groups = Groups(client)
        while True:
            names = [group] if group is not None else groups.names()
            rows = [_row(name, partition) for name in names for partition in groups.describe(name)]
            if watch and not as_json:
                click.clear()
            show_table(("group", "partition", "owner", "committed", "end", "lag_bytes"), rows, as_json=as_json)
            if verify:
                _verify(groups, names)
            if not watch or stop.wait(WATCH_INTERVAL_S):
                return


def _row(group: str, found: GroupPartition) -> tuple[object, ...]:
    return (group, str(found.where), found.owner, found.committed, found.end, found.lag_bytes)


def _verify(groups: Groups, names: list[str]) -> None:
    problems = [problem for name in names for problem in groups.problems(name)]
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
    """List all groups that ever existed, with their members and topics.

    Topics are those for which a group has offsets.
    """
    with open_session(zk_connect) as client:
        groups = Groups(client)
        rows = [(name, len(groups.members(name)), ",".join(groups.topics(name))) for name in groups.names()]
    show_table(("group", "members", "topics"), rows, as_json=as_json)


@command.command(
    "reset",
    epilog=examples(
        "kafka2011 groups reset --group reports --topic views --to earliest --dry-run",
        "kafka2011 groups reset --group reports --topic views --to 2011-06-12T10:00Z",
        "kafka2011 groups reset --group reports --topic views --partition 0-1 --to 4711",
    ),
)
@click.option("--group", required=True, help="The group to move.")
@click.option("--topic", required=True, help="The topic whose offsets to move.")
@click.option(
    "--to",
    "target",
    required=True,
    callback=read_target,
    metavar="earliest|latest|TIME|OFFSET",
    help="Where to: the first or last offset; the newest segment from before a time (2011-06-12T10:00, local unless it"
    " has a zone, or @ and ms since 1970); or an offset at which a message starts.",
)
@partitions_option
@click.option("--dry-run", is_flag=True, help="Show where it would go, and write nothing.")
@zookeeper_option
@json_option
def reset(
    group: str,
    topic: str,
    target: int | str,
    partitions: tuple[Wanted, ...],
    dry_run: bool,
    zk_connect: str,
    as_json: bool,
) -> None:
    """Move a group's offsets of a topic.

    Refused while the group has members, which would overwrite it, and for an offset outside the partition.
    """
    chosen = [
        TopicPartition(topic, broker.id, number)
        for broker, number in (find_partitions(topic, None, zk_connect, partitions) if partitions else ())
    ]
    with open_session(zk_connect) as client:
        moved = Groups(client).reset(group, topic, target, chosen, dry_run=dry_run)
    rows = [(topic, where.znode_name, offset) for where, offset in moved.items()]
    show_table(("topic", "partition", "offset"), rows, as_json=as_json)
