"""`kafka2011 collect`."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kafka2011.cli.log_check import check_files
from kafka2011.cli.logs import log_progress_of_a_server
from kafka2011.cli.options import (
    broker_option,
    broker_or_zookeeper,
    examples,
    one_address,
    parse_broker,
    property_option,
    refuse_properties,
    zookeeper_option,
)
from kafka2011.cli.output import counted
from kafka2011.cli.progress import told_progress
from kafka2011.cli.sections import SectionedCommand, config_option
from kafka2011.cli.shown_metrics import metrics_address_option, metrics_port_option, show_metrics
from kafka2011.cli.state import state_directory
from kafka2011.cli.stopping import stop_signals
from kafka2011.collect.counts import CollectCounts
from kafka2011.collect.line_inputs import SocketAddress
from kafka2011.collect.lines import MIN_LINE_BYTES, Nul
from kafka2011.collect.log_format import check_format
from kafka2011.collect.options import CollectOptions
from kafka2011.collect.spool import MIN_SPOOL_BYTES, SPOOL_BYTES
from kafka2011.config import ProducerConfig
from kafka2011.errors import KafkaError
from kafka2011.message.compression import Codec
from kafka2011.message.topic import validate_topic

if TYPE_CHECKING:
    from zk.cluster import Broker

_CODECS = {codec.name.lower(): codec for codec in Codec}
_OPTIONS_OF = {"zk.connect": "--zookeeper", "broker.list": "--broker", "compression.codec": "--compress"}
_CHOSEN = ("confirm", "producer.type")


def _read_address(text: str) -> SocketAddress:
    if text.startswith("unix:"):
        path = text.removeprefix("unix:")
        if not path:
            raise click.BadParameter("the path is missing")
        return SocketAddress(path)
    host, colon, port = text.rpartition(":")
    if colon and host and port == "0":
        return SocketAddress("", host.strip("[]"), 0)
    broker = parse_broker(text)
    return SocketAddress("", broker.host, broker.port)


@click.command(
    "collect",
    cls=SectionedCommand,
    epilog=examples(
        "kafka2011 collect /var/log/nginx/access.log --topic access --follow",
        "kafka2011 collect --listen unix:/run/app/log.sock --topic app --spool-bytes 10000000000",
        "kafka2011 collect --check access.log",
        "kafka2011 collect access.log --topic page_views --as access-log --audit collector",
        "kafka2011 collect '/var/log/app/*.log' --topic app --follow",
        "kafka2011 collect --config /etc/kafka2011/collect.toml",
        "journalctl --follow --output cat | kafka2011 collect - --topic journal",
    ),
)
@click.argument("files", metavar="[FILE]...", nargs=-1)
@click.option("--topic", help="The topic that the lines go to; needed except with --check.")
@zookeeper_option
@broker_option
@click.option("--follow", is_flag=True, help="Keep reading at the end of the files, through rotation, until stopped.")
@click.option(
    "--listen",
    type=_read_address,
    metavar="ADDRESS",
    help="Also accept lines at a socket, unix:/path or host:port, until stopped.",
)
@click.option(
    "--as",
    "form",
    type=click.Choice(["lines", "access-log"]),
    default="lines",
    show_default=True,
    help="What to publish of a line: the line itself, or a PageView event with the fields of an access log.",
)
@click.option(
    "--log-format",
    default="",
    metavar="FORMAT",
    help="The access log's format: the text of nginx's log_format or Apache's LogFormat; common, combined,"
    " vhost_combined or main; a #Fields: line; for JSON lines, json or an object like a line that has names of"
    " PageView's fields as values.  [default: as each line is recognized]",
)
@click.option(
    "--max-unparsed",
    type=click.FloatRange(0, 1),
    default=0.1,
    show_default=True,
    metavar="SHARE",
    help="The largest share of lines of access logs that may be unparsed; of more, the exit status is 1. It is judged"
    " from 20 lines on, if the command ends with the files.",
)
@click.option(
    "--check", is_flag=True, help="Print what would become of the first 1000 lines of each FILE, and send nothing."
)
@click.option(
    "--state",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIRECTORY",
    help="The directory of positions and the spool, for one collector and one topic.  [default:"
    " ~/.local/state/kafka2011/collect/TOPIC]",
)
@click.option(
    "--max-line-bytes",
    type=click.IntRange(MIN_LINE_BYTES),
    help="The longest line, in bytes.  [default: max.message.size, and a third of it for events]",
)
@click.option(
    "--too-long",
    type=click.Choice(["cut", "refuse"]),
    default="cut",
    show_default=True,
    help="What to do with longer lines: send their beginning with a mark, or leave them out.",
)
@click.option(
    "--nul",
    type=click.Choice([treatment.value for treatment in Nul]),
    default=Nul.SKIP.value,
    show_default=True,
    help="What to do with NUL bytes in files: keep them, leave them out, or refuse the file from there on.",
)
@click.option(
    "--spool-bytes",
    type=click.IntRange(MIN_SPOOL_BYTES),
    default=SPOOL_BYTES,
    show_default=True,
    help="How many bytes of standard input and the socket may wait on disk while the cluster is unavailable.",
)
@click.option(
    "--spool-full",
    type=click.Choice(["wait", "drop"]),
    default="wait",
    show_default=True,
    help="What to do when the spool is full: stop reading, or drop and count lines.",
)
@click.option("--audit", "tier", metavar="TIER", help="Count confirmed events as this tier of `kafka2011 audit`.")
@click.option("--compress", type=click.Choice(list(_CODECS)), help="The codec.  [default: compression.codec, none]")
@metrics_port_option
@metrics_address_option
@property_option
@config_option
@click.pass_context
def command(
    context: click.Context,
    files: tuple[str, ...],
    topic: str | None,
    zk_connect: str,
    broker: Broker | None,
    follow: bool,
    listen: SocketAddress | None,
    form: str,
    log_format: str,
    max_unparsed: float,
    check: bool,
    state: Path | None,
    max_line_bytes: int | None,
    too_long: str,
    nul: str,
    spool_bytes: int,
    spool_full: str,
    tier: str | None,
    compress: str | None,
    metrics_port: int | None,
    metrics_host: str,
    properties: tuple[str, ...],
) -> None:
    """Publish the lines of files, standard input and a local socket, each at least once.

    FILE - is standard input; a pattern such as 'app-*.log' also matches files that are created later. The command saves
    how far each file was confirmed, and the next run continues there. Lines from standard input and the socket wait on
    disk until they are confirmed. With --follow or --listen it runs until SIGTERM or Ctrl-C, even while the cluster is
    down. Otherwise it ends with the files, and fails if a line is not confirmed within confirm.timeout.ms. The exit
    status is also 1 if a line was refused or is known to be lost, or if too many lines could not be parsed.

    Before you collect an access log, `kafka2011 collect --check FILE` prints which fields are found in it.
    """
    if check:
        if not files:
            raise click.UsageError("--check needs a FILE")
        check_files(files, check_format(log_format), max_unparsed)
        return
    topic = _check_arguments(context, files, topic, form, listen, tier, log_format)
    refuse_properties(properties, _OPTIONS_OF, fixed=_CHOSEN)
    from kafka2011.collect.run import collect
    from kafka2011.metrics.tiers import COLLECT_METRICS, collect_samples

    config = _config(zk_connect, broker, compress, properties)
    options = CollectOptions(
        files,
        topic,
        state_directory("collect", topic) if state is None else state,
        _longest_bytes(max_line_bytes, form, config),
        listen,
        follow,
        too_long == "refuse",
        form == "access-log",
        spool_bytes,
        spool_full == "drop",
        tier or "",
        zk_connect if form != "lines" else "",
        Nul(nul),
        log_format,
    )
    if options.runs_on:
        log_progress_of_a_server()
    counts = CollectCounts()
    try:
        telling = contextlib.nullcontext() if options.runs_on else told_progress(lambda: _summary(counts))
        metrics = show_metrics(metrics_host, metrics_port, COLLECT_METRICS, lambda: collect_samples(counts.as_dict()))
        with stop_signals() as stop, metrics, telling:
            collect(options, config, stop, counts)
    finally:
        click.echo(_summary(counts), err=True)
    _judge(counts, None if options.runs_on else max_unparsed)


def _check_arguments(
    context: click.Context,
    files: tuple[str, ...],
    topic: str | None,
    form: str,
    listen: SocketAddress | None,
    tier: str | None,
    log_format: str,
) -> str:
    """Return the topic. Raises UsageError for options that are missing or do not go together, and ConfigError."""
    if topic is None:
        raise click.UsageError("Missing option '--topic'.")
    if form == "lines":
        broker_or_zookeeper(context)
        for option, value in (("--audit counts events", tier), ("--log-format is for access logs", log_format)):
            if value:
                raise click.UsageError(f"{option}, not plain lines: give --as access-log too")
    validate_topic(topic)
    check_format(log_format)
    if not files and listen is None:
        raise click.UsageError("there is nothing to read: give a FILE, - for standard input, or --listen")
    return topic


def _config(
    zk_connect: str, broker: Broker | None, compress: str | None, properties: tuple[str, ...]
) -> ProducerConfig:
    from kafka2011.collect.run import DEFAULTS

    fixed = [f"zk.connect={zk_connect}", "broker.list="]
    if broker is not None:
        fixed = ["zk.connect=", f"broker.list={one_address(broker)}", "partitioner.class="]
    if compress is not None:
        fixed.append(f"compression.codec={compress}")
    return ProducerConfig.from_sources(
        environ=os.environ,
        overrides=[*properties, "producer.type=async", "confirm=true", *fixed],
        defaults=DEFAULTS,
        option="--property",
    )


def _longest_bytes(wanted: int | None, form: str, config: ProducerConfig) -> int:
    """Return the longest line. Raises UsageError."""
    longest_bytes = wanted
    if longest_bytes is None:  # an event has the line, and its parts
        longest_bytes = config.max_message_size // (1 if form == "lines" else 3)
    if not MIN_LINE_BYTES <= longest_bytes <= config.max_message_size:
        raise click.UsageError(
            f"--max-line-bytes: {longest_bytes} is not {MIN_LINE_BYTES} to max.message.size, {config.max_message_size}"
        )
    return longest_bytes


def _judge(counts: CollectCounts, most_unparsed: float | None) -> None:
    """Raise KafkaError for what was not collected, and for too many lines that could not be parsed."""
    if not counts.all_is_well:
        raise KafkaError("not everything was collected: see above")
    if most_unparsed is not None and counts.too_many_unparsed(most_unparsed):
        raise KafkaError(
            f"{counts.lines_unparsed} of {counts.lines_sent} lines could not be parsed (more than --max-unparsed"
            f" {most_unparsed:g}): they were sent with a parse_error, see above"
        )


def _summary(counts: CollectCounts) -> str:
    """Return what was done in one line, leaving out what did not happen."""
    rest = {name: number for name, number in counts.as_dict().items() if number and name != "lines_confirmed"}
    if rest.get("lines_sent") == counts.lines_confirmed:
        del rest["lines_sent"]
    happened = ", ".join(f"{name.replace('_', ' ')} {number}" for name, number in rest.items())
    return f"collected {counted(counts.lines_confirmed, 'line')}" + (f"; {happened}" if happened else "")
