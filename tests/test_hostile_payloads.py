"""Nothing that a payload holds ends a reader or stops a topic: each takes the message after it, and tells of it."""

from __future__ import annotations

import json
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
import pytest

from kafka2011.audit import consumer as consumer_module
from kafka2011.audit.consumer import AuditedConsumer
from kafka2011.audit.counter import AuditCounter
from kafka2011.audit.encoding import AUDIT_COUNT, open_decoder, to_event
from kafka2011.audit.reader import AuditReader
from kafka2011.audit.report import AUDIT_TOPIC, AuditReport
from kafka2011.cli.decoding import Decoding
from kafka2011.cli.formats import named
from kafka2011.consumer.feed import StoredSet
from kafka2011.errors import KafkaError
from kafka2011.events.codec import EventDecoder, EventEncoder, read_stamps
from kafka2011.events.schemas import EventSchema, KnownSchemas
from kafka2011.message.message_set import MessageSet
from kafka2011.mirror.forwarder import Forwarder
from kafka2011.reports.broker_events import decoded
from kafka2011.spark.batches import SCHEMA as SOURCE_SCHEMA
from kafka2011.spark.offset_ranges import OffsetRange
from kafka2011.spark.reader import RangeReader, ReadSettings
from kafka2011.warehouse.loading.load_job import counted_in
from kafka2011.warehouse.rows.decode import BatchDecoder, json_line
from tests.support.audit_counters import ReportsInMemory, messages_of
from tests.support.clocks import ManualClock
from tests.support.hostile_payloads import AFTER, GOOD, HOSTILE, SCHEMAS, TOPIC, TREE, Hostile, deep
from tests.support.logs_in_memory import ConsumerInMemory, LogInMemory
from zk.cluster import Broker, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafka2011.message.message_set import Message
    from kafka2011.mirror.target import Target

WHERE = TopicPartition(TOPIC, 0, 0)

each_hostile = pytest.mark.parametrize("hostile", HOSTILE, ids=lambda each: each.name.replace(" ", "-"))


def payloads_around(hostile: Hostile) -> list[bytes]:
    return [GOOD, hostile.payload, hostile.payload, AFTER]


def messages_around(hostile: Hostile) -> list[Message]:
    return messages_of(payloads_around(hostile), topic=TOPIC)


def batch_around(hostile: Hostile) -> pa.RecordBatch:
    return batch_of(messages_around(hostile))


def batch_of(messages: list[Message]) -> pa.RecordBatch:
    """Return what the Spark source makes of messages."""
    rows = [[m.payload, m.topic, m.broker_id, m.partition, m.offset, m.next_offset, m.index_in_set]
            for m in messages]  # fmt: skip
    schema = SOURCE_SCHEMA
    columns = zip(zip(*rows, strict=True), schema, strict=True)
    return pa.RecordBatch.from_arrays([pa.array(column, field.type) for column, field in columns], schema=schema)


def counts_of(hostile: Hostile) -> dict[str, int]:
    counted = 4 if hostile.is_countable else 2
    return {"counted": counted, "unreadable": 4 - counted}


# The audit -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def sink() -> ReportsInMemory:
    return ReportsInMemory()


@pytest.fixture
def counter(sink: ReportsInMemory) -> Iterator[AuditCounter]:
    with AuditCounter("live", sink, clock=ManualClock()) as opened:
        yield opened


@each_hostile
def test_a_counter_counts_what_has_a_time_and_an_id(hostile: Hostile, counter: AuditCounter) -> None:
    """The others are unreadable."""
    counter.count_messages(messages_around(hostile))
    assert counter.counts().items() >= counts_of(hostile).items()


@each_hostile
def test_a_counter_of_published_events_counts_as_one_that_reads(hostile: Hostile, counter: AuditCounter) -> None:
    """So what one cannot count is not missing at the other."""
    stamps = [stamp for stamp in read_stamps(payloads_around(hostile)) if stamp is not None]
    counter.count(TOPIC, stamps)
    counter.report()
    assert counter.counts()["counted"] == counts_of(hostile)["counted"]


class _Stream:
    def __init__(self, *lists: list[Message]) -> None:
        self._lists = list(lists)

    def batches(self, _max_messages: int) -> Iterator[list[Message]]:
        while self._lists:
            yield self._lists.pop(0)


class _Connector:
    consumer_id = "g_one"

    def __init__(self, *_: object, **__: object) -> None:
        self.commits: list[object] = []

    def owned_partitions(self) -> list[TopicPartition]:
        return [WHERE]

    def commit_offsets(self, offsets: object) -> None:
        self.commits.append(offsets)

    def shutdown(self) -> None:
        pass


@each_hostile
def test_an_audited_consumer_commits_what_is_behind_it(
    hostile: Hostile, counter: AuditCounter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Instead of meeting it again after every restart."""
    monkeypatch.setattr(consumer_module, "ConsumerConnector", _Connector)
    messages = messages_around(hostile)
    with AuditedConsumer({"zk.connect": "none:1", "groupid": "g"}, counter) as consumer:
        consumer.on_assigned([WHERE])
        stream: Any = _Stream(messages[:2], messages[2:])
        assert [each for given in consumer.batches(stream) for each in given] == messages
        consumer.commit()
    assert cast("_Connector", consumer.connector).commits[-1] == {WHERE: messages[-1].next_offset}
    assert counter.counts().items() >= counts_of(hostile).items()


class _Target:
    max_payload_bytes = 1_000_000

    def partitions(self, _topic: str) -> tuple[TopicPartition, ...]:
        return (WHERE,)

    def send(self, *_: object) -> Future[None]:
        future: Future[None] = Future()
        future.set_result(None)
        return future


@each_hostile
def test_an_audited_mirror_copies_it_and_goes_on(hostile: Hostile, counter: AuditCounter) -> None:
    """What it cannot count is a message as any other."""
    failures: list[Exception] = []
    forwarder = Forwarder(
        cast("Target", _Target()),
        lambda _: (WHERE,),
        stop=threading.Event(),
        failed=lambda _, error: failures.append(error),
        counter=counter,
    )
    data = bytes(MessageSet(payloads_around(hostile)))
    forwarder.forward(StoredSet(*WHERE, 0, len(data), data))
    assert forwarder.due(1.0) == {WHERE: len(data)}
    assert failures == []
    assert forwarder.counts.as_dict()["messages"] == 4
    assert counter.counts().items() >= counts_of(hostile).items()


# What decodes --------------------------------------------------------------------------------------------------------


@each_hostile
def test_consume_decode_prints_the_others(hostile: Hostile, caplog: pytest.LogCaptureFixture) -> None:
    """What it leaves out is logged, and counted at the end."""
    decoding = Decoding(EventDecoder(SCHEMAS))
    to_bytes = decoding.within(named("payload", b"\n"))
    lines = [to_bytes(message) for message in messages_around(hostile)]
    assert [bool(line) for line in lines] == [True, hostile.is_decodable, hostile.is_decodable, True]
    if not hostile.is_decodable:
        assert f"{TOPIC}/0-0 offset 10: " in caplog.text
        with pytest.raises(KafkaError, match="2 messages could not be decoded"):
            decoding.end()


@each_hostile
def test_a_load_makes_rows_of_the_others(hostile: Hostile) -> None:
    """What is no row goes into quarantine, with the payload; of the rows, those are counted that every tier counts."""
    batch = batch_around(hostile)
    rows, refused = BatchDecoder(TOPIC, SCHEMAS, 1).decode(batch)
    taken = hostile.is_decodable
    assert rows.column("url").to_pylist() == ["/jobs", *(2 * ["/jobs"] if taken else []), "/inbox"]
    assert [each.row for each in refused] == ([] if taken else [1, 2])
    assert all(json.loads(json_line(batch, each, TOPIC))["reason"] == each.reason != "" for each in refused)
    [counted] = counted_in(TOPIC, rows)
    assert len(counted.ids) == len(counted.published_at_us) == 2


def test_a_load_whose_own_schema_contains_itself_makes_rows_of_the_others() -> None:
    """The column of such a record is JSON text."""
    payloads = [deep(1), deep(99), deep(100), deep(2_000), deep(400_000), deep(2)]
    messages = messages_of(payloads, topic=TOPIC)
    rows, refused = BatchDecoder(TOPIC, KnownSchemas({TOPIC: TREE}), 1).decode(batch_of(messages))
    assert [text.count("next") for text in rows.column("root").to_pylist()] == [1, 99, 2]
    assert [(each.row, "nests more than 100 levels" in each.reason) for each in refused] == [
        (2, True), (3, True), (4, True),
    ]  # fmt: skip


def test_a_report_that_cannot_be_decoded_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    """The reader of the topic `audit` counts it, and reads the next one."""
    reader = AuditReader()
    decoder = open_decoder(SCHEMAS)
    messages = messages_of([each.payload for each in HOSTILE], topic=AUDIT_TOPIC)
    assert [reader.read_report(message, decoder) for message in messages] == [None] * len(HOSTILE)
    assert reader.unreadable == len(HOSTILE)
    assert f"{AUDIT_TOPIC}/0-0 offset 0" in caplog.text


@pytest.mark.parametrize(
    ("name", "kind", "value"),
    [
        ("tier", {"type": "map", "values": "int"}, {"a": 1}),
        ("instance", ["null", "string"], None),
        ("window_start", "string", "yesterday"),
        ("window_start", "double", 0.5),
        ("topic", {"type": "array", "items": "bytes"}, [b"a"]),
        ("number", "string", "first"),
        ("cluster", "long", 7),
        ("end_offset", "double", 0.5),
        ("layout", "string", "packed"),
    ],
)
def test_a_report_of_another_schema_is_left_out(
    name: str, kind: object, value: object, caplog: pytest.LogCaptureFixture
) -> None:
    """Its fields have the names of a report's, and a type that nothing behind the reader expects."""
    document = json.loads(AUDIT_COUNT.text)
    for each in document["fields"]:
        if each["name"] == name:
            each.pop("default", None)
            each["type"] = kind
    odd = EventSchema(json.dumps(document))
    report = AuditReport(tier="a", instance="b", topic="c", window_ms=1, start_ms=0, ids=np.ones(2, np.uint64))
    payloads = [
        EventEncoder(KnownSchemas({AUDIT_TOPIC: schema})).encode(AUDIT_TOPIC, {**to_event(report, 1, "w"), **change})
        for schema, change in ((odd, {name: value}), (AUDIT_COUNT, {}))
    ]
    reader = AuditReader()
    decoder = open_decoder(KnownSchemas({AUDIT_TOPIC: odd}, [AUDIT_COUNT]))
    refused, taken = (reader.read_report(message, decoder) for message in messages_of(payloads, topic=AUDIT_TOPIC))
    assert refused is None
    assert isinstance(taken, AuditReport)
    assert reader.unreadable == 1
    assert "AuditCount" in caplog.text


class _Rows:
    """Stands for a data frame: runs what executors are given."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._batch = batch

    def mapInArrow(  # noqa: N802
        self, function: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]], _schema: object
    ) -> list[pa.RecordBatch]:
        return list(function(iter([self._batch])))


@each_hostile
def test_a_report_that_runs_on_leaves_it_out(hostile: Hostile, caplog: pytest.LogCaptureFixture) -> None:
    """The executor's log names it."""
    rows: Any = _Rows(batch_around(hostile))
    [found] = cast("list[pa.RecordBatch]", decoded(rows, [TOPIC], SCHEMAS, ("url",), skip=True))
    assert found.num_rows == (4 if hostile.is_decodable else 2)
    assert found.column("url").to_pylist()[-1] == "/inbox"
    assert hostile.is_decodable or f"Left out: {TOPIC}/0-0 offset 10" in caplog.text


@each_hostile
def test_the_spark_source_gives_it_as_it_is(hostile: Hostile) -> None:
    """A payload is bytes to it."""
    log = LogInMemory([bytes(MessageSet(payloads_around(hostile)))])
    how = ReadSettings(1_000_000, 1000, 1000, True, "fail")
    clock = ManualClock()
    reader = RangeReader(
        OffsetRange(WHERE, 0, log.end), Broker(0, "h", 1), how, ConsumerInMemory({WHERE: log}), clock, clock.sleep
    )
    values = [value for batch in reader.batches() for value in batch.column("value").to_pylist()]
    assert values == payloads_around(hostile)


def test_what_nests_no_deeper_than_is_taken_is_taken() -> None:
    """The event is a level too."""
    assert EventDecoder(SCHEMAS).decode_payload(deep(99)).fields["root"] is not None
