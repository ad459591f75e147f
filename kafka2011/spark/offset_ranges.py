"""Offsets as values: as JSON, as ranges, and the places where messages start.

Pure: nothing here knows of ZooKeeper or Spark, and `fetch` and `consumer` stand for brokers. Not every byte offset is
the start of a message, and bytes that look like a message may be inside another one. So nothing here searches for
messages. Every offset that comes in is a boundary, a place where a message starts or the log ends, and only boundaries
go out: known ones, and those that lengths lead to from a known one. Compressed sets are one message each.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from kafka2011.message.header import LENGTH, LENGTH_BYTES, MIN_LENGTH
from kafka2011.message.message_set import complete_prefix_bytes
from kafka2011.message.topic import InvalidTopicError, validate_topic
from kafka2011.wire.protocol import LATEST
from zk.cluster import TopicPartition
from zk.errors import MalformedNode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kafka2011.consumer.simple_consumer import SimpleConsumer

Offsets: TypeAlias = dict[TopicPartition, int]
Nested: TypeAlias = dict[str, dict[str, int]]
"""As in options, checkpoints and progress: `{"topic": {"0-1": 123}}`, with the names of the offset registry."""

MARK = ""
"""The key, which no topic can have, of what stands beside topics in a stream's offsets."""

NEW_QUERY: Nested = {MARK: {}}
"""The offset of a query that has written nothing to its checkpoint. No micro-batch ever ends with it."""

_SINCE = "sinceMs"
_LOG_CHECKS = "logChecks"

MAX_OFFSET = 2**63 - 1
MAX_SEGMENTS = 1_000_000

SNAP_FRACTION = 4
"""A cut moves to a segment start that is nearer than this part of a task, since that one costs no scan."""


# As JSON


def nest(offsets: Mapping[TopicPartition, int]) -> Nested:
    """Return offsets as JSON has them, sorted."""
    nested: Nested = {}
    for partition, offset in sorted(offsets.items()):
        nested.setdefault(partition.topic, {})[partition.znode_name] = offset
    return nested


def to_json(offsets: Mapping[TopicPartition, int]) -> str:
    """Return offsets as JSON text."""
    return json.dumps(nest(offsets))


def mark(nested: Nested, since_ms: int | None, log_checks: Mapping[str, Mapping[str, Sequence[int]]]) -> dict[str, Any]:
    """Add to a stream's offsets what it needs besides them, under MARK.

    `since_ms` is the time from which it reads partitions that appear; None: from their beginning. `log_checks` is what
    `log_check.nest_checks` returns.
    """
    added: dict[str, Any] = {} if since_ms is None else {_SINCE: since_ms}
    if log_checks:
        added[_LOG_CHECKS] = log_checks
    return {**nested, MARK: added} if added else dict(nested)


def since_ms_of(nested: Mapping[str, Any]) -> int | None:
    """Return the time that `mark` added."""
    since_ms: int | None = nested.get(MARK, {}).get(_SINCE)
    return since_ms


def log_checks_of(nested: Mapping[str, Any]) -> dict[str, dict[str, list[int]]]:
    """Return the checks that `mark` added; offsets of releases before 0.3 have none."""
    log_checks: dict[str, dict[str, list[int]]] = nested.get(MARK, {}).get(_LOG_CHECKS, {})
    return log_checks


def flatten(nested: object, least: int = 0) -> Offsets:
    """Read offsets from what JSON holds. Raises ValueError, saying what is wrong and where."""
    if not isinstance(nested, Mapping):
        raise ValueError(f'{nested!r} is not {{"topic": {{"0-1": 123}}}}')  # noqa: TRY004 (one more bad value)
    offsets: Offsets = {}
    for topic, by_partition in nested.items():
        if topic == MARK:
            continue
        try:
            validate_topic(str(topic))
        except InvalidTopicError as error:
            raise ValueError(str(error)) from error
        if not isinstance(by_partition, Mapping):
            raise ValueError(f'topic {topic!r}: {by_partition!r} is not {{"0-1": 123}}')  # noqa: TRY004 (as above)
        for name, offset in by_partition.items():
            partition = _partition(str(topic), str(name))
            if isinstance(offset, bool) or not isinstance(offset, int) or not least <= offset <= MAX_OFFSET:
                raise ValueError(f"{partition}: {offset!r} is not an offset of {least} or more")
            offsets[partition] = offset
    return offsets


def from_json(text: str, least: int = 0) -> Offsets:
    """Read offsets from JSON text. Raises ValueError."""
    try:
        return flatten(json.loads(text), least)
    except (json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"{text[:200]!r} is not JSON: {error}") from error


def partitions_from_json(text: str) -> tuple[TopicPartition, ...]:
    """Read partitions from JSON text, `{"topic": ["0-1"]}`; sorted. Raises ValueError."""
    try:
        topics = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"{text[:200]!r} is not JSON: {error}") from error
    if not isinstance(topics, dict) or not all(isinstance(names, list) for names in topics.values()):
        raise ValueError(f'{text[:200]!r} is not {{"topic": ["0-1"]}}')
    return tuple(sorted(flatten({topic: dict.fromkeys(map(str, names), 0) for topic, names in topics.items()})))


def partitions_to_json(partitions: Iterable[TopicPartition]) -> str:
    """Return partitions as JSON text."""
    nested = nest(dict.fromkeys(partitions, 0))
    return json.dumps({topic: list(names) for topic, names in nested.items()})


def _partition(topic: str, name: str) -> TopicPartition:
    try:
        return TopicPartition.from_znode_name(topic, name)
    except MalformedNode as error:
        raise ValueError(
            f"topic {topic!r}: {name!r} is not {{broker id}}-{{partition}}: each broker counts its own partitions, and"
            " offsets are positions in bytes"
        ) from error


def lag_bytes(source_progress: Mapping[str, Any]) -> dict[TopicPartition, int | None]:
    """Return how many bytes of each partition's log the query had not read.

    `source_progress` is one entry of `query.lastProgress["sources"]`. A partition that the query has not begun counts
    from the start of its log. None where the end of the log is unknown: its broker is away, or its topic is no longer
    subscribed to. Raises ValueError when it is not the progress of this source.
    """
    read = flatten(offsets_in(source_progress, "endOffset"))
    latest = flatten(offsets_in(source_progress, "latestOffset"))
    return {
        partition: max(latest[partition] - read.get(partition, 0), 0) if partition in latest else None
        for partition in sorted(read.keys() | latest.keys())
    }


class SourceMetrics(NamedTuple):
    """Tells what one micro-batch read, and the lag. Bytes are those of the logs, compressed as stored.

    `lag_bytes` covers the partitions whose ends are known; `unknown_partitions` counts the others. Corrupt messages are
    in the executors' logs, and with corruptMessages=null also one row each, so that Spark can count them.
    """

    rows: int
    bytes: int
    lag_bytes: int
    unknown_partitions: int


def source_metrics(source_progress: Mapping[str, Any]) -> SourceMetrics:
    """Return the numbers of a source: `source_progress` is one entry of `query.lastProgress["sources"]`.

    Raises ValueError as `lag_bytes` does.
    """
    start = flatten(offsets_in(source_progress, "startOffset"))
    end = flatten(offsets_in(source_progress, "endOffset"))
    lags = lag_bytes(source_progress).values()
    return SourceMetrics(
        int(source_progress["numInputRows"]),
        sum(max(offset - start.get(partition, offset), 0) for partition, offset in end.items()),
        sum(lag for lag in lags if lag is not None),
        sum(lag is None for lag in lags),
    )


def offsets_in(source_progress: Mapping[str, Any], name: str) -> object:
    """Return the offsets of that name in a progress, parsed. Raises ValueError."""
    value = source_progress.get(name)
    if isinstance(value, str):
        value = None if value == "None" else json.loads(value)  # so PySpark writes that there are none
    return value or {}


# Ranges, and the arithmetic on them


@dataclass(frozen=True, slots=True, order=True)
class OffsetRange:
    """The messages of a partition from offset `start` up to, not including, `end`; both are boundaries."""

    topic_partition: TopicPartition
    start: int
    end: int

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.end:
            raise ValueError(f"no range of offsets in {self.topic_partition}: {self.start} to {self.end}")

    @property
    def size_bytes(self) -> int:
        """How much of the log it spans."""
        return self.end - self.start

    def cut(self, boundaries: Iterable[int]) -> list[OffsetRange]:
        """Return the parts that lie between the boundaries inside the range; together they are the range."""
        inside = sorted({offset for offset in boundaries if self.start < offset < self.end})
        edges = [self.start, *inside, self.end]
        return [OffsetRange(self.topic_partition, *pair) for pair in pairwise(edges)]


def share_tasks(sizes_bytes: Sequence[int], min_partitions: int) -> list[int]:
    """Say into how many tasks to cut each range, in proportion to its size: one at least, `min_partitions` in all.

    Gives the tasks out one by one, each to the range whose tasks are largest, so that they end up about equal.
    """
    counts = [1] * len(sizes_bytes)
    total_bytes = sum(sizes_bytes)
    if not total_bytes:
        return counts
    missing = min_partitions - len(counts)
    if missing > 0:
        # Most of them at once, in proportion; never more than a range would get one by one.
        counts = [max(1, size * missing // total_bytes) for size in sizes_bytes]
    for _ in range(min_partitions - sum(counts)):
        largest = max(range(len(counts)), key=lambda index: sizes_bytes[index] / counts[index])
        counts[largest] += 1
    return counts


def cuts(whole: OffsetRange, tasks: int, known: Sequence[int], scan: Callable[[int, int], int]) -> list[int]:
    """Return the boundaries at which to cut a range for `tasks` tasks of about equal size.

    `known` are boundaries in ascending order, the segment starts. Where none is near, `scan(boundary, target)` must
    return the last boundary at or before `target` that it finds by reading on from a boundary. No byte is scanned
    twice. There are fewer cuts than wanted where messages are larger than tasks.
    """
    task_bytes = whole.size_bytes / max(tasks, 1)
    offsets = [whole.start]
    for number in range(1, tasks):
        target = whole.start + round(number * task_bytes)
        near = _nearest(known, target)
        if near is not None and abs(near - target) * SNAP_FRACTION <= task_bytes:
            boundary = near
        else:
            before = bisect_right(known, target)
            base = max(offsets[-1], known[before - 1] if before else whole.start)
            boundary = scan(base, target)
        if offsets[-1] < boundary < whole.end:
            offsets.append(boundary)
    return offsets[1:]


def _nearest(ascending: Sequence[int], target: int) -> int | None:
    index = bisect_left(ascending, target)
    return min(ascending[max(index - 1, 0) : index + 1], key=lambda offset: abs(offset - target), default=None)


def share_bytes(lags_bytes: Mapping[TopicPartition, int], max_bytes: int) -> dict[TopicPartition, int]:
    """Divide what may be read at once over partitions in proportion to what waits in them; all of it where it fits.

    Shares add up to `max_bytes` at most, and none exceeds what waits.
    """
    total_bytes = sum(lags_bytes.values())
    if total_bytes <= max_bytes:
        return dict(lags_bytes)
    return {partition: lag * max_bytes // total_bytes for partition, lag in lags_bytes.items()}


def next_boundary(known: Sequence[int], offset: int) -> int | None:
    """Return the first of some ascending boundaries that is after an offset; None when there is none."""
    index = bisect_right(known, offset)
    return known[index] if index < len(known) else None


# Boundaries


class LogBounds(NamedTuple):
    """Where a partition's segments start, ascending, and its flushed end last. All of them are boundaries."""

    boundaries: tuple[int, ...]

    @property
    def earliest(self) -> int:
        """The first offset there is."""
        return self.boundaries[0]

    @property
    def latest(self) -> int:
        """The flushed end."""
        return self.boundaries[-1]


def log_bounds(consumer: SimpleConsumer, partition: TopicPartition) -> LogBounds:
    """Ask a broker where segments start and the log ends. Raises BrokerConnectionError."""
    newest_first = consumer.get_offsets_before(partition.topic, partition.partition, LATEST, MAX_SEGMENTS)
    return LogBounds(tuple(reversed(newest_first)) or (0,))


class MessageWalk(NamedTuple):
    """Where a walk over messages ended.

    `offset` is a boundary, the last one at or before where it was to go; `following` the one after it, if it
    was seen. `broken` says that the length at `offset` is impossible, so there is no way on from there.
    """

    offset: int
    following: int | None
    broken: bool


def walk(fetch: Callable[[int, int], bytes], start: int, target: int, fetch_bytes: int) -> MessageWalk:
    """Go from the boundary `start` to the last boundary at or before `target`.

    `fetch(offset, max_bytes)` returns bytes of the log, none at its end. Only what lies before `target` is fetched,
    but for the length of the message across it.
    """
    offset = start
    while offset < target:
        data = fetch(offset, max(min(fetch_bytes, target - offset), LENGTH_BYTES))
        position = complete_prefix_bytes(data)
        offset += position
        if offset == target:
            break
        if len(data) - position < LENGTH_BYTES:
            if not position:  # the log ends here
                return MessageWalk(offset, None, broken=False)
            continue
        (length,) = LENGTH.unpack_from(data, position)
        if length < MIN_LENGTH:
            return MessageWalk(offset, None, broken=True)
        following = offset + LENGTH_BYTES + length
        if following > target:
            return MessageWalk(offset, following, broken=False)
        offset = following  # without fetching the rest of it
    return MessageWalk(offset, None, broken=False)
