"""Bounded reads of one partition: its segments with their sizes and ages, and a few messages."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from kafka2011.admin.partitions import asking
from kafka2011.errors import KafkaError
from kafka2011.events.errors import UndecodableEventError
from kafka2011.ui.annotated import annotate, as_document, first_message
from kafka2011.ui.app import partition_from
from kafka2011.ui.sampler import BROKER_TIMEOUT_MS
from kafka2011.wire.protocol import EARLIEST, LATEST
from zk.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafka2011.consumer.simple_consumer import SimpleConsumer
    from kafka2011.ui.annotated import Decode
    from kafka2011.ui.sampler import Sampler
    from zk.client import ZkClient
    from zk.clock import Clock
    from zk.cluster import Broker, TopicPartition

MOST_SEGMENTS = 500
MOST_MESSAGES = 50
MOST_FETCHED_BYTES = 64 * 1024
_MOST_FETCHES = 8
_AGES = 64
_LONGEST_S = 60 * 86_400
AGES_S = [round(_LONGEST_S ** (step / (_AGES - 1)), 1) for step in range(_AGES)]
"""A second to two months, each a third more than the one before: what segments' ages are known by."""


class PartitionReads:
    """Answers what the page asks of one partition. Every method raises KafkaError, and ValueError for a bad query."""

    def __init__(self, sampler: Sampler, client: ZkClient, retention_hours: float, clock: Clock = SYSTEM_CLOCK) -> None:
        self._sampler = sampler
        self._decoded = _event_decoder(client)
        self._retention_hours = retention_hours
        self._clock = clock

    def log(self, query: Mapping[str, str]) -> dict[str, Any]:
        """Return where segments start, and between which ages they were last written."""
        where, broker = self._find(query)
        with asking(broker, BROKER_TIMEOUT_MS) as consumer:
            starts, end = _segments(consumer, where)
            now_ms = int(self._clock.wall_s() * 1000)
            older = consumer.get_many_offsets_before(
                (where.topic, where.partition, now_ms - int(age_s * 1000), 1) for age_s in AGES_S
            )
        ages = ages_of(starts, [offsets[0] if offsets else None for offsets in older])
        return {
            "segments": [
                {"start": start, "older_s": older_s, "younger_s": younger_s}
                for start, (older_s, younger_s) in zip(starts, ages, strict=True)
            ],
            "end": end,
            "is_cut": len(starts) >= MOST_SEGMENTS,
            "retention_hours": self._retention_hours,
        }

    def messages(self, query: Mapping[str, str]) -> dict[str, Any]:
        """Return messages from an offset (`from=4711`), a time (`@ms`) or the first one, or those before an offset.

        Without either, the last ones.
        """
        where, broker = self._find(query)
        count = min(MOST_MESSAGES, max(1, int(query.get("count", "10"))))
        with asking(broker, BROKER_TIMEOUT_MS) as consumer:
            starts, end = _segments(consumer, where)
            if "from" in query:
                start = _start(consumer, where, query["from"], starts)
                if not starts[0] <= start <= end:
                    raise KafkaError(f"offset {start} is not in {where}, which holds {starts[0]} to {end}")
                data = _fetch(consumer, where, start, end)
                shown = list(islice(annotate(data, start, self._decoded), count))
            else:
                upto = min(int(query.get("before") or end), end)
                start, data = _window(consumer, where, upto, starts)
                shown = list(annotate(data, start, self._decoded))[-count:]
        following = shown[-1].offset + shown[-1].size if shown else start
        return {
            "messages": [as_document(message) for message in shown],
            "first": starts[0],
            "end": end,
            "next": following,
            "start": shown[0].offset if shown else start,
        }

    def _find(self, query: Mapping[str, str]) -> tuple[TopicPartition, Broker]:
        where = partition_from(query)
        snapshot = self._sampler.snapshot
        if not snapshot.has(where) or where.broker_id not in snapshot.brokers:
            raise KafkaError(f"{where} is not a partition of a living broker")
        return where, snapshot.brokers[where.broker_id].broker


def ages_of(starts: Sequence[int], newest_before: Sequence[int | None]) -> list[tuple[float | None, float | None]]:
    """Return between which ages each segment was last written, by the newest segment older than each of AGES_S.

    None: younger than a second, or older than all.
    """
    ages: list[tuple[float | None, float | None]] = []
    for start in starts:
        seen = zip(AGES_S, newest_before, strict=True)
        older = [age_s for age_s, newest in seen if newest is not None and newest >= start]
        younger = [age_s for age_s in AGES_S if not older or age_s > older[-1]]
        ages.append((older[-1] if older else None, younger[0] if younger else None))
    return ages


def _segments(consumer: SimpleConsumer, where: TopicPartition) -> tuple[list[int], int]:
    """Return where the newest segments start, in order, and where the log ends; never no segment."""
    end, *starts = consumer.get_offsets_before(where.topic, where.partition, LATEST, MOST_SEGMENTS)
    [first] = consumer.get_offsets_before(where.topic, where.partition, EARLIEST, 1)
    return sorted({first, *starts}) if len(starts) + 1 < MOST_SEGMENTS else sorted(starts), end


def _start(consumer: SimpleConsumer, where: TopicPartition, text: str, starts: Sequence[int]) -> int:
    if text == "earliest":
        return starts[0]
    if text.startswith("@"):
        offsets = consumer.get_offsets_before(where.topic, where.partition, int(text[1:]), 1)
        return offsets[0] if offsets else starts[0]
    return int(text)


def _window(consumer: SimpleConsumer, where: TopicPartition, upto: int, starts: Sequence[int]) -> tuple[int, bytes]:
    """Fetch what lies before an offset at which a message starts, and find where the first message in it does."""
    least = upto - MOST_FETCHED_BYTES
    within = [start for start in starts if least <= start < upto][-_MOST_FETCHES:]
    if within:
        return within[0], _fetch(consumer, where, within[0], upto)
    begin = max(least, starts[0])
    if begin >= upto:
        return upto, b""
    data = _fetch(consumer, where, begin, upto)
    position = first_message(data)
    if position is None:
        raise KafkaError(
            f"no message of {where} begins in the {len(data)} bytes before offset {upto}: either it is longer, or none"
            f" starts at {upto}; ask from an offset, or from the first"
        )
    return begin + position, data[position:]


def _fetch(consumer: SimpleConsumer, where: TopicPartition, start: int, upto: int) -> bytes:
    """Fetch up to an offset, within limits; a fetch ends where a segment does."""
    data = b""
    most = min(MOST_FETCHED_BYTES, upto - start)
    for _ in range(_MOST_FETCHES):
        if len(data) >= most:
            break
        fetched = consumer.fetch(where.topic, where.partition, start + len(data), most - len(data)).data
        if not fetched:
            break
        data += fetched
    if not data and upto > start:
        raise KafkaError(f"broker {where.broker_id} returned nothing of {where} at offset {start}")
    return data


def _event_decoder(client: ZkClient) -> Decode:
    """Return what decodes events; without the extra `pipeline`, what says that it is missing."""
    try:
        from kafka2011.events.codec import MARK, EventDecoder  # noqa: PLC0415  # an extra
        from kafka2011.events.schema_registry import SchemaRegistry  # noqa: PLC0415
        from kafka2011.events.shown import as_json, shown  # noqa: PLC0415
    except ImportError:
        return lambda _payload: None
    decoder = EventDecoder(SchemaRegistry(client))

    def decoded(payload: bytes) -> str | None:
        if not payload.startswith(MARK):
            return None
        try:
            event = decoder.decode_payload(payload)
        except UndecodableEventError as error:
            return f"begins as an event does, but {error}"
        return f"{event.schema.name} {as_json(shown(event), indent=1)}"

    return decoded
