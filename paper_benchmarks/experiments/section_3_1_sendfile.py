"""sendfile against read and send: what it costs a server to get the bytes of a segment file into a socket."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from paper_benchmarks.clients.measure import consume, produce
from paper_benchmarks.measuring.errors import BenchmarkError
from paper_benchmarks.measuring.payloads import FETCH_BYTES
from paper_benchmarks.measuring.spread import Sample, Spread
from paper_benchmarks.measuring.worker import Worker
from paper_benchmarks.pages.pictures import bars, colour, image, plots
from paper_benchmarks.pages.tables import figure, spread_columns, table, text
from paper_benchmarks.systems.kafka2011 import KIND, OWN

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from paper_benchmarks.experiments.experiment import Bench
    from paper_benchmarks.systems.kafka2011 import KafkaBroker

SENDFILE, COPY, FETCH = "sendfile", "read and send", "the broker's fetch"

TEXT = """\
The paper (section 3.1): sendfile moves bytes from a file to a socket directly, which saves two of four copies and one
of two system calls.

A process that does nothing else sends a segment file, from the page cache, in pieces of 200 KB to a process that only
receives: once by sendfile(2), once by pread(2) and send(2). The third line is the broker itself, answering fetches of
200 KB with requests, checks and its event loop, to a client that does not look at the bytes. On the left what the
sender pays, lower is better; on the right megabytes a second, higher is better. The receiver's copy, out of its socket,
remains in all of them."""


def measure(bench: Bench, broker: KafkaBroker) -> dict[str, Any]:
    """Send one segment file in both ways, and have the broker send it, in turn."""
    messages = bench.sized(toy=1000, small=500_000, paper=2_500_000)
    times = bench.sized(toy=2, small=5, paper=5)
    assert broker.broker is not None
    sent = produce(KIND, broker, "raw", messages, batch=50)
    [path] = (broker.broker.log_dir / f"{sent.topic}-0").glob("*.kafka")

    def once(way: str) -> Sample:
        if way != FETCH:
            return _send(path, way, times)
        run = consume(KIND, broker, "raw", sent.topic, sent.landed)
        assert run.server is not None
        return Sample(amount=path.stat().st_size / 1e6, wall_s=run.wall_s, cpu_s=run.server.cpu_s)

    return {way: cost(samples) for way, samples in bench.in_turn((SENDFILE, COPY, FETCH), once).items()}


def _send(path: Path, way: str, times: int) -> Sample:
    job = {"path": str(path), "way": way, "times": times, "piece_bytes": FETCH_BYTES, "host": "127.0.0.1"}
    with (
        Worker("paper_benchmarks.workers.sockets", {"do": "sink"}) as sink,
        Worker("paper_benchmarks.workers.sockets", {**job, "do": "send", "port": sink.facts["port"]}) as sender,
    ):
        sink.go()
        sender.go()
        result = sender.result()
        received = sink.result()
    expected = sender.facts["size"] * times
    if received["bytes"] != expected:
        raise BenchmarkError(f"{expected} bytes of {path} were sent, but {received['bytes']} came")
    return Sample(amount=expected / 1e6, wall_s=result["wall_s"], cpu_s=result["cpu_s"])


def cost(samples: Sequence[Sample]) -> dict[str, Spread]:
    """Return what a megabyte costs the sender in CPU time, and megabytes a second."""
    return {
        "cpu_us": Spread.of(each.client_cpu_us for each in samples),
        "rate": Spread.of(each.rate for each in samples),
    }


def times_sendfile(body: Mapping[str, Any], way: str) -> float:
    """Return the CPU time of a way as a multiple of sendfile's; of medians."""
    return float(body[way]["cpu_us"][1] / body[SENDFILE]["cpu_us"][1])


def chapter(body: Mapping[str, Any], pictures: Path) -> str:
    """Draw CPU time and rate, and put them into a table."""
    path = pictures / "ablation-sendfile.svg"
    colours = (colour(OWN), "#c1121f", "#9fc5b5")
    with plots(path, 2, width=9, height=2.4) as [left, right]:
        bars(left, {name: each["cpu_us"][1] for name, each in body.items()}, colours, "sender, CPU us a MB")
        bars(right, {name: each["rate"][1] for name, each in body.items()}, colours, "MB/s")
    columns = [
        ("sent by", text("way")),
        *spread_columns("CPU us a MB", "cpu_us"),
        ("x sendfile", lambda row: f"{times_sendfile(body, row['way']):.2f}"),
        ("MB/s, median", figure("rate", 1)),
    ]
    rows = [{"way": way, **found} for way, found in body.items()]
    return "\n\n".join([TEXT, image(path, "sendfile against read and send"), table(rows, columns)])
