"""The options of the source and the sink. Names are those of Spark's own Kafka connector wherever it has one.

Spark ignores the case of options, so they are read without regard to case.
"""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

from kafka2011.config import ProducerConfig
from kafka2011.config.kinds import GROUP_NAME, MAX_INT64, ZK_CONNECT, Boolean, BrokerList, Choice, Integer, Text, Topics
from kafka2011.config.settings import Fallback, Settings, same_as, setting
from kafka2011.errors import REGEX_ERRORS, ConfigError
from kafka2011.message.topic import InvalidTopicError, validate_topic
from kafka2011.spark.offset_ranges import from_json, partitions_from_json, partitions_to_json, to_json
from kafka2011.topic_pattern import TopicPattern
from kafka2011.wire.protocol import EARLIEST, LATEST
from zk.cluster import (
    Broker,  # a field's type
    TopicPartition,
)

NO_TIMESTAMP = -1

OffsetSpec = int | Mapping[TopicPartition, int]
"""EARLIEST, LATEST, or an offset (which may be one of the two) for each partition."""

PartitionTimes = tuple[tuple[TopicPartition, int], ...]
"""A time in ms since the epoch for each partition."""

_pattern = functools.cache(TopicPattern)

_WORDS = {"earliest": EARLIEST, "latest": LATEST}


def check_complete(key: str, missing: Collection[TopicPartition], values: str) -> None:
    """Raise ConfigError where an option lacks partitions that it must name; `values` says what it has for each."""
    if missing:
        names = ", ".join(str(partition) for partition in sorted(missing))
        raise ConfigError(f"{key} must name every partition ({values}); it lacks {names}")


def times_of(key: str, times: PartitionTimes, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int] | None:
    """Return the time of each of some partitions, None where no times are given. Raises ConfigError for one without."""
    if not times:
        return None
    known, wanted = dict(times), set(partitions)
    check_complete(key, wanted - known.keys(), "times are milliseconds since 1970")
    return {partition: known[partition] for partition in wanted}


@dataclass(frozen=True, slots=True)
class OffsetsKind:
    """`earliest`, `latest`, or JSON with an offset for each partition, -2 for earliest, -1 for latest."""

    allowed: tuple[str, ...] = ("earliest", "latest")

    def read(self, value: object) -> OffsetSpec:
        """Return EARLIEST, LATEST or the offsets. Raises ValueError."""
        if isinstance(value, Mapping) or value in _WORDS.values():
            return value  # type: ignore[return-value]  # read before
        text = value.strip() if isinstance(value, str) else ""
        if text.lower() in self.allowed:
            return _WORDS[text.lower()]
        if not text.startswith("{"):
            raise ValueError(f'{value!r} is not {" or ".join(self.allowed)}, or JSON {{"topic": {{"0-1": 123}}}}')
        return from_json(text, min(_WORDS[word] for word in self.allowed))

    def write(self, value: OffsetSpec) -> str:
        """Return the text that `read` turns into this value."""
        if isinstance(value, int):
            return next(word for word, number in _WORDS.items() if number == value)
        return to_json(value)


@dataclass(frozen=True, slots=True)
class TimesKind:
    """JSON with a time in ms since the epoch for each partition."""

    def read(self, value: object) -> PartitionTimes:
        """Return the times by partition, sorted. Raises ValueError."""
        if isinstance(value, tuple):
            return value  # read before
        times = from_json(value) if isinstance(value, str) else {}
        if not times:
            raise ValueError(f'{value!r} names no partition, as {{"topic": {{"0-1": 1700000000000}}}} does')
        return tuple(sorted(times.items()))

    def write(self, value: PartitionTimes) -> str:
        """Return the text that `read` turns into this value; none for no times."""
        return to_json(dict(value)) if value else ""


@dataclass(frozen=True, slots=True)
class PartitionsKind:
    """JSON with the partitions of each topic."""

    def read(self, value: object) -> tuple[TopicPartition, ...]:
        """Return the partitions, sorted. Raises ValueError."""
        if isinstance(value, tuple):
            return value  # read before
        partitions = partitions_from_json(value) if isinstance(value, str) else ()
        if not partitions:
            raise ValueError(f'{value!r} names no partition, as {{"topic": ["0-1"]}} does')
        return partitions

    def write(self, value: tuple[TopicPartition, ...]) -> str:
        """Return the text that `read` turns into this value; none for no partitions."""
        return partitions_to_json(value) if value else ""


_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = re.compile(r"(\d{1,9})\s*([a-z]+)")


@dataclass(frozen=True, slots=True)
class DurationKind:
    """A time with its unit, as `15m`, in milliseconds."""

    def read(self, value: object) -> int:
        """Return the milliseconds. Raises ValueError."""
        if isinstance(value, int) and not isinstance(value, bool):
            return value  # read before
        match = _DURATION.fullmatch(value.strip().lower()) if isinstance(value, str) else None
        if match is None or match[2] not in _UNITS_MS:
            raise ValueError(f"{value!r} is not a time with a unit, such as 500ms, 30s, 15m or 1h")
        return int(match[1]) * _UNITS_MS[match[2]]

    def write(self, value: int) -> str:
        """Return the text that `read` turns into this value."""
        unit = next((unit for unit in ("h", "m", "s") if value and value % _UNITS_MS[unit] == 0), "ms")
        return f"{value // _UNITS_MS[unit]}{unit}"


_NO_COUNTS = "offsets are bytes here, so nothing counts messages"
OF_SPARKS_CONNECTOR = {
    "groupidprefix": "groupid",
    "includeheaders": "no option: messages have no headers",
    "maxoffsetspertrigger": f"maxBytesPerTrigger: {_NO_COUNTS}",
    "maxrecordsperpartition": f"maxBytesPerPartition: {_NO_COUNTS}",
    "minoffsetspertrigger": f"minBytesPerTrigger: {_NO_COUNTS}",
    "kafka.bootstrap.servers": "zk.connect, where brokers are found, or broker.list",
    "kafka.group.id": "groupid",
}
"""Options of Spark's own Kafka connector, in lower case, and what there is here in their place."""


class _Options(Settings):
    """What options have in common."""

    __slots__ = ()

    FROM_SPARK: ClassVar[frozenset[str]] = frozenset()
    """Options that Spark itself uses and passes on."""

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> Self:
        """Read options as Spark gives them. Raises ConfigError for unknown and bad ones."""
        exact = {item.key.lower(): item.key for item in cls.settings()}
        given = {exact.get(key.lower(), key): value for key, value in options.items()}
        return cls.from_properties({key: value for key, value in given.items() if key.lower() not in cls.FROM_SPARK})

    @classmethod
    def _unknown(cls, key: str, known: list[str]) -> str:
        text = f"unknown setting {key!r} of the {cls.COMPONENT}"
        theirs = OF_SPARKS_CONNECTOR.get(key.lower())
        if theirs is None and key.lower().startswith("kafka."):
            theirs = f"one of {', '.join(known)}"
        if theirs is not None:
            return f"{text}: it is one of Spark's own Kafka connector; here it is {theirs}"
        # Spark may have lowercased it, and the nearest name should be found all the same.
        exact = {name.lower(): name for name in known}
        near = difflib.get_close_matches(key.lower(), exact, n=1, cutoff=0.5)
        return f"{text}: did you mean {exact[near[0]]!r}?" if near else text


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions(_Options):
    """Options of a batch read, and what a stream shares with it."""

    COMPONENT: ClassVar[str] = "kafka2011 source"

    zk_connect: str = setting("", ZK_CONNECT, "ZooKeeper's servers. Either this or `broker.list`.")
    broker_list: tuple[Broker, ...] = setting(
        (), BrokerList(), "Fixed brokers, `id:host:port,...`; each is asked for its partitions."
    )
    subscribe: tuple[str, ...] = setting(
        (), Topics(), "Topics to read, `topic,...`. One of this, subscribePattern and assign."
    )
    subscribe_pattern: str = setting(
        "", Text(), "A regex; topics whose whole name matches are read. Needs `zk.connect`.", key="subscribePattern"
    )
    starting_offsets: OffsetSpec | None = setting(
        None,
        OffsetsKind(),
        "Where to begin: `earliest`, `latest` (streams only), or JSON with every partition, -2 earliest, -1 latest.",
        key="startingOffsets",
        fallback=Fallback("`earliest`; streams: `latest`", lambda options: options.starting_default),
    )
    starting_timestamp: int = setting(
        NO_TIMESTAMP,
        Integer(NO_TIMESTAMP, MAX_INT64),
        "Begin with the segment that was being written at this time, in ms since the epoch. Overrides the others.",
        key="startingTimestamp",
    )
    starting_times: PartitionTimes = setting(
        (),
        TimesKind(),
        'The same with a time for each partition: `{"topic": {"0-1": ms}}`. Overrides groupid and startingOffsets.',
        key="startingOffsetsByTimestamp",
    )
    starting_strategy: str = setting(
        "latest",
        Choice(("latest", "error")),
        "Where nothing was written since the time to begin with: begin at `latest`, or stop with an `error`.",
        key="startingOffsetsByTimestampStrategy",
    )
    assign: tuple[TopicPartition, ...] = setting(
        (), PartitionsKind(), 'Partitions to read, `{"topic": ["0-1", "1-0"]}`: no others of these topics.'
    )
    groupid: str = setting(
        "",
        GROUP_NAME,
        "Begin where this consumer group has committed; partitions without a commit go by startingOffsets.",
    )
    min_partitions: int = setting(
        0, Integer(), "Cut ranges into at least this many tasks; 0: one task per partition.", key="minPartitions"
    )
    max_bytes_per_partition: int = setting(
        0,
        Integer(0, MAX_INT64),
        "Cut ranges so that a task reads about this many bytes of a log at most; 0: no limit.",
        key="maxBytesPerPartition",
    )
    fail_on_data_loss: bool = setting(
        True, Boolean(), "Stop when messages to be read are gone; else warn and go on.", key="failOnDataLoss"
    )
    corrupt_messages: str = setting(
        "fail",
        Choice(("fail", "skip", "null")),
        "What to do with a corrupt message: `fail` stops, `skip` leaves it out and logs the number, `null`"
        " returns a row with a null value.",
        key="corruptMessages",
    )
    max_message_bytes: int = setting(
        64 * 1024 * 1024,
        Integer(1024),
        "A message or compressed set with a greater length counts as corrupt: a task holds no more at once. In bytes;"
        " not less than the brokers' `max.message.size`.",
        key="maxMessageBytes",
    )
    poll_timeout_ms: int = setting(
        120_000, Integer(1), "How long a task waits for a broker that is down.", key="kafkaConsumer.pollTimeoutMs"
    )
    retries: int = setting(
        30, Integer(), "How often planning retries a broker that is down.", key="fetchOffset.numRetries"
    )
    retry_interval_ms: int = setting(
        1000, Integer(1), "The time between those attempts.", key="fetchOffset.retryIntervalMs"
    )
    fetch_size: int = setting(2 * 1024 * 1024, Integer(1024), "Bytes per fetch.")
    socket_timeout_ms: int = setting(30_000, Integer(1), "How long connecting, or a request with its answer, may take.")
    zk_sessiontimeout_ms: int = setting(6000, Integer(1), "Silence after which ZooKeeper ends planning's session.")
    zk_connectiontimeout_ms: int = setting(
        None, Integer(1), "How long to wait for ZooKeeper.", fallback=same_as("zk.sessiontimeout.ms")
    )

    @property
    def starting_default(self) -> int:
        """Where a read begins by default."""
        return EARLIEST

    def _check(self) -> None:
        if bool(self.zk_connect) == bool(self.broker_list):
            raise ConfigError("the kafka2011 source needs either zk.connect or broker.list")
        if sum(map(bool, (self.subscribe, self.subscribe_pattern, self.assign))) != 1:
            raise ConfigError("the kafka2011 source needs exactly one of subscribe, subscribePattern and assign")
        if self.broker_list and (self.subscribe_pattern or self.groupid):
            raise ConfigError("subscribePattern and groupid need zk.connect: brokers list neither topics nor groups")
        try:
            _pattern(self.subscribe_pattern)
        except REGEX_ERRORS as error:
            raise ConfigError(f"subscribePattern {self.subscribe_pattern!r} is not a regex: {error}") from error

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that are named, by `subscribe` or by `assign`."""
        return self.subscribe or tuple(dict.fromkeys(partition.topic for partition in self.assign))

    def wants(self, topic: str) -> bool:
        """Say whether a topic is subscribed to, or has an assigned partition."""
        if self.subscribe_pattern:
            return _pattern(self.subscribe_pattern).matches(topic)
        return topic in self.topics

    def reads(self, partition: TopicPartition) -> bool:
        """Say whether a partition is to be read, if it is there."""
        return partition in self.assign if self.assign else self.wants(partition.topic)

    def times(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int] | None:
        """Return by which time, in ms, to begin with each of some partitions; None where that does not go by time."""
        if self.starting_timestamp >= 0:
            return dict.fromkeys(partitions, self.starting_timestamp)
        return times_of("startingOffsetsByTimestamp", self.starting_times, partitions)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOptions(ReadOptions):
    """Options of `spark.read`."""

    COMPONENT: ClassVar[str] = "kafka2011 batch source"

    ending_offsets: OffsetSpec = setting(
        "latest",
        OffsetsKind(("latest",)),
        "Where to end, not included: `latest`, or JSON with every partition, -1 latest.",
        key="endingOffsets",
    )
    ending_timestamp: int = setting(
        NO_TIMESTAMP,
        Integer(NO_TIMESTAMP, MAX_INT64),
        "End after the segment that was being written at this time, in ms. Takes precedence over endingOffsets.",
        key="endingTimestamp",
    )
    ending_times: PartitionTimes = setting(
        (),
        TimesKind(),
        "The same with a time for each partition. Takes precedence over endingOffsets.",
        key="endingOffsetsByTimestamp",
    )
    push_filters: bool = setting(
        False,
        Boolean(),
        "Plan only partitions that filters on `topic`, `brokerId` and `partition` leave. Needs"
        " `spark.sql.python.filterPushdown.enabled=true`: without that, Spark fails every read that has a filter.",
        key="pushFilters",
    )

    def _check(self) -> None:
        ReadOptions._check(self)
        begins = self.starting_offsets
        if self.ending_timestamp >= 0 and self.ending_times:
            raise ConfigError("endingTimestamp and endingOffsetsByTimestamp exclude one another")
        if begins == LATEST or (isinstance(begins, Mapping) and LATEST in begins.values()):
            raise ConfigError("startingOffsets: a batch cannot begin at latest")


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOptions(ReadOptions):
    """Options of `spark.readStream`."""

    COMPONENT: ClassVar[str] = "kafka2011 streaming source"

    max_bytes_per_trigger: int = setting(
        0,
        Integer(0, MAX_INT64),
        "Read about this many bytes of logs in a micro-batch, at least one message per partition; 0: all there is.",
        key="maxBytesPerTrigger",
    )
    min_bytes_per_trigger: int = setting(
        0,
        Integer(0, MAX_INT64),
        "Wait with a micro-batch until there are this many bytes of logs, or maxTriggerDelay is over; 0: do not wait."
        " With `availableNow` nothing waits.",
        key="minBytesPerTrigger",
    )
    max_trigger_delay_ms: int = setting(
        15 * 60_000,
        DurationKind(),
        "How long minBytesPerTrigger may delay a micro-batch after the one before, as `30s`, `15m` or `1h`.",
        key="maxTriggerDelay",
    )
    commit_offsets: bool = setting(
        False,
        Boolean(),
        "Commit to `groupid` what each micro-batch has processed, when the next one begins.",
        key="commitOffsets",
    )

    @property
    def starting_default(self) -> int:
        """Where a stream begins by default, as in Spark's own connector."""
        return LATEST

    def _check(self) -> None:
        ReadOptions._check(self)
        if self.commit_offsets and not self.groupid:
            raise ConfigError("commitOffsets needs groupid")


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions(ProducerConfig, _Options):
    """Options of the sink: those of a producer, and the topic. Every send is confirmed."""

    COMPONENT: ClassVar[str] = "kafka2011 sink"
    FROM_SPARK: ClassVar[frozenset[str]] = frozenset({"checkpointlocation", "queryname", "path"})

    topic: str = setting("", Text(), "The topic for all rows; without it, a column `topic` names one for each.")
    confirm: bool = setting(True, Boolean(), "Always true: a task ends when all its rows were confirmed.")

    def _check(self) -> None:
        ProducerConfig._check(self)
        if not self.confirm:
            raise ConfigError("confirm: the sink confirms every row before a task ends; it cannot be turned off")
        if self.topic:
            try:
                validate_topic(self.topic)
            except InvalidTopicError as error:
                raise ConfigError(f"topic: {error}") from error

    def producer_config(self, brokers: tuple[Broker, ...]) -> ProducerConfig:
        """Return what a producer on an executor needs, with fixed brokers in place of ZooKeeper."""
        own = {item.name for item in ProducerConfig.settings()}
        values = {name: getattr(self, name) for name in own} | {
            "zk_connect": "",
            "broker_list": brokers,
            "producer_type": "async",
        }
        values["partitioner_class"] = ""  # the broker list would forbid it; what places the rows has it
        return ProducerConfig(**values)
