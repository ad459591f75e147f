"""sendfile against read and send: what it costs a server to get the bytes of a segment file into a socket."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from paper_benchmarks.errors import BenchmarkError
from paper_benchmarks.markdown import significant, table
from paper_benchmarks.measure import consume, produce
from paper_benchmarks.payloads import FETCH_BYTES
from paper_benchmarks.pictures import bars, colour, image, plots
from paper_benchmarks.rounds import ROUNDS
from paper_benchmarks.samples import Spread
from paper_benchmarks.systems.kafka import KIND, OWN
from paper_benchmarks.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from paper_benchmarks.experiment import Bench
    from paper_benchmarks.systems.kafka import KafkaBroker

SENDFILE, COPY, FETCH = "sendfile", "read and send", "the broker's fetch"

TEXT = """\
The paper (section 3.1): sendfile moves bytes from a file to a socket directly, which saves two of four copies and one
of two system calls.

A process that does nothing else sends a segment file, from the page cache, in pieces of 200 KB to a process that only
receives: once by sendfile(2), once by pread(2) and send(2). The third line is the broker itself, answering fetches of
200 KB with requests, checks and its event loop, to a client that does not look at the bytes. On the left what the
sender pays, lower is better; on the right megabytes a second, higher is better. The receiver's copy, out of its socket,
remains in all of them."""


class Cost(NamedTuple):
    """What a megabyte costs the sender in CPU time, and megabytes a second."""

    cpu_us: Spread
    megabytes_per_s: Spread


def measure(bench: Bench, broker: KafkaBroker) -> dict[str, Any]:
    """Send one segment file in both ways, and have the broker send it, in turn."""
    messages = bench.messages(toy=1000, small=500_000, paper=2_500_000)
    times = bench.messages(toy=2, small=5, paper=5)
    assert broker.broker is not None
    sent = produce(KIND, broker, "raw", messages, batch=50)
    [path] = (broker.broker.log_dir / f"{sent.topic}-0").glob("*.kafka")
    samples = []
    for number in range(1, ROUNDS[bench.size] + 1):
        for way in (SENDFILE, COPY):
            bench.say(f"round {number}: {way}")
            samples.append({"round": number, "line": way, **_send(path, way, times)})
        bench.say(f"round {number}: {FETCH}")
        run = consume(KIND, broker, "raw", sent.topic, sent.landed)
        assert run.server is not None
        facts = {"bytes": path.stat().st_size, "wall_s": run.wall_s, "cpu_s": run.server.cpu_s}
        samples.append({"round": number, "line": FETCH, **facts})
    return {"samples": samples}


def _send(path: Path, way: str, times: int) -> dict[str, Any]:
    job = {"path": str(path), "way": way, "times": times, "piece_bytes": FETCH_BYTES, "host": "127.0.0.1"}
    with (
        Worker("paper_benchmarks.sink", {}) as sink,
        Worker("paper_benchmarks.reasons.sender", {**job, "port": sink.facts["port"]}) as sender,
    ):
        sink.go()
        sender.go()
        result = sender.result()
        received = sink.result()
    expected = sender.facts["size"] * times
    if received["bytes"] != expected:
        raise BenchmarkError(f"{expected} bytes of {path} were sent, but {received['bytes']} came")
    return {
        "bytes": expected,
        "wall_s": result["wall_s"],
        "cpu_s": result["cpu_s"],
        "receiver_cpu_s": received["cpu_s"],
    }


def costs(body: Mapping[str, Any]) -> dict[str, Cost]:
    """Return what each way costs."""
    found: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for sample in body["samples"]:
        found[sample["line"]].append(sample)
    return {line: _cost(samples) for line, samples in found.items()}


def _cost(samples: list[Mapping[str, Any]]) -> Cost:
    cpu_us = Spread.of([sample["cpu_s"] / sample["bytes"] * 1e12 for sample in samples])
    rate = Spread.of([sample["bytes"] / sample["wall_s"] / 1e6 for sample in samples])
    assert cpu_us is not None
    assert rate is not None
    return Cost(cpu_us, rate)


def chapter(body: Mapping[str, Any], pictures: Path) -> str:
    """Draw CPU time and rate, and put them into a table."""
    figures = costs(body)
    path = pictures / "ablation-sendfile.svg"
    colours = (colour(OWN), "#c1121f", "#9fc5b5")
    with plots(path, 2, width=9, height=2.4) as [left, right]:
        bars(left, {name: each.cpu_us.median for name, each in figures.items()}, colours, "sender, CPU us a MB")
        bars(right, {name: each.megabytes_per_s.median for name, each in figures.items()}, colours, "MB/s")
    rows = [
        (
            name,
            *map(significant, (each.cpu_us.lowest, each.cpu_us.median, each.cpu_us.highest)),
            f"{each.cpu_us.median / figures[SENDFILE].cpu_us.median:.2f}",
            significant(each.megabytes_per_s.median),
        )
        for name, each in figures.items()
    ]
    columns = ("sent by", "CPU us a MB, lowest", "median", "highest", "x sendfile", "MB/s, median")
    return "\n\n".join([TEXT, image(path, "sendfile against read and send"), table(columns, rows)])
