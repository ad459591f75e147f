"""Schemas of mirrored topics, kept in the target's registry too, so that readers can decode the events there.

They are copied before anything of a topic is forwarded, and then looked for again and again. So events of a schema that
is registered later may arrive a few seconds before it. A schema that the target refuses is left out, and the log says
why; later ones are copied.
"""

from __future__ import annotations

import logging
import threading
from contextlib import ExitStack
from typing import Self

from kafka2011.errors import KafkaError
from kafka2011.events.errors import SchemaError, UnknownSchemaError
from kafka2011.events.schema_registry import SchemaRegistry
from zk.connecting import connect
from zk.errors import MalformedNode

logger = logging.getLogger(__name__)

LOOK_S = 3.0
_RETRY_S = 1.0


class SchemaCopy:
    """Copies schemas of topics from the registries of sources into the target's; a context manager.

    `target` and sources are what zk.connect is, and `stop` ends every wait. Raises ZkError when the target's ZooKeeper
    does not answer.
    """

    def __init__(self, target: str, stop: threading.Event) -> None:
        self._stack = ExitStack()
        self._target = SchemaRegistry(self._stack.enter_context(connect(target)))
        self._stop = stop
        self._lock = threading.Lock()  # of what follows
        self._sources: dict[str, SchemaRegistry] = {}
        self._done: dict[tuple[str, str], set[int]] = {}  # by source and topic, the numbers that are copied or refused
        self._thread = threading.Thread(target=self._run, name="mirror schemas", daemon=True)
        self._thread.start()

    def on_topic(self, source: str, topic: str) -> None:
        """Copy the schemas of a topic of which something is about to be forwarded, however long that takes.

        What is no schema does not become one: then the topic is forwarded without those that are not copied yet.
        """
        while not self._stop.is_set():
            try:
                self._copy(source, topic)
            except (SchemaError, MalformedNode) as error:
                logger.error("schemas of %s at %s are not copied: %s", topic, source, error)  # noqa: TRY400
                return
            except KafkaError as error:
                logger.warning("schemas of %s at %s cannot be copied, trying again: %s", topic, source, error)
                self._stop.wait(_RETRY_S)
            else:
                return

    def close(self) -> None:
        """End; may be called twice. `stop` must have been set."""
        self._thread.join()
        self._stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self.close()

    def _run(self) -> None:
        while not self._stop.wait(LOOK_S):
            for source, topic in list(self._done):
                try:
                    self._copy(source, topic)
                except KafkaError as error:
                    logger.info("schemas of %s at %s cannot be looked up: %s", topic, source, error)

    def _copy(self, source: str, topic: str) -> None:
        with self._lock:
            if source not in self._sources:
                self._sources[source] = SchemaRegistry(self._stack.enter_context(connect(source)))
            done = self._done.setdefault((source, topic), set())
            try:
                schemas = self._sources[source].of_topic(topic)
            except UnknownSchemaError:
                return
            for number, schema in sorted((*schemas.in_use, *schemas.retired), key=lambda numbered: numbered.number):
                if number in done:
                    continue
                try:
                    self._target.register(topic, schema, force=True)  # the source's registry has accepted its types
                except SchemaError as error:
                    logger.error("schema %d of %s at %s is not copied: %s", number, topic, source, error)  # noqa: TRY400
                done.add(number)
