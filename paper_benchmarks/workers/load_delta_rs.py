"""Loads a topic of a Kafka of today by confluent-kafka, PyArrow and delta-rs, once it has loaded another one.

All of it is one commit, whose rows stream into it; the commit stores the offsets too, so that a load that is killed is
repeated from there. An event is decoded by pyruhvro (Rust, whole lists) or by fastavro (C, one by one).
"""

from __future__ import annotations

import io
import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Consumer, TopicPartition
from deltalake import CommitProperties, Transaction, WriterProperties, write_deltalake

from paper_benchmarks.loads.messages import MARKER_BYTES
from paper_benchmarks.measuring.errors import BenchmarkError
from paper_benchmarks.measuring.usage import tree_cpu_s
from paper_benchmarks.measuring.worker import work

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from paper_benchmarks.measuring.worker import Work

    Decode = Callable[[Sequence[bytes]], dict[str, pa.Array]]

AT_ONCE = 10_000
_TIMEOUT_S = 60.0
_SETTINGS = {
    "enable.auto.commit": False,
    "fetch.max.bytes": 64 << 20,
    "fetch.queue.backoff.ms": 1,
    "group.id": "measured",
    "max.partition.fetch.bytes": 8 << 20,
    "queued.max.messages.kbytes": 256 << 10,
    "queued.min.messages": 1_000_000,
}


def decoder_of(library: str, schema: str) -> Decode:
    """Return what makes columns; `pyruhvro` and `fastavro` decode events, `text` takes lines as they are."""
    return {"text": _text, "pyruhvro": _pyruhvro, "fastavro": _fastavro}[library](json.loads(schema) if schema else {})


def _text(_: Mapping[str, Any]) -> Decode:
    return lambda values: {"line": pa.array(values, pa.binary()).cast(pa.string())}


def _pyruhvro(document: Mapping[str, Any]) -> Decode:
    import pyruhvro  # noqa: PLC0415 (one line needs it)

    plain = json.dumps({**document, "fields": [_without_uuid(field) for field in document["fields"]]})

    def decode(values: Sequence[bytes]) -> dict[str, pa.Array]:
        batch = pyruhvro.deserialize_array([value[MARKER_BYTES:] for value in values], plain)
        return dict(zip(batch.schema.names, batch.columns, strict=True))

    return decode


def _fastavro(document: Mapping[str, Any]) -> Decode:
    import fastavro  # noqa: PLC0415

    # Times stay numbers: as Python's datetimes they would cost half as much again.
    names = [field["name"] for field in document["fields"]]
    times = [field["name"] for field in document["fields"] if "timestamp" in str(field["type"])]
    fields = [_without_uuid(_plain(field)) for field in document["fields"]]
    schema = fastavro.parse_schema({**document, "fields": fields})
    read = fastavro.schemaless_reader

    def decode(values: Sequence[bytes]) -> dict[str, pa.Array]:
        rows: list[Any] = [read(io.BytesIO(value[MARKER_BYTES:]), schema) for value in values]
        columns = {name: pa.array([row[name] for row in rows]) for name in names}
        return {**columns, **{name: columns[name].cast(pa.timestamp("us")) for name in times}}

    return decode


def _without_uuid(field: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**field, "type": "string"} if "uuid" in str(field["type"]) else field


def _plain(field: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**field, "type": field["type"]["type"]} if isinstance(field["type"], dict) else field


def batch_of(messages: Sequence[Any], decode: Decode) -> pa.RecordBatch:
    """Return messages as rows: their fields, where they stood, and the day, of events that of their own time."""
    columns = decode([message.value() for message in messages])
    if "time" not in columns:
        stamps = [message.timestamp()[1] for message in messages]
        columns["time"] = pa.array(stamps, pa.int64()).cast(pa.timestamp("ms")).cast(pa.timestamp("us"))
    columns["kafka_partition"] = pa.array([message.partition() for message in messages], pa.int32())
    columns["kafka_offset"] = pa.array([message.offset() for message in messages], pa.int64())
    columns["date"] = pc.cast(columns["time"], pa.date32())
    return pa.record_batch(columns)


class Load:
    """One load of a topic into a table."""

    def __init__(self, address: str, decode: Decode) -> None:
        self._consumer = Consumer({"bootstrap.servers": address, **_SETTINGS})
        self._decode = decode

    def run(self, topic: str, table: str) -> None:
        """Load all that the topic has now, in one commit. Raises BenchmarkError."""
        partitions = self._consumer.list_topics(topic, timeout=_TIMEOUT_S).topics[topic].partitions
        begin, end = {}, {}
        for number in partitions:
            where = TopicPartition(topic, number)
            begin[number], end[number] = self._consumer.get_watermark_offsets(where, timeout=_TIMEOUT_S)
        self._consumer.assign([TopicPartition(topic, number, offset) for number, offset in begin.items()])
        batches = self._batches(sum(end.values()) - sum(begin.values()))
        first = next(batches)
        transactions = [Transaction(f"{topic}-{number}", offset) for number, offset in end.items()]
        write_deltalake(
            table,
            pa.RecordBatchReader.from_batches(first.schema, _chain(first, batches)),
            mode="append",
            partition_by=["date"],
            writer_properties=WriterProperties(compression="ZSTD", compression_level=1),
            commit_properties=CommitProperties(app_transactions=transactions),
        )
        self._consumer.unassign()

    def _batches(self, left: int) -> Iterator[pa.RecordBatch]:
        while left:
            messages = self._consumer.consume(min(AT_ONCE, left), _TIMEOUT_S)
            failed = [message.error() for message in messages if message.error()]
            if failed or not messages:
                raise BenchmarkError(f"{left} messages are still to come: {failed or 'and none came'}")
            left -= len(messages)
            yield batch_of(messages, self._decode)

    def close(self) -> None:
        """Leave Kafka."""
        self._consumer.close()


def _chain(first: pa.RecordBatch, others: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from others


@contextmanager
def _prepare(job: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], Work]]:
    load = Load(job["address"], decoder_of(job["library"], job["schema"]))
    try:
        load.run(job["warm_topic"], f"{job['warehouse']}/{job['warm_topic']}")

        def run() -> Mapping[str, Any]:
            began_s = tree_cpu_s()
            load.run(job["topic"], f"{job['warehouse']}/{job['topic']}")
            return {"cpu_s": tree_cpu_s() - began_s}

        yield {}, run
    finally:
        load.close()


if __name__ == "__main__":
    work(_prepare)
