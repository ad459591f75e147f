"""Regenerates the reference parts of docs/ from the settings and the commands themselves.

They are between marks such as `<!-- settings -->` and the matching end mark. A test fails while a document differs.
"""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kafka2011.broker.monitoring.metrics import BROKER_METRICS
from kafka2011.cli.app import PROGRAM, cli
from kafka2011.cli.monitor_metrics import MONITOR_METRICS
from kafka2011.config import (
    BrokerConfig,
    ConsumerConfig,
    GatewayConfig,
    ProducerConfig,
    ServerConfig,
    SimpleConsumerConfig,
    SyncProducerConfig,
)
from kafka2011.gateway.metrics import GATEWAY_METRICS
from kafka2011.lab.stages import STAGES
from kafka2011.metrics.clients import CONSUMER_METRICS, PRODUCER_METRICS
from kafka2011.metrics.loads import LOAD_METRICS
from kafka2011.metrics.tiers import COLLECT_METRICS, MIRROR_METRICS
from kafka2011.spark.options import BatchOptions, ReadOptions, StreamOptions, WriteOptions
from scripts.answer_codes import render_answer_codes
from scripts.drawings import disk_examples, wire_examples, znode_example
from scripts.public_names import CONSTANTS, PUBLIC_MODULES, PublicName

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kafka2011.config import Setting, Settings
    from kafka2011.metrics.metric import Metric

DOCS = Path(__file__).parent.parent / "docs"

PARTS: dict[type[Settings], tuple[str, str]] = {
    BrokerConfig: (
        "Broker",
        f"The first {len(ServerConfig.settings())} are also those of a gateway.",
    ),
    ProducerConfig: (
        "Producer",
        f"The first {len(SyncProducerConfig.settings())} are also those of a `SyncProducer`.",
    ),
    ConsumerConfig: (
        "Consumer",
        f"The first {len(SimpleConsumerConfig.settings())} are also those of a `SimpleConsumer`.",
    ),
    GatewayConfig: ("Gateway", ""),
}


def render_settings() -> str:
    """Return a table for each component: key, default, meaning."""
    return "\n\n".join(_settings_table(component, *text) for component, text in PARTS.items())


def _settings_table(component: type[Settings], title: str, note: str) -> str:
    lines = [f"## {title}", ""]
    if note:
        lines += [note, ""]
    lines += _rows(component.settings())
    if component.IGNORED:
        ignored = ", ".join(f"`{key}` ({why})" for key, why in component.IGNORED.items())
        lines += ["", f"Accepted with one logged line, because they mean nothing here: {ignored}."]
    return "\n".join(lines)


def render_spark_options() -> str:
    """Return tables of the Spark source's and sink's own options."""
    shared = {item.key for item in ReadOptions.settings()}
    tables = [("Options of the source", ReadOptions.settings())]
    tables += [
        (title, [item for item in options.settings() if item.key not in shared])
        for title, options in (("Only for a batch", BatchOptions), ("Only for a stream", StreamOptions))
    ]
    of_producers = {item.key: item.doc for item in ProducerConfig.settings()}
    own = [item for item in WriteOptions.settings() if of_producers.get(item.key) != item.doc]
    tables.append(("Options of the sink, besides those of a Producer", own))
    return "\n\n".join("\n".join([f"## {title}", "", *_rows(items)]) for title, items in tables)


def _rows(items: Iterable[Setting]) -> list[str]:
    rows = [f"| `{item.key}` | {_cell(item.default_text)} | {_cell(item.doc)} |" for item in items]
    return ["| key | default | meaning |", "|---|---|---|", *rows]


def render_metrics() -> str:
    """Return a table for each of those who show metrics: name, kind, labels, meaning."""
    tables = {
        "Brokers": BROKER_METRICS,
        "Consumers": CONSUMER_METRICS,
        "Producers": PRODUCER_METRICS,
        "Mirrors": [metric for metric in MIRROR_METRICS if metric not in PRODUCER_METRICS],
        "Collectors": COLLECT_METRICS,
        "Loads": LOAD_METRICS,
        "Monitors": MONITOR_METRICS,
        "Gateways": GATEWAY_METRICS,
    }
    return "\n\n".join("\n".join([f"## {title}", "", *_metric_rows(items)]) for title, items in tables.items())


def _metric_rows(items: Iterable[Metric]) -> list[str]:
    rows = [
        f"| `{item.name}` | {item.kind.value} | {', '.join(item.labels) or '-'} | {_cell(item.doc)} |" for item in items
    ]
    return ["| metric | kind | labels | meaning |", "|---|---|---|---|", *rows]


def render_commands() -> str:
    """Return a section for each command: how to call it, what it does, its options."""
    return "\n\n".join(_command_section(command, context) for command, context in leaf_commands())


def render_public_names() -> str:
    """Return a table for each public module: name and what it is for."""
    return "\n\n".join(_names_table(module, purpose) for module, purpose in PUBLIC_MODULES.items())


def _names_table(module: str, purpose: str) -> str:
    lines = [f"## `{module}`", "", f"{purpose}.", "", "| name | |", "|---|---|"]
    for name in import_module(module).__all__:
        path = f"{module}.{name}"
        doc = CONSTANTS.get(path) or PublicName(path, getattr(import_module(module), name)).doc
        lines.append(f"| `{name}` | {_cell(doc.partition(chr(10))[0])} |")
    return "\n".join(lines)


def leaf_commands() -> Iterator[tuple[click.Command, click.Context]]:
    """Yield every command that does something by itself, with a context that knows its full name."""
    pending: list[tuple[click.Command, click.Context]] = [(cli, click.Context(cli, info_name=PROGRAM))]
    while pending:
        command, context = pending.pop(0)
        if not isinstance(command, click.Group):
            yield command, context
            continue
        if command.invoke_without_command:
            yield command, context
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            pending.append((below, click.Context(below, info_name=name, parent=context)))


def _command_section(command: click.Command, context: click.Context) -> str:
    usage = " ".join((context.command_path, *command.collect_usage_pieces(context))).replace(" [OPTIONS]", "")
    lines = [f"## `{usage}`", "", _flowing(command.help or "")]
    records = [item.get_help_record(context) for item in command.params if isinstance(item, click.Option)]
    if records:
        lines += ["", "| option | meaning |", "|---|---|"]
        lines += [f"| `{_cell(record[0])}` | {_cell(record[1])} |" for record in records if record is not None]
    if command.epilog is not None:  # a backspace, a heading, and lines as they are
        lines += ["", "```sh", *(line.strip() for line in command.epilog.splitlines()[2:]), "```"]
    return "\n".join(lines)


def _flowing(text: str) -> str:
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.strip().split("\n\n"))


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def render_stages() -> str:
    """Return a table of the lab's stages."""
    rows = [f"| {number} | {stage.title} |" for number, stage in STAGES.items()]
    return "\n".join(["| stage | you build |", "|---|---|", *rows])


def generated() -> dict[str, tuple[str, str]]:
    """Return what is generated: file to the name of its part and the text."""
    return {
        "reference/commands.md": ("commands", render_commands()),
        "reference/metrics.md": ("metrics", render_metrics()),
        "reference/settings.md": ("settings", render_settings()),
        "reference/spark-options.md": ("Spark options", render_spark_options()),
        "reference/api.md": ("public names", render_public_names()),
        "reference/gateway-codes.md": ("answer codes", render_answer_codes()),
        "reference/disk.md": ("disk examples", disk_examples()),
        "reference/wire.md": ("wire examples", wire_examples()),
        "reference/znodes.md": ("znode example", znode_example()),
        "how-to/lab.md": ("stages", render_stages()),
    }


def updated(document: str, name: str, text: str) -> str:
    """Return a document with its part of this name replaced. Raises ValueError when the marks are missing."""
    document, count = re.subn(
        f"(<!-- {name} -->\n).*?(<!-- end of {name} -->)",
        lambda found: f"{found[1]}\n{text}\n\n{found[2]}",
        document,
        flags=re.DOTALL,
    )
    if count != 1:
        raise ValueError(f"the marks for the {name} are missing")
    return document


if __name__ == "__main__":
    for file, part in generated().items():
        path = DOCS / file
        path.write_text(updated(path.read_text(encoding="utf-8"), *part), encoding="utf-8")
