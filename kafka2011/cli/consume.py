"""`kafka2011 consume`."""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import sys
from contextlib import ExitStack
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from kafka2011.admin.groups import Groups
from kafka2011.admin.partition_cursor import following, open_cursors
from kafka2011.cli.formats import NAMES, format_option, named
from kafka2011.cli.members import ended_by, removed_at_the_end
from kafka2011.cli.options import (
    delimiter_option,
    examples,
    property_option,
    read_target,
    refuse_properties,
    zookeeper_option,
)
from kafka2011.cli.partitions import find_partitions, partitions_option
from kafka2011.cli.session import open_session
from kafka2011.cli.shown_metrics import metrics_address_option, metrics_port_option, show_metrics
from kafka2011.cli.standard_streams import end_without_reader, watched_reader
from kafka2011.cli.stopping import stop_signals
from kafka2011.config import ConsumerConfig
from kafka2011.consumer.connector import ConsumerConnector
from kafka2011.consumer.topic_filter import Blacklist, Whitelist
from kafka2011.metrics.clients import CONSUMER_METRICS, consumer_samples
from zk.brokers import BrokerRegistry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from kafka2011.cli.formats import Format
    from kafka2011.cli.partitions import Wanted
    from kafka2011.consumer.stream import MessageStream
    from kafka2011.consumer.topic_filter import TopicFilter
    from kafka2011.message.message_set import Message

logger = logging.getLogger(__name__)

_LIST_MESSAGES = 1000
_OPTIONS_OF = {"zk.connect": "--zookeeper", "groupid": "--group"}


@click.command(
    "consume",
    epilog=examples(
        "kafka2011 consume views --group reports --from-beginning",
        "kafka2011 consume views --from 2011-06-12T10:00Z --max-messages 100",
        r"kafka2011 consume views --last 10 -f '%t %b-%p %o: %s\n'",
        "kafka2011 consume --whitelist 'views.*' --property fetch.size=65536 --formatter json",
    ),
)
@click.argument("topic_argument", metavar="[TOPIC]", required=False)
@zookeeper_option
@click.option("--topic", "topic_option", help="The topic to read, as TOPIC does.")
@click.option("--whitelist", metavar="REGEX", help="Read all topics whose whole name matches, including later ones.")
@click.option("--blacklist", metavar="REGEX", help="Read all topics except those whose whole name matches.")
@click.option(
    "--group",
    envvar="KAFKA2011_GROUPID",
    show_envvar=True,
    help="The consumer group to join. Default: a temporary group, removed at the end.",
)
@click.option(
    "--from-beginning", is_flag=True, help="Begin with the first message in partitions where the group has no offset."
)
@click.option(
    "--from",
    "start",
    type=read_target,
    metavar="earliest|latest|TIME|OFFSET",
    help="Move the group there first; refused while it has members. A time means the newest segment from before"
    " it: -1h, yesterday, 20:00, ISO 8601 (local without a zone) or @ and ms. An offset needs one"
    " --partition.",
)
@partitions_option
@click.option(
    "--last", type=click.IntRange(1, 100_000), help="Begin this many messages before the end of each partition."
)
@click.option("--max-messages", type=click.IntRange(min=1), help="Stop after this many messages.")
@click.option("--timeout-ms", type=click.IntRange(min=1), help="Stop when no message has come for this long.")
@click.option(
    "--formatter",
    type=click.Choice(NAMES),
    default="payload",
    show_default=True,
    help="What to print of a message; full: topic, partition, offset and payload.",
)
@format_option
@delimiter_option
@click.option(
    "--audit",
    "tier",
    metavar="TIER",
    help="Count the events that were read as this tier of `kafka2011 audit`; commit only after reporting.",
)
@click.option(
    "--decode",
    is_flag=True,
    help="Print decoded events with the name of their schema. A message that cannot be decoded is reported and"
    " left out, and the exit status is 1.",
)
@metrics_port_option
@metrics_address_option
@property_option
@click.pass_context
def command(
    context: click.Context,
    topic_argument: str | None,
    zk_connect: str,
    topic_option: str | None,
    whitelist: str | None,
    blacklist: str | None,
    group: str | None,
    from_beginning: bool,
    start: int | str | None,
    partitions: tuple[Wanted, ...],
    last: int | None,
    max_messages: int | None,
    timeout_ms: int | None,
    formatter: str,
    given_format: Format | None,
    delimiter: bytes,
    tier: str | None,
    decode: bool,
    metrics_port: int | None,
    metrics_host: str,
    properties: tuple[str, ...],
) -> None:
    """Read topics as a member of a consumer group, and print each message on a line.

    Without --from-beginning, a new group reads only messages published from now on. Ctrl-C ends the command; it first
    commits what was printed. With --partition or --last it joins no group and reads the partitions that exist now.
    """
    if sum(given is not None for given in (topic_argument, topic_option, whitelist, blacklist)) != 1:
        raise click.UsageError("give one of TOPIC, --topic, --whitelist and --blacklist")
    topic = topic_argument or topic_option
    if sum((from_beginning, start is not None, last is not None)) > 1:
        raise click.UsageError("give one of --from-beginning, --from and --last")
    if isinstance(start, int) and len(partitions) != 1:
        raise click.UsageError(f"--from {start}: an offset belongs to one partition: name it with --partition")
    refuse_properties(properties, _OPTIONS_OF)
    name = group or f"consume-{secrets.token_hex(6)}"
    fixed = [f"zk.connect={zk_connect}", f"groupid={name}"]
    if from_beginning:
        fixed.append("autooffset.reset=smallest")
    if timeout_ms is not None:
        fixed.append(f"consumer.timeout.ms={timeout_ms}")
    config = ConsumerConfig.from_sources(
        environ=os.environ,
        overrides=[*properties, *fixed],
        defaults={"autooffset.reset": "largest", "autooffset.newpartitions": "smallest"},
        option="--property",
    )
    by_partition = bool(partitions) or last is not None
    if tier is not None:
        _check_audit(by_partition=by_partition)
    of_groups = context.get_parameter_source("group") is ParameterSource.COMMANDLINE or metrics_port is not None
    if by_partition and (topic is None or of_groups):
        raise click.UsageError(
            "--partition and --last need --topic and exclude --group, whose members share all, and --metrics-port"
        )
    with _format(given_format, formatter, delimiter, zk_connect if decode else None) as to_bytes:
        if by_partition:
            start = "earliest" if from_beginning else start
            _read_partitions(config, topic or "", partitions, start, last, max_messages, to_bytes)
            return
        chosen: str | TopicFilter
        if topic is not None:
            chosen = topic
        else:
            chosen = Whitelist(whitelist) if whitelist is not None else Blacklist(blacklist or "")
        with contextlib.nullcontext() if group is not None else removed_at_the_end(zk_connect, name):
            _prepare(config, chosen, start)
            shown = partial(_shown, metrics_host, metrics_port)
            _join(config, chosen, max_messages, to_bytes, tier, shown, is_kept=group is not None)


def _check_audit(*, by_partition: bool) -> None:
    """Raise UsageError or MissingExtraError for an audit that cannot be, before a group is moved."""
    if by_partition:
        raise click.UsageError("--audit counts what a group reads: it excludes --partition and --last")
    import kafka2011.audit.publishing  # noqa: F401


@contextlib.contextmanager
def _format(given_format: Format | None, formatter: str, delimiter: bytes, decode_with: str | None) -> Iterator[Format]:
    """Give the format; with the schemas that a ZooKeeper has, of events. Fails at the end if any were left out."""
    to_bytes = given_format or named(formatter, delimiter)
    if decode_with is None:
        yield to_bytes
        return
    from kafka2011.cli.decoding import Decoding
    from kafka2011.events.codec import EventDecoder
    from kafka2011.events.schema_registry import SchemaRegistry

    with open_session(decode_with) as client:
        decoding = Decoding(EventDecoder(SchemaRegistry(client)))
        is_json = given_format is None and formatter == "json"
        yield decoding.as_json(delimiter) if is_json else decoding.within(to_bytes)
    decoding.end()


def _prepare(config: ConsumerConfig, chosen: str | TopicFilter, start: int | str | None) -> None:
    """Move the group to where it is to start, and say when there is nothing yet to read."""
    with open_session(config.zk_connect) as client:
        known = BrokerRegistry(client).topics()
        topics = [topic for topic in known if (topic == chosen if isinstance(chosen, str) else chosen.allows(topic))]
        if not topics:
            logger.warning(
                "%s at %s, waiting for %s",
                f"nobody knows topic {chosen}" if isinstance(chosen, str) else f"no topic matches {chosen}",
                config.zk_connect,
                "it" if isinstance(chosen, str) else "one",
            )
        if start is not None:
            for topic in topics:
                Groups(client).reset(config.groupid, topic, start)


def _join(
    config: ConsumerConfig,
    chosen: str | TopicFilter,
    max_messages: int | None,
    to_bytes: Format,
    tier: str | None,
    shown: Callable[[ConsumerConnector], AbstractContextManager[None]],
    *,
    is_kept: bool,
) -> None:
    """Print as a member of a group. What a group that is not kept has consumed does not matter."""
    is_read = True

    def stop_without_reader() -> None:
        nonlocal is_read
        is_read = False
        stop.set()

    with stop_signals() as stop, watched_reader(stop_without_reader), ExitStack() as stack:
        connector, messages_of = _open_member(stack, config, tier)
        if isinstance(chosen, str):
            [stream] = connector.create_message_streams({chosen: 1})[chosen]
        else:
            [stream] = connector.create_message_streams_by_filter(chosen)
        with shown(connector), ended_by(stop, connector):
            output = sys.stdout.buffer
            try:
                for message in messages_of(stream, max_messages):
                    output.write(to_bytes(message))
                    output.flush()  # before the next one is asked for, which counts this one as consumed
            except BrokenPipeError:
                # That the message in hand comes again is as it should be, and needs no warning.
                logging.getLogger("kafka2011.consumer").setLevel(logging.ERROR)
                if is_kept:
                    raise
                is_read = False
    if not is_read:
        raise BrokenPipeError


def _shown(host: str, port: int | None, connector: ConsumerConnector) -> AbstractContextManager[None]:
    """Show how a member does while it reads."""
    return show_metrics(
        host,
        port,
        CONSUMER_METRICS,
        lambda: consumer_samples([connector]),
        lambda: None if connector.is_connected else "no session in ZooKeeper",
    )


def _open_member(
    stack: ExitStack, config: ConsumerConfig, tier: str | None
) -> tuple[ConsumerConnector, Callable[[MessageStream, int | None], Iterator[Message]]]:
    """Return a member of the group, and how to read so many messages of a stream; with a tier it counts them."""
    if tier is None:
        return stack.enter_context(ConsumerConnector(config)), islice  # it asks for no more, which might never come
    from kafka2011.audit.consumer import AuditedConsumer
    from kafka2011.audit.publishing import open_counter

    counter = stack.enter_context(open_counter(tier, config.zk_connect))
    consumer = stack.enter_context(AuditedConsumer(config, counter))

    def first(stream: MessageStream, max_messages: int | None) -> Iterator[Message]:
        left = max_messages
        while left is None or left > 0:
            messages = next(consumer.batches(stream, min(left or _LIST_MESSAGES, _LIST_MESSAGES)), None)
            if messages is None:
                return
            yield from messages
            left = None if left is None else left - len(messages)

    return consumer.connector, first


def _read_partitions(
    config: ConsumerConfig,
    topic: str,
    wanted: tuple[Wanted, ...],
    start: int | str | None,
    last: int | None,
    max_messages: int | None,
    to_bytes: Format,
) -> None:
    """Print what partitions hold and get, without a group."""
    timeout_ms = None if config.consumer_timeout_ms < 0 else config.consumer_timeout_ms
    output = sys.stdout.buffer
    with watched_reader(end_without_reader), ExitStack() as stack:
        places = open_cursors(stack, topic, find_partitions(topic, None, config.zk_connect, wanted), config)
        for place in places:
            place.go_to(start if start is not None else "latest")
        before = [message for place in places for message in place.take_last(last)] if last is not None else []
        messages = chain(before, following(places, output.flush, timeout_ms))
        output.writelines(map(to_bytes, islice(messages, max_messages)))
