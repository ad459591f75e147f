"""Publishes events as a frontend does: schemas registered, each event confirmed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka2011.events.codec import EventEncoder
from kafka2011.events.publisher import EventPublisher
from kafka2011.events.schema_registry import SchemaRegistry
from kafka2011.events.types import EVENT_TYPES
from kafka2011.producer.producer import Producer
from zk.connecting import connect

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafka2011.events.schemas import EventSchema


def publish(
    zk_connect: str, events: Iterable[tuple[str, Mapping[str, Any]]], schemas: Mapping[str, EventSchema] = EVENT_TYPES
) -> None:
    """Publish events of this package's own types, and return when brokers have confirmed all of them.

    Events are encoded with `schemas`, whoever has registered these.
    """
    settings = {"zk.connect": zk_connect, "producer.type": "async", "confirm": True}
    with connect(zk_connect) as client, Producer(settings) as producer:
        registry = SchemaRegistry(client)
        for topic, schema in EVENT_TYPES.items():
            registry.register(topic, schema)
        publisher = EventPublisher(producer, EventEncoder(registry, schemas))
        for topic, event in events:
            publisher.publish(topic, event)
