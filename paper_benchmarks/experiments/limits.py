"""What kernel, disk and processor allow, measured in turns with what we reach: each figure as a share of its limit."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafka2011.protocol import FetchRequest, MultiFetchRequest, encode_request
from paper_benchmarks.drivers.job import Job
from paper_benchmarks.errors import BenchmarkError
from paper_benchmarks.experiment import Experiment
from paper_benchmarks.markdown import number, significant, table
from paper_benchmarks.measure import consume, new_topic, produce
from paper_benchmarks.payloads import BATCH, FETCH_BYTES, PAYLOAD_BYTES, payloads
from paper_benchmarks.pictures import colour, image, picture
from paper_benchmarks.systems.kafka import KIND, OWN
from paper_benchmarks.systems.system import Flush
from paper_benchmarks.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from paper_benchmarks.experiment import Bench
    from paper_benchmarks.measure import Run
    from paper_benchmarks.systems.system import System

PARTS = 8
"""Of a multifetch."""
STORED_BYTES = PAYLOAD_BYTES + 10
"""One message in a log."""
_PIECE_BYTES = 1024 * 1024
_SEND_BUFFER_BYTES = 102_400  # the default of socket.send.buffer
_CRC_PIECES = 1000
_FETCHED_AGAIN = 4  # it is so quick that all of it once would be too short


@dataclass(frozen=True, slots=True)
class Flow:
    """So many bytes in so much time; `server_cpu_s` is that of the process at the other end, if there is one."""

    bytes: int
    wall_s: float
    cpu_s: float
    server_cpu_s: float | None = None


@dataclass(frozen=True, slots=True)
class Pair:
    """What is ours, and the limit that it is a share of, by the names of their flows."""

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
    """Measure every limit and every figure of ours once in each round."""
    rounds = bench.messages(toy=1, small=5, paper=11)
    messages = bench.messages(toy=10_000, small=300_000, paper=2_000_000)
    with bench.start(KIND, Flush.ASYNCHRONOUS) as system:
        filled = produce(KIND, system, "sync", messages, batch=BATCH)
        consume(KIND, system, "batches", filled.topic, filled.landed)
        found = []
        for each in range(1, rounds + 1):
            bench.say(f"round {each} of {rounds}")
            found.append(dict(_round(bench.data, system, filled)))
    return {"messages": messages, "rounds": found}


def _round(data: Path, system: System, filled: Run) -> Iterator[tuple[str, Flow]]:
    yield "sink", _sink(filled.messages)
    yield "encoded", _flow(produce(KIND, system, "raw", filled.messages, batch=BATCH))
    yield "produce", _flow(produce(KIND, system, "sync", filled.messages, batch=BATCH))
    total_bytes = filled.messages * STORED_BYTES
    answers = -(-_FETCHED_AGAIN * total_bytes // (PARTS * FETCH_BYTES))
    with tempfile.TemporaryDirectory(prefix="bench-limits-", dir=data) as directory:
        path = Path(directory) / "file"
        yield "write", _written(path, total_bytes, sync=False)
        path.unlink()
        yield "fsync", _written(path, total_bytes, sync=True)
        yield "sendfile", _sendfile(path, answers, 0)
        yield "sendfile-buffer", _sendfile(path, answers, _SEND_BUFFER_BYTES)
    yield "multifetch", _multifetch(system, filled.topic, answers)
    yield "batches", _flow(consume(KIND, system, "batches", filled.topic, filled.landed))
    yield "crc", _crc(filled.messages)


def _flow(run: Run) -> Flow:
    server_cpu_s = None if run.server is None else run.server.cpu_s
    return Flow(run.messages * STORED_BYTES, run.wall_s, run.cpu_s, server_cpu_s)


def _sink(messages: int) -> Flow:
    with Worker("paper_benchmarks.sink", {}) as sink:
        server = {"host": "127.0.0.1", "port": sink.facts["port"]}
        job = Job(
            do="produce",
            client="raw",
            topic=new_topic(),
            messages=messages,
            every=messages,
            batch=BATCH,
            server=server,
        )
        with Worker(KIND.driver, job.facts()) as client:
            sink.go()
            client.go()
            sent, received = client.result(), sink.result()
    if sent["sent_bytes"] != received["bytes"]:
        raise BenchmarkError(f"{sent['sent_bytes']} bytes were sent, but {received['bytes']} came")
    return Flow(messages * STORED_BYTES, sent["wall_s"], sent["cpu_s"], received["cpu_s"])


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


def _multifetch(system: System, topic: str, answers: int) -> Flow:
    job = {**system.server(), "request": multifetch_request(topic).hex(), "count": answers}
    with Worker("paper_benchmarks.drivers.discard", job) as client:
        before = system.usage()
        client.go()
        result = client.result()
        after = system.usage()
    if result["bytes"] < answers * PARTS * FETCH_BYTES:
        raise BenchmarkError(f"{answers} multifetches of {topic} gave {result['bytes']} bytes: too few")
    assert before is not None
    assert after is not None
    return Flow(result["bytes"], result["wall_s"], result["cpu_s"], after.since(before).cpu_s)


def _sendfile(path: Path, answers: int, send_buffer_bytes: int) -> Flow:
    request = multifetch_request(new_topic())
    job = {
        "path": str(path),
        "parts": PARTS,
        "part_bytes": FETCH_BYTES,
        "request_bytes": len(request),
        "send_buffer_bytes": send_buffer_bytes,
    }
    with Worker("paper_benchmarks.sendfile_server", job) as server:
        asked = {"host": "127.0.0.1", "port": server.facts["port"], "request": request.hex(), "count": answers}
        with Worker("paper_benchmarks.drivers.discard", asked) as client:
            server.go()
            client.go()
            result = client.result()
        served = server.result()
    return Flow(result["bytes"], result["wall_s"], result["cpu_s"], served["cpu_s"])


def _written(path: Path, total_bytes: int, *, sync: bool) -> Flow:
    piece = os.urandom(_PIECE_BYTES)
    total_bytes = max(total_bytes, PARTS * FETCH_BYTES)
    written = 0
    with path.open("xb", buffering=0) as file:
        wall_s, cpu_s = time.perf_counter(), time.process_time()
        while written < total_bytes:
            written += file.write(piece)
        if sync:
            os.fsync(file.fileno())
        return Flow(written, time.perf_counter() - wall_s, time.process_time() - cpu_s)


def _crc(messages: int) -> Flow:
    pieces, repeats = payloads(_CRC_PIECES), max(messages // _CRC_PIECES, 1)
    wall_s, cpu_s = time.perf_counter(), time.process_time()
    for _ in range(repeats):
        for piece in pieces:
            zlib.crc32(piece)
    wall_s, cpu_s = time.perf_counter() - wall_s, time.process_time() - cpu_s
    return Flow(repeats * len(pieces) * PAYLOAD_BYTES, wall_s, cpu_s)


# The report ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Share:
    """What a figure of ours is of its limit: by the clock, and in processor time of the server for each byte.

    Medians of the ratios of each round. Above 1 of `server_cpu`, ours takes more processor time than its limit; None
    where there are no two servers to compare.
    """

    rate: float
    server_cpu: float | None


def shares(body: Mapping[str, Any]) -> dict[tuple[str, str], Share]:
    """Return the share of each pair, by (ours, limit)."""
    found = {}
    for pair in PAIRS:
        flows = [(each[pair.ours], each[pair.limit]) for each in body["rounds"]]
        costs = [
            _server_cost(ours) / _server_cost(limit)
            for ours, limit in flows
            if ours["server_cpu_s"] and limit["server_cpu_s"]
        ]
        found[pair.ours, pair.limit] = Share(
            statistics.median(rate_mb(ours) / rate_mb(limit) for ours, limit in flows),
            statistics.median(costs) if costs else None,
        )
    return found


def rate_mb(flow: Mapping[str, Any]) -> float:
    """Return megabytes a second."""
    return float(flow["bytes"] / flow["wall_s"] / 1e6)


def _server_cost(flow: Mapping[str, Any]) -> float:
    return float(flow["server_cpu_s"] / flow["bytes"])


HOW_TO_READ = """\
How to read it: each limit is measured in the same rounds as what stands beside it, and the share is the median of the
rounds' ratios. The last column is the server's processor time for a byte as a multiple of the limit's server's: with
fewer cores than processes, it depends less on what else runs than rates do."""


def chapter(body: Mapping[str, Any], pictures: Path) -> str:
    """Draw every rate, and put the shares into a table."""
    rates = {name: statistics.median(rate_mb(each[name]) for each in body["rounds"]) for name in TITLES}
    _draw(pictures / "limits.svg", rates)
    rows = [
        (
            TITLES[ours],
            significant(rates[ours]),
            TITLES[limit],
            significant(rates[limit]),
            f"{share.rate:.0%}",
            number(share.server_cpu, 2),
        )
        for (ours, limit), share in shares(body).items()
    ]
    return "\n\n".join(
        [
            HOW_TO_READ,
            image(pictures / "limits.svg", "Rates and their limits"),
            table(("ours", "MB/s", "limit", "MB/s", "share", "x server CPU"), rows),
            (
                f"Produced and sent frames count as {STORED_BYTES} bytes a message. One megabyte a second is"
                f" {1e6 / STORED_BYTES:,.0f} messages a second."
            ),
        ]
    )


def _draw(path: Path, rates: Mapping[str, float]) -> None:
    limits = {pair.limit for pair in PAIRS}
    with picture(path, width=9, height=3.8) as axes:
        names = list(TITLES)[::-1]
        bars = axes.barh(
            [TITLES[name] for name in names],
            [rates[name] for name in names],
            color=["#bbbbbb" if name in limits else colour(OWN) for name in names],
        )
        axes.bar_label(bars, [f"{rates[name]:,.0f}" for name in names], padding=3)
        axes.margins(x=0.12)
        axes.set_xlabel("MB/s (grey: limits)")
        axes.grid(visible=False, axis="y")


LIMITS = Experiment("limits", "Physical limits, and our share of them", measure, chapter)
