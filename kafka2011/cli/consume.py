"""`kafka2011 consume`."""

from __future__ import annotations

import contextlib
import json
import secrets
import sys
import threading
from typing import TYPE_CHECKING

import click

from kafka2011.cli.options import zookeeper_option
from kafka2011.cli.stopping import stop_signals
from kafka2011.consumer.connector import ConsumerConnector
from kafka2011.consumer.topic_filter import Blacklist, Whitelist
from zk.connecting import connect
from zk.consumers import ConsumerRegistry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafka2011.consumer.stream import MessageStream
    from kafka2011.message import Message


def _payload(message: Message) -> bytes:
    return message.payload + b"\n"


def _full(message: Message) -> bytes:
    where = f"{message.topic}\t{message.broker_id}-{message.partition}\t{message.offset}\t"
    return where.encode() + message.payload + b"\n"


def _json(message: Message) -> bytes:
    fields = {**message._asdict(), "payload": message.payload.decode("utf-8", "replace")}
    return json.dumps(fields, ensure_ascii=False).encode() + b"\n"


FORMATTERS: dict[str, Callable[[Message], bytes]] = {"payload": _payload, "full": _full, "json": _json}


@click.command("consume")
@zookeeper_option
@click.option("--topic", help="The topic to read.")
@click.option("--whitelist", metavar="REGEX", help="Read all topics whose whole name matches, also later ones.")
@click.option("--blacklist", metavar="REGEX", help="Read all topics but those whose whole name matches.")
@click.option("--group", help="The consumer group to join. Default: one of its own, which is removed at the end.")
@click.option("--from-beginning", is_flag=True, help="Where the group has no offset: from the first message on.")
@click.option("--max-messages", type=click.IntRange(min=1), help="Stop after so many messages.")
@click.option("--timeout-ms", type=click.IntRange(min=1), help="Stop when no message came for so long.")
@click.option(
    "--formatter",
    type=click.Choice(list(FORMATTERS)),
    default="payload",
    show_default=True,
    help="What to print of a message; full: topic, partition, offset and payload.",
)
def command(
    zk_connect: str,
    topic: str | None,
    whitelist: str | None,
    blacklist: str | None,
    group: str | None,
    from_beginning: bool,
    max_messages: int | None,
    timeout_ms: int | None,
    formatter: str,
) -> None:
    """Read topics as a member of a consumer group, and print each message on a line.

    Without --from-beginning a new group reads what is published from now on. Ends with Ctrl-C; what was printed is
    committed then.
    """
    if sum(given is not None for given in (topic, whitelist, blacklist)) != 1:
        raise click.UsageError("give one of --topic, --whitelist and --blacklist")
    name = group or f"consume-{secrets.token_hex(6)}"
    settings: dict[str, object] = {
        "zk.connect": zk_connect,
        "groupid": name,
        "autooffset.reset": "smallest" if from_beginning else "largest",
        "consumer.timeout.ms": -1 if timeout_ms is None else timeout_ms,
    }
    try:
        with stop_signals() as stop, ConsumerConnector(settings) as connector:
            if topic is not None:
                [stream] = connector.create_message_streams({topic: 1})[topic]
            else:
                chosen = Whitelist(whitelist) if whitelist is not None else Blacklist(blacklist or "")
                [stream] = connector.create_message_streams_by_filter(chosen)
            with _ended_by(stop, connector):
                _print(stream, FORMATTERS[formatter], max_messages)
    finally:
        if group is None:
            _remove(zk_connect, name)


@contextlib.contextmanager
def _ended_by(stop: threading.Event, connector: ConsumerConnector) -> Iterator[None]:
    """Shut the connector down when the event comes, so that a waiting stream ends."""
    is_done = False

    def wait() -> None:
        stop.wait()
        if not is_done:
            connector.shutdown()

    waiting = threading.Thread(target=wait, daemon=True)
    waiting.start()
    try:
        yield
    finally:
        is_done = True
        stop.set()
        waiting.join()


def _print(stream: MessageStream, to_bytes: Callable[[Message], bytes], max_messages: int | None) -> None:
    output = sys.stdout.buffer
    for message in _first(stream, max_messages):
        output.write(to_bytes(message))
        output.flush()  # before the next one is asked for, which counts this one as consumed


def _first(stream: MessageStream, max_messages: int | None) -> Iterator[Message]:
    """Yield so many messages without asking for one more, which might never come."""
    left = max_messages
    while left is None or left > 0:
        message = next(stream, None)
        if message is None:
            return
        yield message
        left = None if left is None else left - 1


def _remove(zk_connect: str, group: str) -> None:
    with connect(zk_connect) as client:
        ConsumerRegistry(client).delete_group(group)
