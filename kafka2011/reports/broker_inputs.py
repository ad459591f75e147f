"""Events straight from the brokers, up to where their logs ended when they were looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka2011.errors import KafkaError
from kafka2011.events.errors import UnansweredSchemaError, UnknownSchemaError
from kafka2011.events.schema_registry import SchemaRegistry
from kafka2011.reports.broker_events import decoded
from kafka2011.reports.catalog import TOPICS
from kafka2011.reports.event_frames import dated, wanted_columns
from kafka2011.spark import resolve_offsets
from zk.brokers import BrokerRegistry
from zk.connecting import connect

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import date

    from pyspark.sql import DataFrame, SparkSession

    from kafka2011.events.schemas import KnownSchemas
    from kafka2011.spark import ResolvedOffsets


class BrokerInputs:
    """Implements `inputs.ReportInputs` on topics of a cluster: all that their logs still hold.

    Raises KafkaError without ZooKeeper, and when a broker that is known does not answer.
    """

    kind = "brokers"

    def __init__(self, spark: SparkSession, zk_connect: str) -> None:
        self._spark = spark
        self._zk_connect = zk_connect
        with connect(zk_connect) as client:
            known = set(BrokerRegistry(client).topics())
            registry = SchemaRegistry(client)
            self._schemas = {topic: _schemas_of(registry, topic) for topic in TOPICS if topic in known}
        self._offsets = {
            topic: resolve_offsets({"zk.connect": zk_connect, "subscribe": topic}) for topic in self._schemas
        }
        self.through: Mapping[str, Any] = {topic: _ranges(resolved) for topic, resolved in self._offsets.items()}
        self.quarantined: Mapping[str, int] = {}

    def goes_on(self, after: Mapping[str, Any]) -> bool:
        """Say whether nothing has changed: what retention removes would be missing in results that went on."""
        return dict(after) == dict(self.through)

    def touched(self, topic: str, after: Any, reach_s: int) -> set[date]:
        """Is not asked: all days are derived, or none."""
        raise NotImplementedError

    def events(self, topic: str, dates: Collection[date] | None) -> DataFrame:
        """Return all events of a topic; a message that cannot be decoded fails the job that reads it."""
        assert dates is None
        resolved = self._offsets[topic]
        rows = (
            self._spark.read.format("kafka2011")
            .option("zk.connect", self._zk_connect)
            .option("subscribe", topic)
            .option("startingOffsets", resolved.starting_offsets)
            .option("endingOffsets", resolved.ending_offsets)
            .load()
        )
        return dated(decoded(rows, (topic,), self._schemas[topic], wanted_columns(topic).names).drop("topic"))

    def learns_from(self, error: Exception) -> bool:
        """Look up the schemas of other topics that a failed job has met; say whether there were any."""
        asked = UnansweredSchemaError.named_in(str(error))
        if asked:
            with connect(self._zk_connect) as client:
                answers = SchemaRegistry(client).answers(asked)
            self._schemas = {topic: schemas.with_answers(*answers) for topic, schemas in self._schemas.items()}
        return bool(asked)


def _schemas_of(registry: SchemaRegistry, topic: str) -> KnownSchemas:
    """Return the schemas of a topic, retired ones too: their events are in the log. Raises KafkaError."""
    try:
        found = registry.of_topic(topic)
    except UnknownSchemaError as error:
        raise KafkaError(f"{error}: reports read events alone") from error
    every = sorted((*found.in_use, *found.retired), key=lambda numbered: numbered.number)
    return found._replace(in_use=every, retired=[]).known(topic)


def _ranges(resolved: ResolvedOffsets) -> dict[str, list[int]]:
    return {
        offset_range.topic_partition.znode_name: [offset_range.start, offset_range.end]
        for offset_range in resolved.ranges
    }
