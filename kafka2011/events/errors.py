"""What can go wrong with schemas and events."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kafka2011.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Iterable

_UNANSWERED = re.compile(r"whether these fingerprints are registered:((?: [0-9a-f]{16})+)")


class SchemaError(KafkaError):
    """Is the base of the errors about a schema rather than one event."""


class InvalidSchemaError(SchemaError):
    """Means that a text is no Avro schema, or not the schema of an event."""


class IncompatibleSchemaError(SchemaError):
    """Means that a schema is not compatible with one that the topic already has."""


class ColumnError(SchemaError):
    """Means that a schema has fields that cannot be columns of its topic's table."""


class RetiredSchemaError(SchemaError):
    """Means that a schema is not registered again, since it is retired in its topic."""


class UnknownSchemaError(SchemaError):
    """Means that no schema is registered for a fingerprint or for a topic."""

    @classmethod
    def of_fingerprint(cls, fingerprint: str) -> UnknownSchemaError:
        """Return the error for an unknown fingerprint."""
        return cls(f"nobody has registered a schema of fingerprint {fingerprint}")

    @classmethod
    def of_topic(cls, topic: str) -> UnknownSchemaError:
        """Return the error for a topic without schemas."""
        return cls(f"topic {topic} has no schema: register one first")

    @classmethod
    def of_number(cls, topic: str, number: int, highest: int) -> UnknownSchemaError:
        """Return the error for a number that no schema of a topic has; `highest` is 0 where there is none."""
        numbers = f"its schemas have the numbers 1 to {highest}" if highest else "it has no schemas"
        return cls(f"topic {topic} has no schema {number}: {numbers}")


class UnansweredSchemaError(SchemaError):
    """Means that a process without ZooKeeper does not know whether fingerprints are registered: others have to ask."""

    def __init__(self, fingerprints: Iterable[str]) -> None:
        """Take the fingerprints in hex."""
        self.fingerprints = frozenset(fingerprints)
        named = " ".join(sorted(self.fingerprints))
        super().__init__(f"this process does not know whether these fingerprints are registered: {named}")

    def __reduce__(self) -> tuple[type[UnansweredSchemaError], tuple[frozenset[str]]]:
        return UnansweredSchemaError, (self.fingerprints,)

    @classmethod
    def named_in(cls, text: str) -> frozenset[str]:
        """Return the fingerprints that such an error names in another text, as that of a failed Spark job."""
        return frozenset(re.findall(r"[0-9a-f]{16}", " ".join(_UNANSWERED.findall(text))))


class UnencodableEventError(KafkaError):
    """Means that an event does not fit its schema."""


class UndecodableEventError(KafkaError):
    """Means that a payload is no event, or does not fit the schema that it names.

    `topic`, `partition` and `offset` say where it was read, and are None when only the payload is known; `partition`
    is written as broker-partition. `fingerprint` is in hex, or None if the payload has none.
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
