"""Decodes quarantined messages again, after a fix: a schema was registered, or this package has learnt something.

One commit: what decodes now becomes rows, at the places where the messages were in the log, and what still does not is
in the quarantine of this commit. It `replaces` the quarantine of the commits that it has read. No partition moves.
"""

from __future__ import annotations

import base64
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kafka2011.events.registry_schemas import RegistrySchemas
from kafka2011.events.schema_registry import SchemaRegistry
from kafka2011.json_document import read_document
from kafka2011.spark.batches import SCHEMA
from kafka2011.warehouse.errors import CoverageError, OvertakenError, WarehouseError
from kafka2011.warehouse.loading.decoding import decoder_for
from kafka2011.warehouse.loading.load_job import counted_in
from kafka2011.warehouse.loading.place import WorkPlace
from kafka2011.warehouse.loading.row_files import RowFiles
from kafka2011.warehouse.rows.decode import json_line
from kafka2011.warehouse.table.commits import Commit, Operation
from kafka2011.warehouse.table.quarantine import awaiting
from kafka2011.warehouse.table.rewriting import widen
from zk.clock import SYSTEM_CLOCK
from zk.connecting import connect

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kafka2011.warehouse.loading.counting import LoadAccount, LoadAudit
    from kafka2011.warehouse.loading.load_settings import LoadSettings
    from kafka2011.warehouse.rows.decode import BatchDecoder
    from kafka2011.warehouse.table.quarantine import Quarantine
    from kafka2011.warehouse.table.topic_table import TopicTable
    from zk.client import ZkClient
    from zk.clock import Clock

_PLACE = ("broker_id", "partition", "offset", "next_offset", "index_in_set")


def redrive(
    table: TopicTable,
    quarantine: Quarantine,
    settings: LoadSettings,
    audit: LoadAudit | None = None,
    clock: Clock = SYSTEM_CLOCK,
    place: WorkPlace | None = None,
) -> Commit | None:
    """Decode what is in a topic's quarantine again; return the commit, None when nothing more can be decoded.

    `place` is kept up to date, for whoever logs a failure.

    What it decodes is held in memory, file by file of the quarantine. Raises KafkaError; nothing is changed then.
    """
    with ExitStack() as stack:
        client = stack.enter_context(connect(settings.zk_connect))
        account = None if audit is None else stack.enter_context(audit.begin(client, table))
        commit = _redrive(client, table, quarantine, settings, account, clock, place or WorkPlace())
        if commit is not None and account is not None:
            account.report()
        return commit


def _redrive(
    client: ZkClient,
    table: TopicTable,
    quarantine: Quarantine,
    settings: LoadSettings,
    account: LoadAccount | None,
    clock: Clock,
    place: WorkPlace,
) -> Commit | None:
    topic = table.topic
    commits = table.commits()
    waiting = awaiting(commits)
    if not waiting:
        return None
    newest = commits[-1]
    if account is not None and account.newest != newest:
        raise OvertakenError(f"{table.where}: another one has committed meanwhile; decode the quarantine again")
    place.commit = newest.number + 1
    decoder = _decoder(client, table, newest, place)
    rows, still = _decode(quarantine, topic, waiting, decoder)
    decoded = pa.Table.from_batches(rows, decoder.schema)
    if not decoded.num_rows:
        return None
    staging = table.begin()
    attempt = staging.rpartition("/")[2]
    commit = Commit(
        topic=topic,
        number=newest.number + 1,
        operation=Operation.REDRIVE,
        written_at_ms=int(clock.wall_s() * 1000),
        offsets=newest.offsets,
        rows=decoded.num_rows,
        quarantined=len(still),
        schema=newest.schema if place.schema is None else place.schema,
        complete_through_ms=newest.complete_through_ms if account is None else account.before_ms,
        replaces=tuple(commit.number for commit in waiting),
        extra=newest.extra,
    )
    try:
        files = RowFiles(table.output(staging), settings.held_bytes)
        for batch in decoded.to_batches():
            files.add(batch)
        files.end()
        quarantine.write(commit.number, attempt, still)
        if account is not None:
            account.begin(commit.number, attempt)
            for batch in rows:
                account.count(counted_in(topic, batch))
            commit = replace(commit, counts=account.counted())
    except BaseException:
        if account is not None:
            account.abandon()
        quarantine.remove(commit.number, attempt)
        table.abandon(staging)
        raise
    widen(table, decoder.widened)
    table.commit(staging, commit, files.files)
    return commit


def _decoder(client: ZkClient, table: TopicTable, newest: Commit, place: WorkPlace) -> BatchDecoder:
    registry = SchemaRegistry(client)
    schemas = registry.of_topic(table.topic)
    place.schema = schemas.newest_number
    return decoder_for(table, newest, RegistrySchemas(registry, table.topic, schemas), newest.number + 1)


def _decode(
    quarantine: Quarantine, topic: str, waiting: Iterable[Commit], decoder: BatchDecoder
) -> tuple[list[pa.RecordBatch], list[str]]:
    """Return the rows that can be decoded now, and the lines of those that still cannot. Raises CoverageError."""
    rows: list[pa.RecordBatch] = []
    still: list[str] = []
    for commit in waiting:
        entries = 0
        for batch in _batches(quarantine, topic, commit):
            decoded, refused = decoder.decode(batch)
            rows.append(decoded)
            still += [json_line(batch, refusal, topic) for refusal in refused]
            entries += batch.num_rows
        if entries != commit.quarantined:
            raise CoverageError(
                f"topic {topic}: {quarantine.directory(commit.number)} has {entries} messages, and commit"
                f" {commit.number} says {commit.quarantined}"
            )
    return rows, still


def _batches(quarantine: Quarantine, topic: str, commit: Commit) -> Iterator[pa.RecordBatch]:
    """Yield the messages that a commit has put into quarantine, as the source gave them."""
    for path, text in quarantine.read(commit.number, commit.attempt):
        complaint = f"{path} is not what a load writes"
        entries = [read_document(line, _entry, WarehouseError, complaint) for line in text.splitlines() if line]
        count = len(entries)
        places = [[entry[name] for entry in entries] for name in _PLACE]
        columns = [
            [entry["payload"] for entry in entries],
            [topic] * count,
            *places,
        ]
        arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def _entry(entry: dict[str, Any]) -> dict[str, Any]:
    if entry["payload"] is not None:
        entry["payload"] = base64.b64decode(entry["payload"])
    return {name: entry[name] for name in (*_PLACE, "payload")}
