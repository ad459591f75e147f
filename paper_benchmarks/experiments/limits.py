"""What kernel, disk and processor allow, measured in turns with what we reach: each figure as a share of its limit."""

from __future__ import annotations

import os
import tempfile
import time
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kafka2011.wire.protocol import FetchRequest, MultiFetchRequest, encode_request
from paper_benchmarks.clients.job import Job
from paper_benchmarks.clients.measure import consume, new_topic, produce
from paper_benchmarks.experiments.experiment import Experiment
from paper_benchmarks.measuring.errors import BenchmarkError
from paper_benchmarks.measuring.payloads import BATCH, FETCH_BYTES, PAYLOAD_BYTES, STORED_BYTES, payloads
from paper_benchmarks.measuring.spread import Sample, Spread, ratio
from paper_benchmarks.measuring.worker import Worker, run_worker
from paper_benchmarks.pages.pictures import bars, colour, image, picture
from paper_benchmarks.pages.tables import significant, table, whole
from paper_benchmarks.systems.kafka2011 import KIND, OWN
from paper_benchmarks.systems.system import Flush

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from paper_benchmarks.experiments.experiment import Bench
    from paper_benchmarks.systems.system import System

PARTS = 8
"""Of a multifetch."""
_PIECE_BYTES = 1024 * 1024
_SEND_BUFFER_BYTES = 102_400  # the default of socket.send.buffer
_CRC_PIECES = 1000
_FETCHED_AGAIN = 4  # it is so quick that all of it once would be too short
_SOCKETS = "paper_benchmarks.workers.sockets"


class Pair(NamedTuple):
    """What is ours, and the limit that it is a share of, by their names."""

    ours: str
    limit: str


TITLES = {
    "sink": "pre-encoded frames of 50 into a sink",
    "encoded": "the same frames into our broker",
    "produce": "SyncProducer, batch 50",
    "sendfile": "raw sendfile, eight pieces of 200 KB",
    "sendfile-buffer": "raw sendfile, our broker's send buffer",
    "multifetch": "our broker, eight parts of 200 KB",
    "batches": "one stream, batches(), 200 KB",
    "write": "writes of 1 MB, not synced",
    "fsync": "writes of 1 MB, one fsync at the end",
    "crc": "zlib.crc32 of payloads of 200 bytes",
}
PAIRS = (
    Pair("produce", "sink"),
    Pair("encoded", "sink"),
    Pair("multifetch", "sendfile"),
    Pair("multifetch", "sendfile-buffer"),
    Pair("batches", "sendfile"),
    Pair("produce", "write"),
    Pair("produce", "fsync"),
    Pair("produce", "crc"),
)


def measure(bench: Bench) -> dict[str, Any]:
    """Measure every limit and every figure of ours once in each round; samples are in megabytes."""
    messages = bench.sized(toy=10_000, small=300_000, paper=2_000_000)
    with (
        bench.start(KIND, Flush.ASYNCHRONOUS) as system,
        tempfile.TemporaryDirectory(prefix="bench-limits-", dir=bench.data) as directory,
    ):
        filled = produce(KIND, system, "sync", messages, batch=BATCH)
        consume(KIND, system, "batches", filled.topic, filled.landed)
        path, total_bytes = Path(directory) / "file", messages * STORED_BYTES
        answers = -(-_FETCHED_AGAIN * total_bytes // (PARTS * FETCH_BYTES))
        limits = {
            "sink": lambda: _megabytes(sink(messages, BATCH)),
            "encoded": lambda: _megabytes(produce(KIND, system, "raw", messages, batch=BATCH)),
            "produce": lambda: _megabytes(produce(KIND, system, "sync", messages, batch=BATCH)),
            "write": lambda: _written(path, total_bytes, sync=False),
            "fsync": lambda: _written(path, total_bytes, sync=True),
            "sendfile": lambda: _sendfile(path, answers, 0),
            "sendfile-buffer": lambda: _sendfile(path, answers, _SEND_BUFFER_BYTES),
            "multifetch": lambda: _multifetch(system, filled.topic, answers),
            "batches": lambda: _megabytes(consume(KIND, system, "batches", filled.topic, filled.landed)),
            "crc": lambda: _crc(messages),
        }
        found = bench.in_turn(limits, lambda name: limits[name](), bench.sized(toy=1, small=5, paper=11))
    return {"messages": messages, **summary(found)}


def summary(found: Mapping[str, Sequence[Sample]]) -> dict[str, Any]:
    """Return megabytes a second, and what each figure of ours is of its limit.

    `share` is by the clock, `server_cpu` in processor time of the server for each byte: above 1 ours takes more than
    its limit. Ratios are of one round; None stands where there are no two servers to compare.
    """
    pairs = []
    for pair in PAIRS:
        both = list(zip(found[pair.ours], found[pair.limit], strict=True))
        costs = [
            ours.server_cpu_us / limit.server_cpu_us
            for ours, limit in both
            if ours.server_cpu_us and limit.server_cpu_us
        ]
        share = ratio(found[pair.ours], found[pair.limit])
        pairs.append({**pair._asdict(), "share": share, "server_cpu": Spread.of(costs) if costs else None})
    return {
        "rates": {name: Spread.of(each.rate for each in several) for name, several in found.items()},
        "pairs": pairs,
    }


def _megabytes(messages: Sample) -> Sample:
    """Return a sample of messages as one of the megabytes that they take in a log."""
    size_bytes = int(messages.amount) * STORED_BYTES
    return _sample(size_bytes, messages.wall_s, messages.cpu_s, messages.server_cpu_s)


def _sample(size_bytes: int, wall_s: float, cpu_s: float, server_cpu_s: float | None = None) -> Sample:
    return Sample(amount=size_bytes / 1e6, wall_s=wall_s, cpu_s=cpu_s, server_cpu_s=server_cpu_s)


def sink(messages: int, batch: int) -> Sample:
    """Send requests encoded before into a process that only receives: what the kernel takes for the same bytes."""
    with Worker(_SOCKETS, {"do": "sink"}) as receiver:
        job = Job(
            do="produce",
            client="raw",
            topic=new_topic(),
            messages=messages,
            every=messages,
            batch=batch,
            server={"host": "127.0.0.1", "port": receiver.facts["port"]},
        )
        with Worker(KIND.driver, job.facts()) as client:
            receiver.go()
            client.go()
            result, received = client.result(), receiver.result()
    if client.facts["sent_bytes"] != received["bytes"]:
        raise BenchmarkError(f"{client.facts['sent_bytes']} bytes were sent, but {received['bytes']} came")
    return Sample(amount=messages, wall_s=result["wall_s"], cpu_s=result["cpu_s"], server_cpu_s=received["cpu_s"])


def multifetch_request(topic: str) -> bytes:
    """Return a request for eight parts of partition 0, one after the other."""
    whole_bytes = FETCH_BYTES // STORED_BYTES * STORED_BYTES
    return bytes(
        encode_request(
            MultiFetchRequest(
                tuple(FetchRequest(topic, 0, part * whole_bytes, FETCH_BYTES) for part in range(PARTS)),
            )
        )
    )


def _multifetch(system: System, topic: str, answers: int) -> Sample:
    job = {**system.server(), "do": "ask", "request": multifetch_request(topic).hex(), "count": answers}
    worked = run_worker(_SOCKETS, job, system.cpu_s)
    result = worked.result
    if result["bytes"] < answers * PARTS * FETCH_BYTES:
        raise BenchmarkError(f"{answers} multifetches of {topic} gave {result['bytes']} bytes: too few")
    return _sample(result["bytes"], result["wall_s"], result["cpu_s"], worked.server_cpu_s)


def _sendfile(path: Path, answers: int, send_buffer_bytes: int) -> Sample:
    request = multifetch_request(new_topic())
    job = {
        "do": "answer",
        "path": str(path),
        "parts": PARTS,
        "part_bytes": FETCH_BYTES,
        "request_bytes": len(request),
        "send_buffer_bytes": send_buffer_bytes,
    }
    with Worker(_SOCKETS, job) as server:
        asked = {"do": "ask", "host": "127.0.0.1", "port": server.facts["port"]}
        with Worker(_SOCKETS, {**asked, "request": request.hex(), "count": answers}) as client:
            server.go()
            client.go()
            result = client.result()
        served = server.result()
    return _sample(result["bytes"], result["wall_s"], result["cpu_s"], served["cpu_s"])


def _written(path: Path, total_bytes: int, *, sync: bool) -> Sample:
    piece = os.urandom(_PIECE_BYTES)
    total_bytes = max(total_bytes, PARTS * FETCH_BYTES)
    written = 0
    path.unlink(missing_ok=True)
    with path.open("xb", buffering=0) as file:
        wall_s, cpu_s = time.perf_counter(), time.process_time()
        while written < total_bytes:
            written += file.write(piece)
        if sync:
            os.fsync(file.fileno())
        return _sample(written, time.perf_counter() - wall_s, time.process_time() - cpu_s)


def _crc(messages: int) -> Sample:
    pieces, repeats = payloads(_CRC_PIECES), max(messages // _CRC_PIECES, 1)
    wall_s, cpu_s = time.perf_counter(), time.process_time()
    for _ in range(repeats):
        for piece in pieces:
            zlib.crc32(piece)
    wall_s, cpu_s = time.perf_counter() - wall_s, time.process_time() - cpu_s
    return _sample(repeats * len(pieces) * PAYLOAD_BYTES, wall_s, cpu_s)


# The report ----------------------------------------------------------------------------------------------------------

HOW_TO_READ = """\
How to read it: each limit is measured in the same rounds as what stands beside it, and the share is the median of the
rounds' ratios. The last column is the server's processor time for a byte as a multiple of the limit's server's: with
fewer cores than processes, it depends less on what else runs than rates do."""


def chapter(body: Mapping[str, Any], pictures: Path) -> str:
    """Draw every rate, and put the shares into a table."""
    rates = {name: body["rates"][name][1] for name in TITLES}
    _draw(pictures / "limits.svg", rates)
    columns = [
        ("ours", lambda pair: TITLES[pair["ours"]]),
        ("MB/s", lambda pair: significant(rates[pair["ours"]])),
        ("limit", lambda pair: TITLES[pair["limit"]]),
        ("MB/s", lambda pair: significant(rates[pair["limit"]])),
        ("share", lambda pair: f"{pair['share'][1]:.0%}"),
        ("x server CPU", whole("server_cpu", 1, digits=2)),
    ]
    return "\n\n".join(
        [
            HOW_TO_READ,
            image(pictures / "limits.svg", "Rates and their limits"),
            table(body["pairs"], columns),
            (
                f"Produced and sent frames count as {STORED_BYTES} bytes a message. One megabyte a second is"
                f" {1e6 / STORED_BYTES:,.0f} messages a second."
            ),
        ]
    )


def _draw(path: Path, rates: Mapping[str, float]) -> None:
    limits = {pair.limit for pair in PAIRS}
    with picture(path, width=9, height=3.8) as axes:
        colours = ["#bbbbbb" if name in limits else colour(OWN) for name in TITLES]
        bars(axes, {TITLES[name]: rate for name, rate in rates.items()}, colours, "MB/s (grey: limits)")


EXPERIMENT = Experiment("limits", "Physical limits, and our share of them", measure, chapter)
