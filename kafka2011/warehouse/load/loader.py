"""Loads several topics, each into its own table and with its own commit; once, or again and again."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

from kafka2011.errors import ConfigError, KafkaError
from kafka2011.spark.driver_jvm import check_alive, telling_of_its_death
from kafka2011.spark.group_commit import commit_offsets
from kafka2011.spark.offset_ranges import nest
from kafka2011.warehouse.load.counting import LoadAudit
from kafka2011.warehouse.load.load_settings import LoadSettings
from kafka2011.warehouse.load.redrive import redrive
from kafka2011.warehouse.load.topic_load import Loaded, TopicLoad
from kafka2011.warehouse.load.write import PartitionBy
from kafka2011.warehouse.table.formats import Format, open_quarantine, open_topic_table
from kafka2011.warehouse.table.parquet.rebuild import rebuilt_table
from zk.brokers import BrokerRegistry
from zk.clock import SYSTEM_CLOCK
from zk.connecting import connect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pyspark.sql import SparkSession

    from kafka2011.warehouse.table.quarantine import Quarantine
    from kafka2011.warehouse.table.table import Table
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
            "rows": sum(each.rows for each in self.loaded),
            "quarantined": sum(each.quarantined for each in self.loaded),
            "topics": [each.to_json() for each in self.loaded],
            "failed": [{"topic": topic, "error": str(error)} for topic, error in self.failed.items()],
        }


def check_together(
    settings: LoadSettings, topics: Sequence[str], table_format: Format, into: str | None = None
) -> None:
    """Raise ConfigError for what a `Loader` cannot do together."""
    if settings.dedup_window_s is not None and table_format is not Format.PARQUET:
        raise ConfigError("repeats are left out of tables of Parquet files only")
    if into is None:
        return
    if len(topics) != 1 or table_format is not Format.PARQUET:
        raise ConfigError(f"{into} is rebuilt from one topic, as Parquet files")
    if settings.tier or settings.group:
        raise ConfigError(f"{into} is rebuilt from messages that another load counts for the audit, and commits")


class Loader:
    """Loads topics: those that are named, or all whose whole name matches a pattern, later ones too.

    `into` is the name of a table beside that of its one topic, which is rebuilt there. Not for several threads.
    Raises ConfigError unless there are either names or a pattern, and for options that a rebuild does not allow.
    """

    def __init__(
        self,
        spark: SparkSession,
        warehouse: str,
        settings: LoadSettings,
        *,
        topics: Iterable[str] = (),
        pattern: str = "",
        table_format: Format = Format.PARQUET,
        into: str | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._spark = spark
        self._warehouse = warehouse
        if table_format is Format.DELTA:  # whose readers skip files by their statistics
            settings = replace(settings, partition_by=PartitionBy.DAY)
        self._settings = settings
        self._topics = tuple(dict.fromkeys(topics))
        if bool(self._topics) == bool(pattern):
            raise ConfigError("name topics to load, or give a pattern, one of them")
        try:
            self._pattern = re.compile(pattern)
        except re.error as error:
            raise ConfigError(f"{pattern!r} is not a regex: {error}") from error
        check_together(settings, self._topics, table_format, into)
        self._format = table_format
        self._into = into
        self._clock = clock
        self._loads: dict[str, TopicLoad] = {}
        self._audits: dict[str, LoadAudit] = {}

    def topics(self) -> Sequence[str]:
        """Return what is to be loaded now. Raises ZkError."""
        if self._topics:
            return self._topics
        with connect(self._settings.zk_connect) as client:
            every = sorted(BrokerRegistry(client).topics())
        return [topic for topic in every if topic not in NEVER_LOADED and self._pattern.fullmatch(topic)]

    def run(self, stopping: Callable[[], bool] = lambda: False) -> Round:
        """Load every topic once, one after the other; one that fails is logged, and leaves the others alone.

        Before each it asks whether it should stop. Raises SparkDiedError.
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
            except KafkaError as error:
                check_alive(error)
                logger.error("topic %s was not loaded: %s", topic, error)  # noqa: TRY400 (the text says it all)
                failed[topic] = error
        return Round(tuple(loaded), failed)

    def redrive(self) -> Round:
        """Decode what is in the quarantine of every topic again; one that fails leaves the others alone."""
        loaded: list[Loaded] = []
        failed: dict[str, KafkaError] = {}
        for topic in self.topics():
            try:
                loaded.append(self._redrive(topic))
            except KafkaError as error:
                check_alive(error)
                logger.error("topic %s: quarantine was not decoded again: %s", topic, error)  # noqa: TRY400
                failed[topic] = error
        return Round(tuple(loaded), failed)

    def close(self) -> None:
        """Let go of what loads have opened."""
        for audit in self._audits.values():
            audit.close()
        self._audits.clear()
        self._loads.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _redrive(self, topic: str) -> Loaded:
        began_s = self._clock.monotonic_s()
        table, quarantine = self._open(topic)
        commit = redrive(self._spark, table, quarantine, self._settings, self._audit_of(topic), self._clock)
        seconds = self._clock.monotonic_s() - began_s
        if commit is None:
            return Loaded(topic, seconds=seconds)
        return Loaded(topic, commit.number, commit.rows, commit.quarantined, seconds=seconds, offsets=commit.offsets)

    def _load_of(self, topic: str) -> TopicLoad:
        if topic not in self._loads:
            self._loads[topic] = TopicLoad(
                self._spark, *self._open(topic), self._settings, audit=self._audit_of(topic), clock=self._clock
            )
        return self._loads[topic]

    def _audit_of(self, topic: str) -> LoadAudit | None:
        if not self._settings.tier:
            return None
        if topic not in self._audits:
            self._audits[topic] = LoadAudit(topic, self._settings.tier, self._settings.zk_connect)
        return self._audits[topic]

    def _open(self, topic: str) -> tuple[Table, Quarantine]:
        table: Table
        if self._into is None:
            table = open_topic_table(self._format, self._warehouse, topic, self._spark)
        else:
            table = rebuilt_table(self._warehouse, topic, self._into, spark=self._spark)
        return table, open_quarantine(self._warehouse, topic, self._spark)


def load(
    topics: Iterable[str],
    *,
    warehouse: str,
    zk_connect: str,
    spark: SparkSession | None = None,
    table_format: str = Format.PARQUET,
    **settings: Any,
) -> list[Loaded]:
    """Load topics into their tables, each from where its last load ended up to now; return what was loaded.

    `settings` are those of `LoadSettings`. Without `spark` it is a session of our own, in the Spark that runs, or in
    one that is started here. All topics are tried; then the first error is raised, a KafkaError: of the topics that
    failed nothing is loaded.
    """
    if spark is None:
        from kafka2011.warehouse.load.running_spark import open_spark  # noqa: PLC0415 (as the session is)

        spark = open_spark()
    read = LoadSettings(zk_connect=zk_connect, **settings)
    with (
        telling_of_its_death(),
        Loader(spark, warehouse, read, topics=topics, table_format=Format(table_format)) as loader,
    ):
        done = loader.run()
    for error in done.failed.values():
        raise error
    return list(done.loaded)
