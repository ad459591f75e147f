"""From where to where a load reads each partition: on from the table's offsets, as long as the logs are the same."""

from __future__ import annotations

import logging
import time
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from kafka2011.spark.errors import BrokerAwayError, DataLossError, UnknownTopicError
from kafka2011.spark.log_check import LogCheck, compare
from kafka2011.spark.plan import ReplacedLog, ResolvedOffsets, resolve_after
from kafka2011.warehouse.errors import ReplacedLogError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from kafka2011.spark.lookup import OffsetLookup
    from kafka2011.spark.options import ReadOptions
    from kafka2011.warehouse.table.commits import Commit
    from zk.cluster import TopicPartition

logger = logging.getLogger(__name__)

LOG_CHECKS = "log_checks"
"""Where a commit keeps them."""
REGISTERED_WITHIN_S = 10.0
"""So long a first load waits for a topic: brokers register it a moment after the first message for it has come."""
_ASK_EVERY_S = 0.2


class Begun(NamedTuple):
    """What a load is to read, and what its commit keeps of the logs."""

    resolved: ResolvedOffsets
    checks: Mapping[TopicPartition, LogCheck]


def checks_of(commit: Commit | None) -> dict[TopicPartition, LogCheck]:
    """Return the checks that a commit keeps, for the offsets that it has."""
    if commit is None:
        return {}
    kept = commit.extra.get(LOG_CHECKS, {})
    checks = {
        partition: LogCheck(*kept[partition.znode_name]) for partition in commit.offsets if partition.znode_name in kept
    }
    return {partition: check for partition, check in checks.items() if check.end == commit.offsets[partition]}


def resolve(
    options: ReadOptions,
    lookup: OffsetLookup,
    newest: Commit | None,
    stored: Mapping[TopicPartition, int],
    *,
    restart_replaced: bool,
) -> Begun:
    """Return what is to be read after `stored` offsets, those of the newest commit.

    Raises ReplacedLogError, unless logs that others have replaced are to be read from their beginning; DataLossError,
    KafkaError.
    """
    resolved = resolve_after(options, lookup, stored)
    checks, others, _ = compare(lookup, resolved.ranges, checks_of(newest))
    suspects = {
        offset_range.topic_partition: offset_range
        for offset_range in resolved.ranges
        if offset_range.topic_partition in others
    }
    same = tuple(offset_range for offset_range in resolved.ranges if offset_range.topic_partition not in others)
    replaced = list(resolved.replaced)
    for where, offset_range in suspects.items():
        replaced.append(ReplacedLog(where, offset_range.start, lookup.bounds(where).earliest, offset_range.end))
    if not replaced:
        return Begun(resolved, checks)
    if not restart_replaced:
        raise _refusal(replaced)
    for gone in replaced:
        logger.warning("%s: a new log is loaded from offset %d on", gone.partition, gone.earliest)
    again = resolve_after(options, lookup, {log.partition: log.earliest for log in replaced})
    wanted = {log.partition for log in replaced}
    fresh = tuple(offset_range for offset_range in again.ranges if offset_range.topic_partition in wanted)
    ranges = tuple(sorted((*same, *fresh), key=lambda offset_range: offset_range.topic_partition))
    new = compare(lookup, fresh, {}).checks
    return Begun(replace(resolved, ranges=ranges, replaced=()), {**checks, **new})


def _refusal(replaced: list[ReplacedLog]) -> ReplacedLogError:
    first = replaced[0]
    more = f", and {len(replaced) - 1} more partitions are like it" if replaced[1:] else ""
    is_short = first.latest < first.stored
    why = (
        f"but its log ends at {first.latest}{more}: the disk was replaced"
        if is_short
        else f"but what stands before that offset is not what was loaded{more}: the topic was deleted and made again,"
        " or the disk was replaced"
    )
    return ReplacedLogError(
        f"{first.partition} was loaded up to offset {first.stored}, {why}. Either bring the old log back, or start that"
        " broker with an id that was never used, or load the new log from its beginning (--restart-replaced); its"
        " offsets then come again in the table, told apart by kafka2011_load_id"
    )


def once_registered(ask: Callable[[], Begun], within_s: float = REGISTERED_WITHIN_S) -> Begun:
    """Ask until the topic is known, for some seconds. Raises UnknownTopicError then, and whatever `ask` does."""
    for _ in range(int(within_s / _ASK_EVERY_S)):
        try:
            return ask()
        except UnknownTopicError:
            time.sleep(_ASK_EVERY_S)
    return ask()


_IN_OUR_WORDS = {
    "set failOnDataLoss to false": "use --no-fail-on-data-loss",
    "(failOnDataLoss is true)": "(to go on with what there is, use --no-fail-on-data-loss)",
    "(fetchOffset.numRetries, fetchOffset.retryIntervalMs)": "(--option fetchOffset.numRetries=…)",
    "(kafkaConsumer.pollTimeoutMs)": "(--option kafkaConsumer.pollTimeoutMs=…)",
}


@contextmanager
def in_our_words() -> Iterator[None]:
    """Name the options of a load, in place of those of the Spark source, in errors about data and brokers."""
    try:
        yield
    except (DataLossError, BrokerAwayError) as error:
        text = str(error)
        for theirs, ours in _IN_OUR_WORDS.items():
            text = text.replace(theirs, ours)
        raise type(error)(text) from error
