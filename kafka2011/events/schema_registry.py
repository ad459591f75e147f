"""The schema registry in ZooKeeper: schemas by fingerprint, and each topic's schemas, numbered from 1.

A schema is registered before the first event is written with it. To register, a process reads the topic's list, checks
the new schema against all of it, tries what the pipeline will do with it, and creates the next number. If two do so at
once, only one can create the znode, and the other starts again with the longer list.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, NamedTuple

from kafka2011.events.columns.trial import check_usable
from kafka2011.events.compatibility import DEFAULT, Compatibility, check_compatible
from kafka2011.events.errors import IncompatibleSchemaError, InvalidSchemaError, SchemaError, UnknownSchemaError
from kafka2011.events.schemas import EventSchema, KnownSchemas
from kafka2011.message.topic import validate_topic
from zk.clock import SYSTEM_CLOCK
from zk.errors import MalformedNode, NodeExists
from zk.paths import schema_compatibility
from zk.schemas import SchemaNodes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafka2011.errors import KafkaError
    from zk.client import ZkClient
    from zk.clock import Clock

logger = logging.getLogger(__name__)

_AGAIN_AFTER_S = 10.0
_MAX_FAILED = 1000


class NumberedSchema(NamedTuple):
    """One of a topic's schemas."""

    number: int
    schema: EventSchema


class SchemaRegistry:
    """Registers and finds schemas; looks up each fingerprint, and each topic's newest schema, once.

    May be shared by threads. Every method raises ZkUnavailable when ZooKeeper does not answer, and InvalidSchemaError
    if a znode holds no schema.

    `client` is connected to the ZooKeeper of the cluster.
    """

    def __init__(self, client: ZkClient, clock: Clock = SYSTEM_CLOCK) -> None:
        self._nodes = SchemaNodes(client)
        self._clock = clock
        self._lock = threading.Lock()
        self._by_fingerprint: dict[str, EventSchema] = {}
        self._newest: dict[str, EventSchema] = {}
        self._parsed: dict[str, EventSchema] = {}  # by text, of which ZooKeeper has a limited number
        self._failed: dict[str, tuple[float, KafkaError]] = {}  # why, and until when each is not looked up again

    def register(self, topic: str, schema: EventSchema | str, *, force: bool = False) -> NumberedSchema:
        """Add a schema to a topic's list, and return it with its number; one already there is left as it is.

        `force` registers it even if it is incompatible with the others. Raises what `check` raises, and
        IncompatibleSchemaError also if its fingerprint stands for another schema.
        """
        validate_topic(topic)
        schema = EventSchema.of(schema)
        while True:
            known = self.schemas(topic)
            registered = self._check(topic, schema, known, force=force)
            self._keep(schema)
            if registered is not None:
                return registered
            number = known[-1].number + 1 if known else 1
            try:
                self._nodes.add(topic, number, schema.text)
            except NodeExists:
                continue  # another process's schema; check against it too
            logger.info("Registered schema %d of topic %s: %s %s", number, topic, schema.name, schema.fingerprint)
            with self._lock:
                self._newest.pop(topic, None)
            return NumberedSchema(number, schema)

    def check(self, topic: str, schema: EventSchema | str, *, force: bool = False) -> NumberedSchema | None:
        """Check that a schema can be registered. Return it with its number if it is registered already, else None.

        Raises IncompatibleSchemaError unless it goes with the others as the topic's `compatibility` asks, or `force` is
        set; ColumnError if loads could not make its fields columns; InvalidSchemaError, InvalidTopicError.
        """
        validate_topic(topic)
        return self._check(topic, EventSchema.of(schema), self.schemas(topic), force=force)

    def _check(
        self, topic: str, schema: EventSchema, known: Sequence[NumberedSchema], *, force: bool
    ) -> NumberedSchema | None:
        for numbered in known:
            if numbered.schema == schema:
                return numbered
        level = Compatibility.NONE if force else self.compatibility(topic)
        check_compatible(schema, known, topic, level)
        check_usable(schema, known, topic, may_exclude=level is Compatibility.NONE)
        return None

    def compatibility(self, topic: str) -> Compatibility:
        """Return the compatibility level that a topic's next schema needs. Raises MalformedNode: unknown level."""
        text = self._nodes.compatibility(topic)
        try:
            return DEFAULT if text is None else Compatibility(text)
        except ValueError as error:
            levels = ", ".join(Compatibility)
            raise MalformedNode(schema_compatibility(topic), text, f"not one of {levels}") from error

    def set_compatibility(self, topic: str, level: Compatibility | None) -> None:
        """Set the compatibility level that a topic's next schema needs; None: the default. Raises InvalidTopicError."""
        validate_topic(topic)
        self._nodes.set_compatibility(topic, level)

    def schema_of(self, fingerprint: str) -> EventSchema:
        """Return the schema that events of a fingerprint were written with.

        Raises UnknownSchemaError; InvalidSchemaError and MalformedNode where the znode holds no schema. A fingerprint
        that was not found is looked up again after 10 seconds at the earliest.
        """
        schema = self._by_fingerprint.get(fingerprint)
        if schema is not None:
            return schema
        with self._lock:
            until_s, error = self._failed.get(fingerprint, (0.0, None))
            if error is not None and self._clock.monotonic_s() < until_s:
                raise error.with_traceback(None)
            try:
                schema = self._look_up(fingerprint)
            except (SchemaError, MalformedNode) as failure:
                if len(self._failed) >= _MAX_FAILED:
                    self._failed.clear()
                self._failed[fingerprint] = (self._clock.monotonic_s() + _AGAIN_AFTER_S, failure)
                raise
            self._failed.pop(fingerprint, None)
            return self._by_fingerprint.setdefault(fingerprint, schema)

    def newest(self, topic: str) -> EventSchema:
        """Return a topic's newest schema, as it was when first asked for. Raises UnknownSchemaError."""
        schema = self._newest.get(topic)
        if schema is None:
            schema = self._newest[topic] = self._read_newest(topic)
        return schema

    def schemas(self, topic: str) -> list[NumberedSchema]:
        """Return all schemas of a topic, in order."""
        return [NumberedSchema(number, self._parse(text)) for number, text in self._nodes.numbered(topic).items()]

    def topics(self) -> list[str]:
        """Return the topics that have schemas, sorted."""
        return self._nodes.topics()

    def snapshot(self, *topics: str) -> KnownSchemas:
        """Return all schemas, for processes without ZooKeeper; `topics` limits which topics' newest schemas it has.

        A znode that holds no valid schema is left out and logged; so is a topic whose newest schema is not valid.
        """
        newest: dict[str, EventSchema] = {}
        stored: dict[str, list[NumberedSchema]] = {}
        for topic in topics or self.topics():
            try:
                newest[topic] = self._read_newest(topic)
                stored[topic] = self._valid(topic)
            except UnknownSchemaError:
                continue
            except (InvalidSchemaError, MalformedNode) as error:
                logger.warning("The newest schema of topic %s cannot be used: %s", topic, error)
        others: list[EventSchema] = []
        for fingerprint, text in self._nodes.fingerprints().items():
            try:
                others.append(self._parse(text))
            except InvalidSchemaError as error:
                logger.warning("The schema of fingerprint %s cannot be used: %s", fingerprint, error)
        return KnownSchemas(newest, others, stored)

    def _valid(self, topic: str) -> list[NumberedSchema]:
        """Return the schemas of a topic that can be used; the others are logged."""
        valid = []
        for number, text in self._nodes.numbered(topic).items():
            try:
                valid.append(NumberedSchema(number, self._parse(text)))
            except InvalidSchemaError as error:
                logger.warning("Schema %d of topic %s cannot be used: %s", number, topic, error)
        return valid

    def _look_up(self, fingerprint: str) -> EventSchema:
        text = self._nodes.text_of(fingerprint)
        if text is None:
            raise UnknownSchemaError.of_fingerprint(fingerprint)
        return self._parse(text)

    def _parse(self, text: str) -> EventSchema:
        schema = self._parsed.get(text)
        return schema or self._parsed.setdefault(text, EventSchema(text))

    def _read_newest(self, topic: str) -> EventSchema:
        numbered = self._nodes.numbered(topic)
        if not numbered:
            raise UnknownSchemaError.of_topic(topic)
        return self._parse(numbered[max(numbered)])

    def _keep(self, schema: EventSchema) -> None:
        kept = EventSchema(self._nodes.keep(schema.fingerprint, schema.text))
        if kept.canonical != schema.canonical:
            raise IncompatibleSchemaError(
                f"fingerprint {schema.fingerprint} stands for another schema, {kept.name}: change a name in this one"
            )
