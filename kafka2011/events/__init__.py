"""Events with Avro schemas, on which the rest of the pipeline is built. Needs the extra `pipeline`.

Names are imported when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka2011.lazy_names import lazily

if TYPE_CHECKING:
    from kafka2011.events.codec import Event, EventDecoder, EventEncoder, Stamp, read_stamp
    from kafka2011.events.errors import (
        ColumnError,
        IncompatibleSchemaError,
        InvalidSchemaError,
        RetiredSchemaError,
        SchemaError,
        UndecodableEventError,
        UnencodableEventError,
        UnknownSchemaError,
    )
    from kafka2011.events.generate import Generated, Profile, synthetic_events
    from kafka2011.events.publisher import EventPublisher
    from kafka2011.events.schema_registry import SchemaRegistry
    from kafka2011.events.schemas import EventSchema, KnownSchemas, event_schema

__all__ = [
    "ColumnError",
    "Event",
    "EventDecoder",
    "EventEncoder",
    "EventPublisher",
    "EventSchema",
    "Generated",
    "IncompatibleSchemaError",
    "InvalidSchemaError",
    "KnownSchemas",
    "Profile",
    "RetiredSchemaError",
    "SchemaError",
    "SchemaRegistry",
    "Stamp",
    "UndecodableEventError",
    "UnencodableEventError",
    "UnknownSchemaError",
    "event_schema",
    "read_stamp",
    "synthetic_events",
]

__getattr__ = lazily(
    __name__,
    {
        "kafka2011.events.codec": (
            "Event",
            "EventDecoder",
            "EventEncoder",
            "Stamp",
            "read_stamp",
        ),
        "kafka2011.events.errors": (
            "ColumnError",
            "IncompatibleSchemaError",
            "InvalidSchemaError",
            "RetiredSchemaError",
            "SchemaError",
            "UndecodableEventError",
            "UnencodableEventError",
            "UnknownSchemaError",
        ),
        "kafka2011.events.generate": (
            "Generated",
            "Profile",
            "synthetic_events",
        ),
        "kafka2011.events.publisher": ("EventPublisher",),
        "kafka2011.events.schema_registry": ("SchemaRegistry",),
        "kafka2011.events.schemas": (
            "EventSchema",
            "KnownSchemas",
            "event_schema",
        ),
    },
)
