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
from kafka2011.events.errors import (
    IncompatibleSchemaError,
    InvalidSchemaError,
    RetiredSchemaError,
    SchemaError,
    UnknownSchemaError,
)
from kafka2011.events.logical_types import log_ignored
from kafka2011.events.schema_text import check_text
from kafka2011.events.schemas import EventSchema, KnownSchemas, parsed_once
from kafka2011.message.topic import validate_topic
from zk.clock import SYSTEM_CLOCK
from zk.errors import MalformedNode, NodeExists
from zk.paths import schema_compatibility
from zk.schemas import SchemaNodes

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

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


class TopicSchemas(NamedTuple):
    """The schemas of a topic as they are now: those in use and those that are retired, in order, and other znodes."""

    in_use: list[NumberedSchema]
    retired: list[NumberedSchema]
    unusable: dict[str, KafkaError]
    """Why other znodes are no schemas, by their names."""

    @property
    def newest_number(self) -> int:
        """The number of the newest schema in use; 0 if all are retired."""
        return self.in_use[-1].number if self.in_use else 0

    def known(self, topic: str) -> KnownSchemas:
        """Return them for processes without ZooKeeper, which cannot tell of fingerprints of other schemas."""
        newest = {topic: self.in_use[-1].schema} if self.in_use else {}
        return KnownSchemas(newest, (), {topic: self.in_use}, {topic: self.retired}, ())


class Answers(NamedTuple):
    """What fingerprints stand for: the schemas that were found, and those that nobody has registered."""

    found: tuple[EventSchema, ...]
    absent: frozenset[str]


class SchemaRegistry:
    """Registers and finds schemas; looks up each fingerprint once.

    May be shared by threads. Every method raises ZkUnavailable when ZooKeeper does not answer, and InvalidSchemaError
    if a znode holds no schema.

    `client` is connected to the ZooKeeper of the cluster.
    """

    def __init__(self, client: ZkClient, clock: Clock = SYSTEM_CLOCK) -> None:
        self._nodes = SchemaNodes(client)
        self._clock = clock
        self._lock = threading.Lock()
        self._by_fingerprint: dict[str, EventSchema] = {}
        self._logged: set[tuple[str, str]] = set()  # topics and names of znodes that are no schemas
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
            number = _next_number(known)
            try:
                self._nodes.add(topic, number, schema.text)
            except NodeExists:
                continue  # another process's schema; check against it too
            logger.info("Registered schema %d of topic %s: %s %s", number, topic, schema.name, schema.fingerprint)
            log_ignored(schema.document, topic, logging.WARNING)
            return NumberedSchema(number, schema)

    def check(self, topic: str, schema: EventSchema | str, *, force: bool = False) -> NumberedSchema | None:
        """Check that a schema can be registered. Return it with its number if it is registered already, else None.

        Raises IncompatibleSchemaError unless it goes with the others as the topic's `compatibility` asks, or `force` is
        set; ColumnError if loads could not make its fields columns; RetiredSchemaError if it is retired there;
        InvalidSchemaError, InvalidTopicError.
        """
        validate_topic(topic)
        schema = EventSchema.of(schema)
        registered = self._check(topic, schema, self.schemas(topic), force=force)
        if registered is None:
            log_ignored(schema.document, topic, logging.WARNING)
        return registered

    def _check(
        self, topic: str, schema: EventSchema, known: Sequence[NumberedSchema], *, force: bool
    ) -> NumberedSchema | None:
        retired = self._nodes.retired(topic)
        for numbered in known:
            if numbered.schema == schema:
                if numbered.number in retired:
                    raise RetiredSchemaError(_refusal(topic, numbered))
                return numbered
        check_text(schema)
        in_use = [numbered for numbered in known if numbered.number not in retired]
        level = Compatibility.NONE if force else self.compatibility(topic)
        check_compatible(schema, in_use, topic, level)
        check_usable(schema, in_use, topic, number=_next_number(known), may_exclude=level is Compatibility.NONE)
        return None

    def retire(self, topic: str, number: int) -> bool:
        """Leave the schema `number` of a topic out from now on; return False if it is retired already.

        The next schema need not be compatible with it, loads put its events into quarantine, and nobody registers it
        again. Consumers still decode its events. Raises UnknownSchemaError, InvalidTopicError.
        """
        self._check_number(topic, number)
        return self._nodes.retire(topic, number)

    def restore(self, topic: str, number: int) -> bool:
        """Restore the retired schema `number` of a topic; return False if it is not retired.

        Raises UnknownSchemaError, InvalidTopicError.
        """
        self._check_number(topic, number)
        return self._nodes.restore(topic, number)

    def _check_number(self, topic: str, number: int) -> None:
        validate_topic(topic)
        known, _ = self._nodes.readable(topic)
        if number not in known:
            raise UnknownSchemaError.of_number(topic, number, max(known, default=0))

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
                self._note_failure(fingerprint, failure)
                raise
            self._failed.pop(fingerprint, None)
            return self._by_fingerprint.setdefault(fingerprint, schema)

    def answers(self, fingerprints: Iterable[str]) -> Answers:
        """Return what `fingerprints` stand for, looked up all at once; a znode that is no schema is logged.

        One that was not found is looked up again after 10 seconds at the earliest, as by `schema_of`.
        """
        found: dict[str, EventSchema] = {}
        absent: set[str] = set()
        with self._lock:
            asked = [fingerprint for fingerprint in fingerprints if not self._is_known(fingerprint, found, absent)]
            for fingerprint, text in self._nodes.texts_of(asked).items():
                try:
                    if isinstance(text, MalformedNode):
                        raise text
                    found[fingerprint] = self._by_fingerprint[fingerprint] = self._parse(text)
                except (InvalidSchemaError, MalformedNode) as error:
                    logger.warning("the schema of fingerprint %s cannot be used: %s", fingerprint, error)
                    self._note_failure(fingerprint, error)
                    absent.add(fingerprint)
            for fingerprint in asked:
                if fingerprint not in found and fingerprint not in absent:
                    self._note_failure(fingerprint, UnknownSchemaError.of_fingerprint(fingerprint))
                    absent.add(fingerprint)
        return Answers(tuple(found.values()), frozenset(absent))

    def _is_known(self, fingerprint: str, found: dict[str, EventSchema], absent: set[str]) -> bool:
        """Add what is known of a fingerprint without asking ZooKeeper; return whether it is known."""
        until_s, error = self._failed.get(fingerprint, (0.0, None))
        if fingerprint in self._by_fingerprint:
            found[fingerprint] = self._by_fingerprint[fingerprint]
        elif error is not None and self._clock.monotonic_s() < until_s:
            absent.add(fingerprint)
        return fingerprint in found or fingerprint in absent

    def _note_failure(self, fingerprint: str, failure: KafkaError) -> None:
        if len(self._failed) >= _MAX_FAILED:
            self._failed.clear()
        self._failed[fingerprint] = (self._clock.monotonic_s() + _AGAIN_AFTER_S, failure)

    def newest(self, topic: str) -> EventSchema:
        """Return a topic's newest schema that is not retired. Raises UnknownSchemaError."""
        numbered, retired = self._nodes.numbered(topic), self._nodes.retired(topic)
        if not numbered:
            raise UnknownSchemaError.of_topic(topic)
        in_use = numbered.keys() - retired
        if not in_use:
            raise UnknownSchemaError(
                f"topic {topic} has retired schemas only: register one, or see `kafka2011 schemas retire --undo`"
            )
        return self._parse(numbered[max(in_use)])

    def schemas(self, topic: str) -> list[NumberedSchema]:
        """Return all schemas of a topic, in order, also those that are retired."""
        return [NumberedSchema(number, self._parse(text)) for number, text in self._nodes.numbered(topic).items()]

    def retired(self, topic: str) -> frozenset[int]:
        """Return the numbers of a topic's retired schemas."""
        return self._nodes.retired(topic)

    def of_topic(self, topic: str) -> TopicSchemas:
        """Return the schemas of a topic as they are now; a znode that is no schema is logged once, and left out.

        Raises UnknownSchemaError, or why its znodes are no schemas, where the topic has none.
        """
        texts, malformed = self._nodes.readable(topic)
        marks = self._nodes.retired(topic)
        found = TopicSchemas([], [], dict(malformed))
        for number, text in texts.items():
            try:
                numbered = NumberedSchema(number, self._parse(text))
            except InvalidSchemaError as error:
                found.unusable[str(number)] = error
                continue
            log_ignored(numbered.schema.document, topic, logging.DEBUG)
            (found.retired if number in marks else found.in_use).append(numbered)
        for name, why in found.unusable.items():
            if not found.in_use and not found.retired:
                raise why
            if (topic, name) not in self._logged:
                self._logged.add((topic, name))
                logger.warning("schema %s of topic %s cannot be used: %s", name, topic, why)
        if not found.in_use and not found.retired:
            raise UnknownSchemaError.of_topic(topic)
        return found

    def topics(self) -> list[str]:
        """Return the topics that have schemas, sorted."""
        return self._nodes.topics()

    def snapshot(self, *topics: str) -> KnownSchemas:
        """Return all schemas, for processes without ZooKeeper; `topics` limits which topics' newest schemas it has.

        A znode that holds no valid schema is left out and logged; so is a topic whose newest schema is not valid.
        """
        known: dict[str, TopicSchemas] = {}
        newest: dict[str, EventSchema] = {}
        for topic in topics or self.topics():
            try:
                newest[topic] = self.newest(topic)
                known[topic] = self.of_topic(topic)
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
        return KnownSchemas(
            newest,
            others,
            {topic: schemas.in_use for topic, schemas in known.items()},
            {topic: schemas.retired for topic, schemas in known.items()},
        )

    def _look_up(self, fingerprint: str) -> EventSchema:
        text = self._nodes.text_of(fingerprint)
        if text is None:
            raise UnknownSchemaError.of_fingerprint(fingerprint)
        return self._parse(text)

    def _parse(self, text: str) -> EventSchema:
        schema = self._parsed.get(text)
        return schema or self._parsed.setdefault(text, parsed_once(text))

    def _keep(self, schema: EventSchema) -> None:
        kept = EventSchema(self._nodes.keep(schema.fingerprint, schema.text))
        if kept.canonical != schema.canonical:
            raise IncompatibleSchemaError(
                f"fingerprint {schema.fingerprint} stands for another schema, {kept.name}: change a name in this one"
            )


def _next_number(known: Sequence[NumberedSchema]) -> int:
    """Return the number of a topic's next schema: above all that there were, retired ones too."""
    return known[-1].number + 1 if known else 1


def _refusal(topic: str, retired: NumberedSchema) -> str:
    return (
        f"topic {topic}: {retired.schema.name} is schema {retired.number}, which is retired: loads would put its events"
        f" into quarantine. Take it back with `kafka2011 schemas retire {topic} {retired.number} --undo`"
    )
