"""`python -m paper_benchmarks events`: what an event with a schema costs, in this process and without a broker."""

from __future__ import annotations

import datetime
import gc
import io
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import pyarrow as pa
from fastavro import schemaless_reader, schemaless_writer

from kafka2011.cli.output import show_table
from kafka2011.message import Message
from kafka2011.pipeline.access_log import page_view
from kafka2011.pipeline.event_types import EVENT_TYPES, PAGE_VIEW
from kafka2011.pipeline.events import HEADER_BYTES, EventDecoder, EventEncoder, read_stamps
from kafka2011.pipeline.generate import Profile, generate
from kafka2011.pipeline.schemas import KnownSchemas, event_schema
from kafka2011.spark.columns import arrow_schema
from kafka2011.warehouse.decode import BatchDecoder
from paper_benchmarks import results_file
from paper_benchmarks.machine import Neighbours, describe
from paper_benchmarks.samples import Sample, Spread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_TOPIC = "page_views"
_WARM_UP = 100
_LINE = (
    b'83.149.9.216 - - [17/May/2015:10:05:03 +0000] "GET /presentations/images/search.png HTTP/1.1" 200 203023'
    b' "http://www.example.com/presentations/" "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_9_1) AppleWebKit/537.36"'
)


class Work(NamedTuple):
    """One line of the table: what is done with how many events."""

    name: str
    events: int
    do: Callable[[], object]


def page_views(count: int) -> list[dict[str, Any]]:
    """Return page views as the generator makes them, with all that a publisher fills in."""
    stream = generate(Profile(rate=10_000))
    found: list[dict[str, Any]] = []
    while len(found) < count:
        _, topic, event = next(stream)
        if topic == _TOPIC:
            found.append({**event, "published_at": event["time"]})
    return found


def works(count: int) -> list[Work]:
    """Return all that is measured, with this many events."""
    events = page_views(count)
    encoder = EventEncoder(KnownSchemas(EVENT_TYPES))
    payloads = encoder.encode_all(_TOPIC, events)
    messages = [Message(_TOPIC, 0, 0, 0, 0, 0, payload) for payload in payloads]
    fewer = event_schema("PageView", *(field for field in PAGE_VIEW.document["fields"] if field["name"] == "url"))
    decoder, narrow = EventDecoder(KnownSchemas(EVENT_TYPES)), EventDecoder(KnownSchemas(EVENT_TYPES), reader=fewer)

    rows = BatchDecoder(_TOPIC, KnownSchemas(EVENT_TYPES), 1)
    batch = _source_batch(payloads)

    def write_alone() -> None:
        for event in events:
            schemaless_writer(io.BytesIO(), PAGE_VIEW.writer, event)

    def read_alone() -> None:
        for payload in payloads:
            body = io.BytesIO(payload)
            body.seek(HEADER_BYTES)
            schemaless_reader(body, PAGE_VIEW.reader, None)

    return [
        Work("encode", count, lambda: encoder.encode_all(_TOPIC, events)),
        Work("encode-fastavro", count, write_alone),
        Work("decode", count, lambda: decoder.decode_all(messages)),
        Work("decode-narrow", count, lambda: narrow.decode_all(messages)),
        Work("decode-fastavro", count, read_alone),
        Work("decode-rows", count, lambda: rows.decode(batch)),
        Work("decode-rows-each", count, lambda: rows._decode_each(batch)),
        Work("stamps", count, lambda: read_stamps(payloads)),
        Work("access-log", count, lambda: [page_view(_LINE) for _ in range(count)]),
        Work("generate", count, lambda: _take(generate(Profile(rate=10_000)), count)),
    ]


def _source_batch(payloads: list[bytes]) -> pa.RecordBatch:
    """Return payloads as Spark's source gives them."""
    count = len(payloads)
    columns = [payloads, [_TOPIC] * count, [0] * count, [0] * count, range(count), range(1, count + 1), [0] * count]
    schema = arrow_schema()
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _take(stream: Iterator[object], count: int) -> None:
    for _ in range(count):
        next(stream)


@click.command("events")
@click.option("--rounds", "round_count", default=7, show_default=True, type=click.IntRange(1), help="So many rounds.")
@click.option("--events", "count", default=10_000, show_default=True, type=click.IntRange(1), help="Events a line.")
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    default=results_file.DIRECTORY / "events.json",
    help="Where samples go. Default: paper_benchmarks/results/events.json.",
)
def command(round_count: int, count: int, output: Path) -> None:
    """Measure what encoding, decoding and reading the header of an event cost.

    Page views as `kafka2011 generate` makes them. docs/benchmarks.md explains the lines.
    """
    started = datetime.datetime.now(datetime.UTC)
    neighbours = Neighbours()
    for work in works(_WARM_UP):
        work.do()
    lines = works(count)
    samples = [_measured(work, number) for number in range(1, round_count + 1) for work in lines]
    facts = neighbours.facts()
    results_file.write(
        output,
        {
            "benchmark": "events",
            "started": started.isoformat(timespec="seconds"),
            "machine": describe(Path("/tmp")),  # noqa: S108  # no file is written there
            "run": {"rounds": round_count, "events": count, **facts},
            "samples": [asdict(sample) for sample in samples],
        },
    )
    rows = []
    for work in lines:
        spread = Spread.of(sample.cpu_us_per_message for sample in samples if sample.line == work.name)
        assert spread is not None
        figures = [f"{value:.2f}" for value in (spread.lowest, spread.median, spread.highest)]
        rows.append((work.name, *figures, round(1e6 / spread.lowest)))
    show_table(("line", "us lowest", "median", "highest", "events/s at the lowest"), rows, as_json=False)
    click.echo(f"\nmeanwhile others kept {facts['cores_used_by_others']} cores busy; samples: {output}")


def _measured(work: Work, round_number: int) -> Sample:
    gc.collect()
    began_s, cpu_began_s = time.perf_counter(), time.process_time()
    work.do()
    cpu_s, wall_s = time.process_time() - cpu_began_s, time.perf_counter() - began_s
    return Sample(
        round=round_number,
        system="none",
        code="Python",
        line=work.name,
        messages=work.events,
        cpu_s=max(cpu_s, 1e-9),
        wall_s=wall_s,
    )
