"""What can go wrong with schemas and events."""

from __future__ import annotations

from kafka2011.errors import KafkaError


class SchemaError(KafkaError):
    """Base of what is wrong with a schema, not with one event."""


class InvalidSchemaError(SchemaError):
    """A text that is no Avro schema, or not one of an event."""


class IncompatibleSchemaError(SchemaError):
    """A schema whose events, or whose readers, would not go with those that a topic has already."""


class UnknownSchemaError(SchemaError):
    """Nobody has registered a schema for this fingerprint, or for this topic."""

    @classmethod
    def of_fingerprint(cls, fingerprint: str) -> UnknownSchemaError:
        """Return the error for a fingerprint that stands for nothing."""
        return cls(f"nobody has registered a schema of fingerprint {fingerprint}")

    @classmethod
    def of_topic(cls, topic: str) -> UnknownSchemaError:
        """Return the error for a topic without schemas."""
        return cls(f"topic {topic} has no schema: register one first")


class UnencodableEventError(KafkaError):
    """An event that does not fit its schema."""


class UndecodableEventError(KafkaError):
    """A payload that is not an event, or not one of the schema that it names.

    `topic`, `partition` and `offset` say where it was read, and are None where only the payload is known; `partition`
    is written as broker-partition. `fingerprint` is in hex, None for a payload that has none.
    """

    def __init__(
        self,
        reason: str,
        fingerprint: str | None = None,
        *,
        topic: str | None = None,
        partition: str | None = None,
        offset: int | None = None,
    ) -> None:
        place = "" if topic is None else f"{topic}/{partition} offset {offset}: "
        schema = "" if fingerprint is None else f" (schema {fingerprint})"
        super().__init__(f"{place}{reason}{schema}")
        self.reason = reason
        self.fingerprint = fingerprint
        self.topic = topic
        self.partition = partition
        self.offset = offset
