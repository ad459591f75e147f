"""Publishes lines of an access log as events, counted for the audit on request."""

from __future__ import annotations

import logging
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Self

from kafka2011.audit.publishing import open_counter
from kafka2011.collect.access_log import page_view
from kafka2011.collect.log_format import check_format
from kafka2011.collect.placed import id_of
from kafka2011.collect.unparsed import UnparsedLines
from kafka2011.errors import KafkaError
from kafka2011.events.codec import EventEncoder
from kafka2011.events.publisher import EventPublisher
from kafka2011.events.schema_registry import SchemaRegistry
from kafka2011.events.types import PAGE_VIEW
from zk.connecting import connect

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from kafka2011.audit.counter import AuditCounter
    from kafka2011.collect.counts import CollectCounts
    from kafka2011.collect.options import CollectOptions
    from kafka2011.collect.positions import Positions
    from kafka2011.config import ProducerConfig
    from kafka2011.producer.batch import Receipt
    from kafka2011.producer.producer import Producer

    Publish = Callable[[list[bytes]], Future[Receipt]]

logger = logging.getLogger(__name__)


class PageViews:
    """Registers the schema in a ZooKeeper, and publishes lines as page views; a context manager.

    Its events count as a tier of the audit unless that is empty: exit the context after the producer is closed.
    Save positions only after `report`: then, if a collector is killed, its next process sends again whatever was not
    reported, and answers for those before it. Raises ZkError, and what `SchemaRegistry.register` raises.
    """

    def __init__(
        self, config: ProducerConfig, options: CollectOptions, positions: Positions, counts: CollectCounts
    ) -> None:
        zk_connect, topic, tier = options.zk_connect, options.topic, options.audit
        self._topic = topic
        self._log_format = check_format(options.log_format)
        self._unparsed = UnparsedLines(counts)
        self._collector = positions.id
        self._publisher: EventPublisher | None = None
        self._counter: AuditCounter | None = None
        with ExitStack() as stack:
            client = stack.enter_context(
                connect(zk_connect, config.zk_sessiontimeout_ms, config.zk_connectiontimeout_ms)
            )
            registry = SchemaRegistry(client)
            registry.register(topic, PAGE_VIEW)
            self._encoder = EventEncoder(registry, {topic: PAGE_VIEW})
            if tier:
                brokers = ",".join(f"{broker.id}:{broker.host}:{broker.port}" for broker in config.broker_list)
                way = {"broker.list": brokers} if brokers else None
                counter = open_counter(tier, zk_connect, producer=way, follows=positions.instances)
                self._counter = stack.enter_context(counter)
                _begin(counter, topic, positions)
            self._stack = stack.pop_all()

    def through(self, producer: Producer) -> Publish:
        """Return a function that publishes lines through a producer."""
        publisher = self._publisher = EventPublisher(producer, self._encoder, counter=self._counter)
        return lambda lines: publisher.publish_all(self._topic, map(self._event_of, lines))

    def report(self) -> None:
        """Report everything confirmed so far. Raises KafkaError when that fails."""
        if self._counter is not None and self._publisher is not None:
            self._publisher.await_counted()
            self._counter.report()

    def _event_of(self, line: bytes) -> dict[str, Any]:
        event = page_view(line, self._log_format)
        self._unparsed.note(line, event)
        return {**event, "id": id_of(line, self._collector)}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


def _begin(counter: AuditCounter, topic: str, positions: Positions) -> None:
    """Announce this process to the audit; otherwise its first events would wait for that."""
    before = positions.instances
    positions.instances = [*before, counter.instance]
    positions.save()
    try:
        counter.begin(topic)
    except KafkaError as error:
        logger.warning("nothing is sent until the audit can begin: %s", error)
    else:
        positions.instances = [counter.instance]
