"""What an event with a schema costs, and what codecs make of it, in this process and without a broker."""

from __future__ import annotations

import gc
import io
import time
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from fastavro import schemaless_reader, schemaless_writer

from kafka2011.collect.access_log import page_view
from kafka2011.events.codec import HEADER_BYTES, EventDecoder, EventEncoder, read_stamps
from kafka2011.events.generate import Profile, synthetic_events
from kafka2011.events.schemas import KnownSchemas, event_schema
from kafka2011.events.types import EVENT_TYPES, PAGE_VIEW
from kafka2011.message.compression import Codec
from kafka2011.message.message_set import Message, MessageSet
from kafka2011.spark.batches import SCHEMA as SOURCE_SCHEMA
from kafka2011.warehouse.rows.decode import BatchDecoder
from paper_benchmarks.experiments.experiment import Experiment
from paper_benchmarks.measuring.page_views import TOPIC, page_views
from paper_benchmarks.measuring.samples import Sample, figures
from paper_benchmarks.pages.tables import significant, spread_of, table, text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from paper_benchmarks.experiments.experiment import Bench

_WARM_UP = 100
_SET = 200
_CODECS = (Codec.GZIP, Codec.SNAPPY)
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
    sets = [payloads[start : start + _SET] for start in range(0, count, _SET)]
    packed = {codec: [bytes(MessageSet(each, codec)) for each in sets] for codec in _CODECS}

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
        "decode-rows-each": lambda: rows.decode_each(batch),
        "stamps": lambda: read_stamps(payloads),
        **{f"pack-{codec.name.lower()}": partial(_pack, sets, codec) for codec in _CODECS},
        **{f"unpack-{codec.name.lower()}": partial(_unpack, packed[codec]) for codec in _CODECS},
        "access-log": lambda: [page_view(_LINE) for _ in range(count)],
        "generate": lambda: list(islice(synthetic_events(Profile(rate=10_000)), count)),
    }


def _pack(sets: Sequence[list[bytes]], codec: Codec) -> None:
    for each in sets:
        bytes(MessageSet(each, codec))


def _unpack(packed: Sequence[bytes]) -> None:
    for each in packed:
        list(MessageSet.from_bytes(each))


def packed_bytes(count: int) -> dict[str, float]:
    """Return the bytes of an event in a log, by codec, in sets of 200."""
    payloads = EventEncoder(KnownSchemas(EVENT_TYPES)).encode_all(TOPIC, page_views(count))
    sets = [payloads[start : start + _SET] for start in range(0, count, _SET)]
    return {
        codec.name.lower(): sum(len(bytes(MessageSet(each, codec))) for each in sets) / count
        for codec in (Codec.NONE, *_CODECS)
    }


def _source_batch(payloads: list[bytes]) -> pa.RecordBatch:
    """Return payloads as Spark's source gives them."""
    count = len(payloads)
    columns = [payloads, [TOPIC] * count, [0] * count, [0] * count, range(count), range(1, count + 1), [0] * count]
    schema = SOURCE_SCHEMA
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

    samples = bench.in_turn(found, once)
    return {
        "events": count,
        "packed_bytes": packed_bytes(count),
        "lines": [{"line": line, **figures(several)} for line, several in samples.items()],
    }


# The report ----------------------------------------------------------------------------------------------------------

TEXT = """\
Page views as `kafka2011 generate` makes them, {events:,} a line, in one process.
docs/how-to/benchmarks.md explains the lines.
The lowest processor time depends least on what else runs."""
COLUMNS = [
    ("line", text("line")),
    ("CPU us an event", spread_of("client_cpu_us")),
    ("events/s at the lowest", lambda line: significant(1e6 / min(line["client_cpu_us"]))),
]


def chapter(body: Mapping[str, Any], _pictures: Path) -> str:
    """Put processor time into a table."""
    sizes = ", ".join(f"{codec} {significant(size)}" for codec, size in body["packed_bytes"].items())
    packed = f"Bytes of an event in a log, in sets of {_SET}: {sizes}."
    return "\n\n".join([TEXT.format(events=body["events"]), table(body["lines"], COLUMNS), packed])


EXPERIMENT = Experiment(
    "events",
    "What an event costs",
    "whoever publishes or reads events with schemas: encoding, decoding, and codecs",
    measure,
    chapter,
)
