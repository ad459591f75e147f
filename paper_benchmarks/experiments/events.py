"""What an event with a schema costs, in this process and without a broker."""

from __future__ import annotations

import gc
import io
import time
from itertools import islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from fastavro import schemaless_reader, schemaless_writer

from kafka2011.collect.access_log import page_view
from kafka2011.events.codec import HEADER_BYTES, EventDecoder, EventEncoder, read_stamps
from kafka2011.events.generate import Profile, generate
from kafka2011.events.schemas import KnownSchemas, event_schema
from kafka2011.events.types import EVENT_TYPES, PAGE_VIEW
from kafka2011.message.message_set import Message
from kafka2011.spark.source_columns import arrow_schema
from kafka2011.warehouse.rows.decode import BatchDecoder
from paper_benchmarks.experiments.experiment import Experiment
from paper_benchmarks.measuring.spread import Sample, figures
from paper_benchmarks.pages.tables import figure, significant, table, text
from paper_benchmarks.workers.event_producer import TOPIC, page_views

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from paper_benchmarks.experiments.experiment import Bench

_WARM_UP = 100
_LINE = (
    b'83.149.9.216 - - [17/May/2015:10:05:03 +0000] "GET /presentations/images/search.png HTTP/1.1" 200 203023'
    b' "http://www.example.com/presentations/" "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_9_1) AppleWebKit/537.36"'
)


def works(count: int) -> dict[str, Callable[[], object]]:
    """Return all that is measured, with this many events."""
    events = page_views(count)
    encoder = EventEncoder(KnownSchemas(EVENT_TYPES))
    payloads = encoder.encode_all(TOPIC, events)
    messages = [Message(TOPIC, 0, 0, 0, 0, 0, payload) for payload in payloads]
    fewer = event_schema("PageView", *(field for field in PAGE_VIEW.document["fields"] if field["name"] == "url"))
    decoder, narrow = EventDecoder(KnownSchemas(EVENT_TYPES)), EventDecoder(KnownSchemas(EVENT_TYPES), reader=fewer)
    rows = BatchDecoder(TOPIC, KnownSchemas(EVENT_TYPES), 1)
    batch = _source_batch(payloads)

    def write_alone() -> None:
        for event in events:
            schemaless_writer(io.BytesIO(), PAGE_VIEW.writer, event)

    def read_alone() -> None:
        for payload in payloads:
            body = io.BytesIO(payload)
            body.seek(HEADER_BYTES)
            schemaless_reader(body, PAGE_VIEW.reader, None)

    return {
        "encode": lambda: encoder.encode_all(TOPIC, events),
        "encode-fastavro": write_alone,
        "decode": lambda: decoder.decode_all(messages),
        "decode-narrow": lambda: narrow.decode_all(messages),
        "decode-fastavro": read_alone,
        "decode-rows": lambda: rows.decode(batch),
        "decode-rows-each": lambda: rows._decode_each(batch),
        "stamps": lambda: read_stamps(payloads),
        "access-log": lambda: [page_view(_LINE) for _ in range(count)],
        "generate": lambda: list(islice(generate(Profile(rate=10_000)), count)),
    }


def _source_batch(payloads: list[bytes]) -> pa.RecordBatch:
    """Return payloads as Spark's source gives them."""
    count = len(payloads)
    columns = [payloads, [TOPIC] * count, [0] * count, [0] * count, range(count), range(1, count + 1), [0] * count]
    schema = arrow_schema()
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def measure(bench: Bench) -> dict[str, Any]:
    """Do everything in turn, after a few events that do not count."""
    for work in works(_WARM_UP).values():
        work()
    count = bench.sized(toy=20, small=10_000, paper=50_000)
    found = works(count)

    def once(line: str) -> Sample:
        gc.collect()
        began_s, cpu_began_s = time.perf_counter(), time.process_time()
        found[line]()
        cpu_s, wall_s = time.process_time() - cpu_began_s, time.perf_counter() - began_s
        return Sample(amount=count, wall_s=wall_s, cpu_s=max(cpu_s, 1e-9))

    samples = bench.in_turn(found, once, bench.sized(toy=1, small=7, paper=7))
    return {"events": count, "lines": [{"line": line, **figures(several)} for line, several in samples.items()]}


# The report ----------------------------------------------------------------------------------------------------------

TEXT = """\
Page views as `kafka2011 generate` makes them, {events:,} a line, in one process; docs/benchmarks.md explains the lines.
The lowest processor time depends least on what else runs."""
COLUMNS = [
    ("line", text("line")),
    ("CPU us an event, lowest", figure("client_cpu_us", 0)),
    ("median", figure("client_cpu_us", 1)),
    ("highest", figure("client_cpu_us", 2)),
    ("events/s at the lowest", lambda line: significant(1e6 / line["client_cpu_us"][0])),
]


def chapter(body: Mapping[str, Any], _pictures: Path) -> str:
    """Put processor time into a table."""
    return "\n\n".join([TEXT.format(events=body["events"]), table(body["lines"], COLUMNS)])


EXPERIMENT = Experiment("events", "What an event costs", measure, chapter)
