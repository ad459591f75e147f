"""Loads several topics, each into its own table and with its own commit; once, or again and again."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kafka2011.errors import REGEX_ERRORS, ConfigError, KafkaError, UnexpectedError, as_failure
from kafka2011.spark.group_commit import commit_offsets
from kafka2011.spark.offset_ranges import nest
from kafka2011.warehouse.loading.counting import LoadAudit
from kafka2011.warehouse.loading.load_settings import LoadSettings
from kafka2011.warehouse.loading.opening import opened_engine
from kafka2011.warehouse.loading.place import WorkPlace
from kafka2011.warehouse.loading.redrive import redrive
from kafka2011.warehouse.loading.topic_load import Loaded, TopicLoad
from kafka2011.warehouse.table.locations import check_reachable
from kafka2011.warehouse.table.quarantine import open_quarantine
from kafka2011.warehouse.table.topic_table import TopicTable
from zk.brokers import BrokerRegistry
from zk.clock import SYSTEM_CLOCK
from zk.closing import Closing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pyspark.sql import SparkSession

    from kafka2011.warehouse.loading.engine import Engine
    from kafka2011.warehouse.table.quarantine import Quarantine
    from kafka2011.warehouse.table.tending import Tending
    from zk.client import ZkClient
    from zk.clock import Clock

logger = logging.getLogger(__name__)

NEVER_LOADED = frozenset({"audit"})
"""Topics that a pattern does not mean: reports are of use to the audit only."""


@dataclass(frozen=True, slots=True)
class Round:
    """What one load of all topics came to."""

    loaded: tuple[Loaded, ...] = ()
    failed: dict[str, KafkaError] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return it as what JSON can hold."""
        return {
            "rows": sum(topic_load.rows for topic_load in self.loaded),
            "quarantined": sum(topic_load.quarantined for topic_load in self.loaded),
            "topics": [topic_load.to_json() for topic_load in self.loaded],
            "failed": [{"topic": topic, "error": str(error)} for topic, error in self.failed.items()],
        }


def check_together(settings: LoadSettings, topics: Sequence[str], into: str | None = None) -> None:
    """Raise ConfigError for what a `Loader` cannot do together."""
    if into is None:
        return
    if len(topics) != 1 or into in topics:
        raise ConfigError(f"{into} is rebuilt from one topic, beside the table of that name")
    if settings.tier or settings.group:
        raise ConfigError(f"{into} is rebuilt from messages that another load counts for the audit, and commits")


class Loader(Closing):
    """Loads topics: those that are named, or all whose whole name matches a pattern, later ones too.

    `into` is the name of a table beside that of its one topic, which is rebuilt there. `tending` does a little upkeep
    after each load of a topic. Not for several threads.
    Raises ConfigError unless there are either names or a pattern, and for options that a rebuild does not allow.
    """

    def __init__(
        self,
        engine: Engine,
        warehouse: str,
        settings: LoadSettings,
        *,
        topics: Iterable[str] = (),
        pattern: str = "",
        into: str | None = None,
        tending: Tending | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._engine = engine
        self._warehouse = warehouse
        self._settings = settings
        self._topics = tuple(dict.fromkeys(topics))
        if bool(self._topics) == bool(pattern):
            raise ConfigError("name topics to load, or give a pattern, but not both")
        try:
            self._pattern = re.compile(pattern)
        except REGEX_ERRORS as error:
            raise ConfigError(f"{pattern!r} is not a regex: {error}") from error
        check_together(settings, self._topics, into)
        self._into = into
        self._tending = tending
        self._clock = clock
        self._loads: dict[str, TopicLoad] = {}
        self._audits: dict[str, LoadAudit] = {}
        self._client: ZkClient | None = None

    def topics(self) -> Sequence[str]:
        """Return what is to be loaded now. Raises ZkError."""
        if self._topics:
            return self._topics
        every = sorted(BrokerRegistry(self._connected()).topics())
        return [topic for topic in every if topic not in NEVER_LOADED and self._pattern.fullmatch(topic)]

    def run(self, stopping: Callable[[], bool] = lambda: False) -> Round:
        """Load every topic once, one after the other; one that fails is logged, and leaves the others alone.

        That is so for any exception. Before each topic it asks whether it should stop. Raises SparkDiedError.
        """
        loaded: list[Loaded] = []
        failed: dict[str, KafkaError] = {}
        for topic in self.topics():
            if stopping():
                break
            try:
                done = self._load_of(topic).load()
                loaded.append(done)
                if self._settings.group and done.offsets:
                    commit_offsets(self._settings.zk_connect, self._settings.group, nest(done.offsets))
                if self._tending is not None:
                    self._tending.tend(self._open(topic)[0], has_loaded=done.number is not None)
            except BaseException as error:  # noqa: BLE001 (whatever it is, the other topics are loaded)
                load = self._loads.get(topic)
                failed[topic] = self._failure(
                    topic, error, "was not loaded", WorkPlace() if load is None else load.place
                )
        return Round(tuple(loaded), failed)

    def redrive(self) -> Round:
        """Decode what is in the quarantine of every topic again; one that fails leaves the others alone."""
        loaded: list[Loaded] = []
        failed: dict[str, KafkaError] = {}
        for topic in self.topics():
            place = WorkPlace()
            try:
                loaded.append(self._redrive(topic, place))
            except BaseException as error:  # noqa: BLE001 (as above)
                failed[topic] = self._failure(topic, error, "has the same quarantine as before", place)
        return Round(tuple(loaded), failed)

    def _failure(self, topic: str, error: BaseException, what: str, place: WorkPlace) -> KafkaError:
        """Log why a topic failed, and return it. Raises SparkDiedError, and what ends the process."""
        failure = as_failure(error)
        self._engine.check_alive(failure)
        where = f" ({place})" if str(place) else ""
        logger.error("topic %s %s%s: %s", topic, what, where, failure)
        if isinstance(failure, UnexpectedError):
            logger.debug("topic %s: the error was raised here", topic, exc_info=error)
            self._loads.pop(topic, None)  # the next load starts without what this one has left
        return failure

    def close(self) -> None:
        """Let go of what loads have opened."""
        for audit in self._audits.values():
            audit.close()
        self._audits.clear()
        self._loads.clear()
        if self._client is not None:
            self._client.shutdown()
            self._client = None

    def _redrive(self, topic: str, place: WorkPlace) -> Loaded:
        began_s = self._clock.monotonic_s()
        table, quarantine = self._open(topic)
        commit = redrive(table, quarantine, self._settings, self._audit_of(topic), self._clock, place)
        seconds = self._clock.monotonic_s() - began_s
        if commit is None:
            return Loaded(topic, seconds=seconds)
        return Loaded(topic, commit.number, commit.rows, commit.quarantined, seconds=seconds, offsets=commit.offsets)

    def _load_of(self, topic: str) -> TopicLoad:
        if topic not in self._loads:
            self._loads[topic] = TopicLoad(
                self._engine,
                *self._open(topic),
                self._settings,
                audit=self._audit_of(topic),
                client=self._connected(),
                clock=self._clock,
            )
        return self._loads[topic]

    def _connected(self) -> ZkClient:
        """Return a session that all loads use, the next ones too. Raises ZkError."""
        if self._client is None:
            self._client = self._settings.connect()
        return self._client

    def _audit_of(self, topic: str) -> LoadAudit | None:
        if not self._settings.tier:
            return None
        if topic not in self._audits:
            self._audits[topic] = LoadAudit(
                topic,
                self._settings.tier,
                self._settings.zk_connect,
                pipeline=self._settings.pipeline,
                replaces=self._settings.replaced_table,
            )
        return self._audits[topic]

    def _open(self, topic: str) -> tuple[TopicTable, Quarantine]:
        table = TopicTable(self._warehouse, topic, name=self._into)
        return table, open_quarantine(self._warehouse, topic)


def load(
    topics: Iterable[str],
    *,
    warehouse: str,
    zk_connect: str,
    spark: SparkSession | None = None,
    master: str | None = None,
    **settings: Any,
) -> list[Loaded]:
    """Load topics into their tables, each from where its last load ended to its present end; return what was loaded.

    `warehouse` is the directory or URL of the tables, and `settings` are those of `LoadSettings`. Without `spark`, the
    session of the running Spark is used, or one is started for `master`; with the master `none`, processes of this
    machine load. All topics are tried; then the first error is raised, a KafkaError. Nothing is loaded of a topic that
    failed.
    """
    check_reachable(warehouse)
    read = LoadSettings(zk_connect=zk_connect, **settings)
    with opened_engine(master, spark) as engine, Loader(engine, warehouse, read, topics=topics) as loader:
        done = loader.run()
    for error in done.failed.values():
        raise error
    return list(done.loaded)
