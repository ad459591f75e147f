"""Schemas in a cluster's registry that hinder the loads of their topics: `kafka2011 doctor`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka2011.admin.doctor.checkup import Finding
from kafka2011.events.columns.column_types import table_columns
from kafka2011.events.columns.evolution import evolution_of
from kafka2011.events.errors import ColumnError, InvalidSchemaError, UnknownSchemaError
from kafka2011.events.schema_registry import SchemaRegistry
from zk.errors import MalformedNode

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kafka2011.events.schema_registry import NumberedSchema
    from zk.client import ZkClient


def examine_schemas(client: ZkClient) -> Iterator[Finding]:
    """Yield the schemas in use whose events loads put into quarantine, and znodes that are no schemas."""
    registry = SchemaRegistry(client)
    for topic in registry.topics():
        place = f"schemas of topic {topic}"
        try:
            schemas = registry.of_topic(topic)
        except UnknownSchemaError:
            continue
        except (InvalidSchemaError, MalformedNode) as error:
            remedy = "write a schema there, or remove the znode and register the schema"
            yield Finding(place, f"none can be used, so no load of the topic works: {error}", remedy)
            continue
        for name, fault in schemas.unusable.items():
            remedy = "write the schema there that its events were encoded with"
            yield Finding(place, f"znode {name} cannot be used: {fault}", remedy)
        for number, why in _refused(schemas.in_use, topic):
            yield Finding(
                place,
                f"loads put the events of schema {number} into quarantine: {why}",
                "register a schema that mends it, and let publishers use that one; then"
                f" `kafka2011 schemas retire {topic} {number}`",
            )


def _refused(in_use: Sequence[NumberedSchema], topic: str) -> Iterator[tuple[int, str]]:
    """Yield the numbers of schemas that have no place in a new table, and why."""
    if len(in_use) == 1:  # as in most topics: nothing has to be merged
        try:
            table_columns(in_use[0].schema, topic)
        except ColumnError as error:
            yield in_use[0].number, str(error)
        return
    table = evolution_of(tuple(in_use), topic, None)
    for number, schema in in_use:
        if why := table.why_refused(schema):
            yield number, why
