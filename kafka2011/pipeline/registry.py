"""The schema registry: in ZooKeeper, what each fingerprint stands for, and the schemas of each topic, numbered from 1.

A schema is registered before the first event that is written with it. Whoever registers reads the topic's list, checks
the new schema against all of it, and creates the next number: of two who do so at once the znode lets one through, and
the other begins again with the longer list.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, NamedTuple

from kafka2011.pipeline.errors import IncompatibleSchemaError, InvalidSchemaError, UnknownSchemaError
from kafka2011.pipeline.schemas import EventSchema, KnownSchemas, check_compatible
from kafka2011.topic import validate_topic
from zk.clock import SYSTEM_CLOCK
from zk.errors import NodeExists
from zk.schemas import SchemaNodes

if TYPE_CHECKING:
    from zk.client import ZkClient
    from zk.clock import Clock

logger = logging.getLogger(__name__)

_UNKNOWN_FOR_S = 10.0
_MAX_UNKNOWN = 1000


class NumberedSchema(NamedTuple):
    """One of a topic's schemas."""

    number: int
    schema: EventSchema


class SchemaRegistry:
    """Registers schemas, and finds them: each fingerprint, and each topic's newest, is looked up once.

    May be shared by threads. Every method raises ZkUnavailable when ZooKeeper does not answer, and InvalidSchemaError
    for a znode that holds no schema.
    """

    def __init__(self, client: ZkClient, clock: Clock = SYSTEM_CLOCK) -> None:
        self._nodes = SchemaNodes(client)
        self._clock = clock
        self._lock = threading.Lock()
        self._by_fingerprint: dict[str, EventSchema] = {}
        self._newest: dict[str, EventSchema] = {}
        self._unknown: dict[str, float] = {}  # until when they are not looked up again

    def register(self, topic: str, schema: EventSchema | str, *, force: bool = False) -> NumberedSchema:
        """Add a schema to a topic's list, and return it with its number; one that is there already stays as it is.

        Raises IncompatibleSchemaError unless events of it and of all before it can be read with one another, or `force`
        is set; InvalidSchemaError; InvalidTopicError.
        """
        validate_topic(topic)
        schema = EventSchema.of(schema)
        self._keep(schema)
        while True:
            known = self.schemas(topic)
            for each in known:
                if each.schema == schema:
                    return each
            if not force:
                check_compatible(schema, known, topic)
            number = known[-1].number + 1 if known else 1
            try:
                self._nodes.add(topic, number, schema.text)
            except NodeExists:
                continue  # somebody else's: it counts too
            logger.info("Registered schema %d of topic %s: %s %s", number, topic, schema.name, schema.fingerprint)
            with self._lock:
                self._newest.pop(topic, None)
            return NumberedSchema(number, schema)

    def schema_of(self, fingerprint: str) -> EventSchema:
        """Return the schema that events of a fingerprint were written with. Raises UnknownSchemaError.

        What is unknown is asked for again after 10 seconds.
        """
        found = self._by_fingerprint.get(fingerprint)
        if found is not None:
            return found
        with self._lock:
            if self._unknown.get(fingerprint, 0.0) > self._clock.monotonic_s():
                raise UnknownSchemaError.of_fingerprint(fingerprint)
            text = self._nodes.text_of(fingerprint)
            if text is None:
                if len(self._unknown) >= _MAX_UNKNOWN:
                    self._unknown.clear()
                self._unknown[fingerprint] = self._clock.monotonic_s() + _UNKNOWN_FOR_S
                raise UnknownSchemaError.of_fingerprint(fingerprint)
            self._unknown.pop(fingerprint, None)
            return self._by_fingerprint.setdefault(fingerprint, EventSchema(text))

    def newest(self, topic: str) -> EventSchema:
        """Return a topic's newest schema, as it was when first asked for. Raises UnknownSchemaError."""
        found = self._newest.get(topic)
        if found is None:
            known = self.schemas(topic)
            if not known:
                raise UnknownSchemaError.of_topic(topic)
            found = self._newest[topic] = known[-1].schema
        return found

    def schemas(self, topic: str) -> list[NumberedSchema]:
        """Read all schemas of a topic, in order."""
        return [NumberedSchema(number, EventSchema(text)) for number, text in self._nodes.numbered(topic).items()]

    def topics(self) -> list[str]:
        """List the topics that have schemas, sorted."""
        return self._nodes.topics()

    def snapshot(self) -> KnownSchemas:
        """Read all schemas at once, for processes that cannot ask; a znode that holds none is left out, and logged."""
        newest = {topic: known[-1].schema for topic in self.topics() if (known := self.schemas(topic))}
        others: list[EventSchema] = []
        for fingerprint, text in self._nodes.fingerprints().items():
            try:
                others.append(EventSchema(text))
            except InvalidSchemaError as error:
                logger.warning("The schema of fingerprint %s cannot be used: %s", fingerprint, error)
        return KnownSchemas(newest, others)

    def _keep(self, schema: EventSchema) -> None:
        kept = EventSchema(self._nodes.keep(schema.fingerprint, schema.text))
        if kept.canonical != schema.canonical:
            raise IncompatibleSchemaError(
                f"fingerprint {schema.fingerprint} stands for another schema, {kept.name}: change a name in this one"
            )
