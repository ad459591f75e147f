"""A topic whose schemas change, and its table: everything of a load but brokers and ZooKeeper."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from unittest import mock
from uuid import UUID

import polars
import pyarrow as pa

from kafka2011.events.codec import EventEncoder
from kafka2011.events.schema_registry import SchemaRegistry
from kafka2011.events.schemas import EventSchema, KnownSchemas, event_schema
from kafka2011.spark.batches import SCHEMA as SOURCE
from kafka2011.warehouse.loading import redrive
from kafka2011.warehouse.loading.decoding import decoder_for
from kafka2011.warehouse.loading.load_settings import LoadSettings
from kafka2011.warehouse.loading.row_files import RowFiles
from kafka2011.warehouse.rows.decode import json_line
from kafka2011.warehouse.table.commits import Commit, Operation
from kafka2011.warehouse.table.quarantine import open_quarantine
from kafka2011.warehouse.table.rewriting import widen
from kafka2011.warehouse.table.topic_table import TopicTable
from tests.support.zk_in_memory import ZkClientInMemory
from zk.cluster import TopicPartition
from zk.schemas import SchemaNodes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from kafka2011.warehouse.rows.decode import BatchDecoder

TOPIC = "things"
PARTITION = TopicPartition(TOPIC, 0, 0)
TIME_US = 1_307_836_800_000_000
OWN = ("time", "published_at", "server", "id", "date")


def thing(*fields: dict[str, Any]) -> EventSchema:
    """Return a schema with these fields."""
    return event_schema("Thing", *fields)


def field(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    """Return a field."""
    return {"name": name, "type": kind, **more}


class SchemaLife:
    """A topic of one partition, where a message takes one byte, and its registry, quarantine and table."""

    def __init__(self, warehouse: Path, name: str | None = None, of: SchemaLife | None = None) -> None:
        self.warehouse = warehouse
        client: Any = ZkClientInMemory() if of is None else of.client
        self.client: Any = client
        self.registry = SchemaRegistry(client)
        self.log: list[bytes] = [] if of is None else of.log
        self.table = TopicTable(warehouse, TOPIC, name=name)
        self.quarantine = open_quarantine(str(warehouse), TOPIC)
        self.before_commit: Callable[[], object] = lambda: None

    def register(self, schema: EventSchema) -> EventSchema:
        """Register a schema, whatever it changes."""
        return self.registry.register(TOPIC, schema, force=True).schema

    def register_unchecked(self, schema: EventSchema) -> None:
        """Register a schema as earlier releases did, which did not try what loads make of it."""
        nodes = SchemaNodes(self.client)
        nodes.keep(schema.fingerprint, schema.text)
        nodes.add(TOPIC, len(nodes.numbered(TOPIC)) + 1, schema.text)

    def send(self, schema: EventSchema, *events: dict[str, Any]) -> None:
        """Append events of a schema."""
        encoder = EventEncoder(KnownSchemas({TOPIC: schema}))
        for event in events:
            own = {
                "time": TIME_US + len(self.log),
                "published_at": 0,
                "server": "s",
                "id": str(UUID(int=len(self.log))),
            }
            self.log.append(encoder.encode(TOPIC, {**own, **event}))

    def load(self) -> list[str]:
        """Load what is new, and return why messages were refused."""
        newest = self.table.newest()
        number, start = (newest.number + 1, newest.offsets[PARTITION]) if newest else (1, 0)
        schemas = self.registry.of_topic(TOPIC)
        decoder = decoder_for(self.table, newest, schemas.known(TOPIC), number)
        batch = batch_of(self.log[start:], start)
        if unanswered := decoder.unanswered(batch):
            decoder = decoder.with_answers(*self.registry.answers(unanswered))
        rows, refused = decoder.decode(batch)
        assert rows.schema == decoder.schema
        staging = self.table.begin()
        files = RowFiles(self.table.output(staging), 1_000_000)
        files.add(rows)
        files.end()
        attempt = staging.rpartition("/")[2]
        self.quarantine.write(number, attempt, [json_line(batch, each, TOPIC) for each in refused])
        self.before_commit()
        widen(self.table, decoder.widened)
        schema = schemas.newest_number
        offsets = {PARTITION: len(self.log)}
        commit = Commit(
            TOPIC, number, Operation.LOAD, 0, offsets, rows=rows.num_rows, quarantined=len(refused), schema=schema
        )
        self.table.commit(staging, commit, files.files)
        return [each.reason for each in refused]

    def decoder(self) -> BatchDecoder:
        """Return what the next load would decode with."""
        newest = self.table.newest()
        schemas = self.registry.of_topic(TOPIC).known(TOPIC)
        return decoder_for(self.table, newest, schemas, newest.number + 1 if newest else 1)

    def widen_alone(self) -> None:
        """Do what a load does up to its commit."""
        widen(self.table, self.decoder().widened)

    def redrive(self) -> int:
        """Decode what is in quarantine again, and return how many messages became rows."""

        @contextmanager
        def connect(_: str) -> Iterator[Any]:
            yield self.client

        with mock.patch.object(redrive, "connect", connect):
            commit = redrive.redrive(self.table, self.quarantine, LoadSettings(zk_connect="in memory"))
        return 0 if commit is None else commit.rows

    def rebuilt(self) -> SchemaLife:
        """Load the topic again from its beginning, into a table beside."""
        again = SchemaLife(self.warehouse, f"{TOPIC}-again", self)
        again.load()
        return again

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows in the order of the log, with the columns of the schemas alone; read by Polars."""
        rows = self.every_row()
        kept = sorted(name for name in rows[0] if name not in OWN and not name.startswith("kafka2011_")) if rows else []
        return [{name: row[name] for name in kept} for row in rows]

    def every_row(self) -> list[dict[str, Any]]:
        """Return the rows in the order of the log, with all columns; read by Polars."""
        rows = polars.scan_delta(self.table.path).collect().to_dicts()
        return sorted(rows, key=lambda row: int(row["kafka2011_offset"]))

    def types(self) -> dict[str, str]:
        """Return the columns of the schemas, and their types as Delta has them."""
        fields = pa.schema(self.table.delta().schema())
        return {f.name: str(f.type) for f in fields if f.name not in OWN and not f.name.startswith("kafka2011_")}


def batch_of(payloads: list[bytes], first: int = 0) -> pa.RecordBatch:
    """Return messages as Spark's source gives them, of which each takes one byte."""
    count = len(payloads)
    offsets = range(first, first + count)
    columns: list[Any] = [payloads, [TOPIC] * count, [0] * count, [0] * count, offsets]
    columns += [[offset + 1 for offset in offsets], [0] * count]
    arrays = [pa.array(column, kind.type) for column, kind in zip(columns, SOURCE, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SOURCE)
