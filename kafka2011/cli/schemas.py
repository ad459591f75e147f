"""`kafka2011 schemas`."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

import click

from kafka2011.cli.command_group import CommandGroup
from kafka2011.cli.options import examples, zookeeper_option
from kafka2011.cli.output import counted, json_option, show_json, show_table
from kafka2011.cli.session import open_session
from kafka2011.message.topic import validate_topic

if TYPE_CHECKING:
    from kafka2011.events.schema_registry import SchemaRegistry
    from kafka2011.events.schemas import EventSchema

LEVELS = (
    *("default", "none", "backward", "backward_transitive", "forward", "forward_transitive"),
    *("full", "full_transitive"),
)
"""What may be given as a level: those of `Compatibility`, which is imported late, and the one that there is without."""
file_argument = click.argument("file", type=click.File("rb"))
reference_option = click.option(
    "--reference",
    "references",
    multiple=True,
    type=click.File("rb"),
    metavar="FILE",
    help="A file that defines types which FILE names; may be given many times. They become part of the schema.",
)


@click.group("schemas", cls=CommandGroup)
def command() -> None:
    """List, show, check, register and retire the schemas of events."""


@command.command("list", epilog=examples("kafka2011 schemas list", "kafka2011 schemas list views --json"))
@click.argument("topics", nargs=-1, metavar="[TOPIC]...")
@zookeeper_option
@json_option
def list_schemas(topics: tuple[str, ...], zk_connect: str, as_json: bool) -> None:
    """List the schemas of the named topics, or of all topics with schemas.

    Schemas with the same fingerprint have the same bytes; they differ in a default, an alias, a logical type or
    documentation.
    """
    from kafka2011.events.schema_registry import SchemaRegistry

    with open_session(zk_connect) as client:
        registry = SchemaRegistry(client)
        rows = []
        for topic in topics or registry.topics():
            retired = registry.retired(topic)
            for number, schema in registry.schemas(topic):
                state = "retired" if number in retired else "in use"
                rows.append((topic, number, schema.name, schema.fingerprint, len(schema.document["fields"]), state))
    show_table(("topic", "number", "name", "fingerprint", "fields", "state"), rows, as_json=as_json)


@command.command(
    "show", epilog=examples("kafka2011 schemas show views", "kafka2011 schemas show --fingerprint 8f1b6c33a2d4e590")
)
@click.argument("topic", required=False)
@zookeeper_option
@click.option("--number", type=click.IntRange(1), help="Which of the topic's schemas.  [default: the newest in use]")
@click.option("--fingerprint", metavar="HEX", help="Instead of a topic: the schema with this fingerprint.")
def show(topic: str | None, zk_connect: str, number: int | None, fingerprint: str | None) -> None:
    """Print a schema as JSON, as it can be registered again."""
    from kafka2011.events.schema_registry import SchemaRegistry

    if (topic is None) == (fingerprint is None) or (fingerprint is not None and number is not None):
        raise click.UsageError("give a topic, with or without --number, or --fingerprint")
    with open_session(zk_connect) as client:
        registry = SchemaRegistry(client)
        if fingerprint is not None:
            schema = registry.schema_of(fingerprint.lower())
        elif number is None:
            schema = registry.newest(topic or "")
        else:
            schema = _of_number(registry, topic or "", number)
    show_json(schema.document)


@command.command("register", epilog=examples("kafka2011 schemas register views view.avsc"))
@click.argument("topic")
@file_argument
@reference_option
@zookeeper_option
@click.option("--force", is_flag=True, help="Register it even if it is incompatible with the topic's other schemas.")
@json_option
def register(
    topic: str, file: BinaryIO, references: tuple[BinaryIO, ...], zk_connect: str, force: bool, as_json: bool
) -> None:
    """Add a schema to a topic's list. One that is already there keeps its number.

    Refused if the topic's level of compatibility does not allow it. By default it must read the events of all earlier
    schemas, and they must read its events: a field that is added or removed needs a default.
    """
    from kafka2011.events.schema_registry import SchemaRegistry

    validate_topic(topic)
    schema = _read(file, references)
    with open_session(zk_connect) as client:
        number, _ = SchemaRegistry(client).register(topic, schema, force=force)
    rows = [(topic, number, schema.name, schema.fingerprint)]
    show_table(("topic", "number", "name", "fingerprint"), rows, as_json=as_json)


@command.command("check", epilog=examples("kafka2011 schemas check views view.avsc"))
@click.argument("topic")
@file_argument
@reference_option
@zookeeper_option
def check(topic: str, file: BinaryIO, references: tuple[BinaryIO, ...], zk_connect: str) -> None:
    """Check whether a schema could be registered, without registering it; exit status 1 if it could not."""
    from kafka2011.events.schema_registry import SchemaRegistry

    validate_topic(topic)
    schema = _read(file, references)
    with open_session(zk_connect) as client:
        registry = SchemaRegistry(client)
        registered = registry.check(topic, schema)
        count = len(registry.schemas(topic)) - len(registry.retired(topic))
    if registered is not None:
        click.echo(f"{schema.name} {schema.fingerprint} is schema {registered.number} of {topic} already")
        return
    click.echo(f"{schema.name} {schema.fingerprint} goes with {counted(count, 'schema')} of {topic}")


@command.command(
    "retire",
    epilog=examples(
        "kafka2011 schemas retire views 3",
        "kafka2011 schemas retire views 3 --scan",
        "kafka2011 schemas retire views 3 --undo",
    ),
)
@click.argument("topic")
@click.argument("number", type=click.IntRange(1))
@zookeeper_option
@click.option("--undo", is_flag=True, help="Use a retired schema again.")
@click.option("--scan", is_flag=True, help="Read the topic's logs first, and count the events that need the schema.")
@json_option
def retire(topic: str, number: int, zk_connect: str, undo: bool, scan: bool, as_json: bool) -> None:
    """Leave one of a topic's schemas out of loads and of checks of compatibility.

    Loads put its events into quarantine; after --undo, `kafka2011 tables redrive` makes them rows. Consumers still
    decode them, and columns stay. The schema keeps its number, and nobody can register it again. Loads of 0.2.0 ignore
    this.
    """
    from kafka2011.cli.schema_scan import count_events
    from kafka2011.events.schema_registry import SchemaRegistry

    validate_topic(topic)
    if undo and scan:
        raise click.UsageError("--scan counts the events that a retired schema costs: give it without --undo")
    with open_session(zk_connect) as client:
        registry = SchemaRegistry(client)
        schema = _of_number(registry, topic, number)
        events = count_events(topic, zk_connect, schema.fingerprint) if scan else None
        changed = registry.restore(topic, number) if undo else registry.retire(topic, number)
        in_use = [numbered for numbered in registry.schemas(topic) if numbered.number not in registry.retired(topic)]
    if as_json:
        show_json({"topic": topic, "number": number, "retired": not undo, "changed": changed, "events": events})
        return
    state = "in use again" if undo else "retired"
    click.echo(f"schema {number} of topic {topic} {'is' if changed else 'was already'} {state}")
    if undo:
        click.echo("events of it that are in quarantine become rows by `kafka2011 tables redrive`")
        return
    alike = [other.number for other in in_use if other.schema.fingerprint == schema.fingerprint]
    if alike:
        click.echo(f"schema {alike[-1]} has the same fingerprint: events of both are loaded as before")
    elif not in_use:
        click.echo("the topic has no schema in use: loads put all its events into quarantine")
    click.echo(_needed_by(events))


def _needed_by(events: dict[str, int] | None) -> str:
    if events is None:
        return "events that need it: unknown, since the logs were not read (--scan)"
    where = ", ".join(f"{count} in {name}" for name, count in events.items() if count)
    return f"events that need it: {where or 'none in the logs of live brokers'}"


def _of_number(registry: SchemaRegistry, topic: str, number: int) -> EventSchema:
    """Return one of a topic's schemas, retired or not. Raises UnknownSchemaError."""
    from kafka2011.events.errors import UnknownSchemaError

    known = dict(registry.schemas(topic))
    if number not in known:
        raise UnknownSchemaError.of_number(topic, number, max(known, default=0))
    return known[number]


@command.command(
    "compatibility",
    epilog=examples("kafka2011 schemas compatibility views", "kafka2011 schemas compatibility views backward"),
)
@click.argument("topic")
@click.argument("level", required=False, type=click.Choice(LEVELS))
@zookeeper_option
def compatibility(topic: str, level: str | None, zk_connect: str) -> None:
    """Show or set how a topic's next schema may differ from the others.

    backward: it reads events of the newest schema; upgrade consumers first. forward: the newest schema reads its
    events; upgrade producers first. full: both. With _transitive this holds for all schemas of the topic. none:
    anything is allowed. default: full_transitive. With backward, a type may become wider: int, long, float, double.
    """
    from kafka2011.events.compatibility import Compatibility
    from kafka2011.events.schema_registry import SchemaRegistry

    validate_topic(topic)
    with open_session(zk_connect) as client:
        registry = SchemaRegistry(client)
        if level is not None:
            registry.set_compatibility(topic, None if level == "default" else Compatibility(level))
        click.echo(registry.compatibility(topic))


def _read(file: BinaryIO, references: tuple[BinaryIO, ...]) -> EventSchema:
    """Read a schema's file, and those that define types which it names. Raises InvalidSchemaError."""
    from kafka2011.events.errors import InvalidSchemaError
    from kafka2011.events.schemas import EventSchema

    texts = [_read_text(reference) for reference in references]
    text = _read_text(file)
    try:
        return EventSchema.with_references(text, texts) if texts else EventSchema(text)
    except InvalidSchemaError as error:
        raise InvalidSchemaError(f"{file.name}: {error}") from error


def _read_text(file: BinaryIO) -> str:
    """Return the text of a file. Raises InvalidSchemaError, with its name."""
    from kafka2011.events.errors import InvalidSchemaError
    from kafka2011.events.schema_files import file_text
    from kafka2011.events.schemas import MAX_TEXT_BYTES

    data = file.read(MAX_TEXT_BYTES + 1)
    if len(data) > MAX_TEXT_BYTES:
        raise InvalidSchemaError(f"{file.name}: too large for a schema: at most {MAX_TEXT_BYTES} bytes are taken")
    try:
        return file_text(data)
    except InvalidSchemaError as error:
        raise InvalidSchemaError(f"{file.name}: {error}") from error
