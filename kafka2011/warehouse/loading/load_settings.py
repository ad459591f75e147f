"""Settings of a load."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kafka2011.errors import ConfigError
from kafka2011.spark.options import BatchOptions
from zk.connecting import connect

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafka2011.audit.pipeline import Pipeline
    from zk.client import ZkClient
    from zk.cluster import TopicPartition

TARGET_FILE_BYTES = 128 * 1024 * 1024
TASK_BYTES = 64 * 1024 * 1024
"""About as much of a log is one task's."""
SMALL_BYTES = TASK_BYTES // 8
"""No more than this is read in the process that loads; more is worth a task for each core."""
HELD_BYTES = 128 * 1024 * 1024
"""A task writes what it holds in memory once that is so much."""
_HELD_PER_WRITTEN = 4
"""How many bytes of rows in memory make about one byte of a Parquet file."""

_CHOSEN = frozenset(
    {
        *("zk.connect", "broker.list", "subscribe", "subscribepattern", "groupid", "corruptmessages", "pushfilters"),
        *("assign", "startingoffsetsbytimestamp", "startingoffsetsbytimestampstrategy", "endingoffsetsbytimestamp"),
        *("startingoffsets", "startingtimestamp", "endingoffsets", "endingtimestamp", "failondataloss"),
    }
)
_DEFAULTS = {"kafkaConsumer.pollTimeoutMs": 30_000, "fetchOffset.numRetries": 5}
"""Nobody waits long for a broker that is away: the next load reads what this one leaves."""


@dataclass(frozen=True, kw_only=True)
class LoadSettings:
    """Describes how topics are loaded; the same for each topic of a run.

    `restart_replaced`: load partitions whose log is not the one that was loaded from its beginning, instead of
    refusing. `group`: where offsets are committed afterwards, for monitoring. `tier`: the name of this tier of the
    audit; none for no counting. `replaced_table`: the id of the table that reported as this tier until now, if another
    one is to take its place. `pipeline`: what that audit should find. `begin_at`: where a new table begins, other
    partitions than these at their first message. `source` holds more options of the Spark source, such as `fetch.size`.
    """

    zk_connect: str
    fail_on_data_loss: bool = True
    restart_replaced: bool = False
    target_file_bytes: int = TARGET_FILE_BYTES
    group: str = ""
    tier: str = ""
    pipeline: Pipeline | None = None
    replaced_table: str = ""
    begin_at: Mapping[TopicPartition, int] = field(default_factory=dict)
    source: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for key in self.source:
            if key.lower() in _CHOSEN:
                raise ConfigError(f"a load chooses {key} of the source itself")
        if self.pipeline is not None and self.tier not in [tier.name for tier in self.pipeline.tiers]:
            raise ConfigError(
                f"{self.pipeline.path} does not declare the tier of this load, {self.tier!r}: see --audit"
            )
        if self.replaced_table and not self.tier:
            raise ConfigError("a table replaces another one as a tier of the audit: name the tier (--audit)")
        if self.target_file_bytes < 1:
            raise ConfigError(f"files of {self.target_file_bytes} bytes cannot be written")

    @property
    def held_bytes(self) -> int:
        """Return how many bytes of rows a task holds before it writes them as files, one for each day."""
        return min(HELD_BYTES, self.target_file_bytes * _HELD_PER_WRITTEN)

    def connect(self) -> ZkClient:
        """Open a session with ZooKeeper, which any load may use. Raises ZkError."""
        options = self.read_options("any")
        return connect(self.zk_connect, options.zk_sessiontimeout_ms, options.zk_connectiontimeout_ms)

    def read_options(self, topic: str) -> BatchOptions:
        """Return the options with which a topic is read. Raises ConfigError."""
        options = {
            **_DEFAULTS,
            **self.source,
            "zk.connect": self.zk_connect,
            "subscribe": topic,
            "corruptMessages": "null",
            "failOnDataLoss": self.fail_on_data_loss,
        }
        return BatchOptions.from_options({key: str(value) for key, value in options.items()})
