"""What publishes lines of an access log as events, counted for the audit if that is wanted."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from kafka2011.pipeline.access_log import page_view
from kafka2011.pipeline.audit.publishing import open_counter
from kafka2011.pipeline.collect.placed import id_of
from kafka2011.pipeline.event_types import PAGE_VIEW
from kafka2011.pipeline.events import EventEncoder
from kafka2011.pipeline.publisher import EventPublisher
from kafka2011.pipeline.registry import SchemaRegistry
from zk.connecting import connect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Future

    from kafka2011.config import ProducerConfig
    from kafka2011.producer.batch import Receipt
    from kafka2011.producer.producer import Producer

    Publish = Callable[[list[bytes]], Future[Receipt]]


@contextmanager
def page_views(
    config: ProducerConfig, zk_connect: str, topic: str, collector: str, tier: str
) -> Iterator[Callable[[Producer], Publish]]:
    """Register the schema in a ZooKeeper, and give what makes a function that publishes lines through a producer.

    Its events count as a tier of the audit, unless that is empty: leave this after the producer is closed. Raises
    ZkError, and what `SchemaRegistry.register` raises.
    """
    brokers = ",".join(f"{each.id}:{each.host}:{each.port}" for each in config.broker_list)
    way = {"broker.list": brokers} if brokers else None
    with (
        connect(zk_connect, config.zk_sessiontimeout_ms, config.zk_connectiontimeout_ms) as client,
        open_counter(tier, zk_connect, producer=way) if tier else nullcontext() as counter,
    ):
        registry = SchemaRegistry(client)
        registry.register(topic, PAGE_VIEW)
        encoder = EventEncoder(registry, {topic: PAGE_VIEW})

        def event_of(line: bytes) -> dict[str, Any]:
            return {**page_view(line), "id": id_of(line, collector)}

        def through(producer: Producer) -> Publish:
            publisher = EventPublisher(producer, encoder, counter=counter)
            return lambda lines: publisher.publish_all(topic, map(event_of, lines))

        yield through
