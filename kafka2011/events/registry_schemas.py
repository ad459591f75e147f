"""The schemas of a topic in a process with ZooKeeper: fingerprints of other schemas are looked up one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka2011.events.errors import UnansweredSchemaError
from kafka2011.events.schemas import KnownSchemas

if TYPE_CHECKING:
    from kafka2011.events.schema_registry import SchemaRegistry, TopicSchemas
    from kafka2011.events.schemas import EventSchema


class RegistrySchemas(KnownSchemas):
    """Holds the schemas of a topic, and looks up others in the registry when an event names them. Does not pickle."""

    def __init__(self, registry: SchemaRegistry, topic: str, schemas: TopicSchemas) -> None:
        """Take a topic's schemas as they are now."""
        newest = {topic: schemas.in_use[-1].schema} if schemas.in_use else {}
        super().__init__(newest, (), {topic: schemas.in_use}, {topic: schemas.retired}, ())
        self._registry = registry

    def schema_of(self, fingerprint: str) -> EventSchema:
        """Return the schema that events of a fingerprint were written with.

        Raises UnknownSchemaError, InvalidSchemaError and MalformedNode, and ZkUnavailable.
        """
        try:
            return super().schema_of(fingerprint)
        except UnansweredSchemaError:
            return self._registry.schema_of(fingerprint)
