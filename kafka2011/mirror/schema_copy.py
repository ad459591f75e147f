"""Schemas of mirrored topics, kept in the target's registry too, so that readers can decode the events there.

They are copied before anything of a topic is forwarded, and then looked for again and again. So events of a schema that
is registered later may arrive a few seconds before it.
"""

from __future__ import annotations

import logging
import threading
from contextlib import ExitStack
from typing import Self

from kafka2011.errors import KafkaError
from kafka2011.events.errors import SchemaError
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
        self._copied: dict[tuple[str, str], int] = {}  # by source and topic, the number of the newest
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
            for source, topic in list(self._copied):
                try:
                    self._copy(source, topic)
                except KafkaError as error:
                    logger.info("schemas of %s at %s cannot be looked up: %s", topic, source, error)

    def _copy(self, source: str, topic: str) -> None:
        with self._lock:
            if source not in self._sources:
                self._sources[source] = SchemaRegistry(self._stack.enter_context(connect(source)))
            known = self._copied.setdefault((source, topic), 0)
            for number, schema in self._sources[source].schemas(topic):
                if number > known:
                    self._target.register(topic, schema, force=True)  # which the source's registry has accepted
                    self._copied[source, topic] = number
