"""The reasons that the paper gives for its figures, each alone: with it and without it, or beside other systems.

Four are measured within our own system, in rounds: no acknowledgement, batches, sendfile, the page cache. The other
two are bytes, which are counted once in every system: what a message takes on disk, and what a server writes when it is
read.
"""

from __future__ import annotations

import os
import statistics
import time
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from paper_benchmarks.clients.measure import consume, produce
from paper_benchmarks.experiments.experiment import Experiment
from paper_benchmarks.experiments.systems import warm_up
from paper_benchmarks.measuring.payloads import BATCH, FETCH_BYTES, PAYLOAD_BYTES
from paper_benchmarks.measuring.samples import Sample, Spread, figures, ratio
from paper_benchmarks.measuring.usage import stored_in, usage_of
from paper_benchmarks.pages.tables import brackets, cost_columns, figure, significant, spread_of, table, text
from paper_benchmarks.systems.kafka2011 import ASYNCHRONOUS, KIND, OWN, KafkaBroker
from paper_benchmarks.workers.sockets import COPY, SENDFILE, read_log, send_file

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from paper_benchmarks.experiments.experiment import Bench
    from paper_benchmarks.measuring.usage import Usage
    from paper_benchmarks.systems.system import Kind, System


class Sent(NamedTuple):
    """One way to send: with which client, how many messages at once, and beside which line without proof."""

    client: str
    batch: int
    plain: str = ""


ACKNOWLEDGED = {
    "one by one, unconfirmed": Sent("sync", 1),
    "one by one, each waited for": Sent("waited", 1, "one by one, unconfirmed"),
    "async, unconfirmed": Sent("async", 1),
    "async, confirmed by barrier": Sent("async-confirmed", 1, "async, unconfirmed"),
}
SETS = (1, 2, 5, 10, 20, 50, 100, 200, 500)
WHOLE = "sendfile, whole file"
BROKER = {"our broker, fetches": 1, "our broker, multifetches of eight": 8}
"""With how many parts a request."""
WARM, RESTARTED, COLD = "warm", "broker restarted", "cold"
MAGIC_0 = "kafka2011, magic 0"
PAPER_OVERHEAD = {"Kafka": 9, "ActiveMQ": 144}
"""Bytes for each message, in the text of section 5."""
_QUIET_S = 6.0  # ActiveMQ writes its index every 5 s


def measure(bench: Bench) -> dict[str, Any]:
    """Measure what is ours in rounds, against one broker, and count bytes in every kind."""
    with bench.start(KIND, ASYNCHRONOUS) as system:
        broker = cast("KafkaBroker", system)
        warm_up(KIND, broker, bench.sized(toy=0.001, small=0.1, paper=0.1))
        body = {
            "acknowledgement": _acknowledgement(bench, broker),
            "batching": _batching(bench, broker),
            "sendfile": _sendfile(bench, broker),
            "page_cache": _page_cache(bench, broker),  # the last one, as it restarts the broker
        }
    return {**body, "bytes": bench.in_turn(("bytes",), lambda _: _bytes(bench), 1)["bytes"][0]}


def _acknowledgement(bench: Bench, broker: KafkaBroker) -> dict[str, Any]:
    messages = bench.sized(toy=500, small=100_000, paper=1_000_000)

    def once(line: str) -> Sample:
        way = ACKNOWLEDGED[line]
        return produce(KIND, broker, way.client, messages // (10 if way.client == "waited" else 1), batch=way.batch)

    return {line: figures(found) for line, found in bench.in_turn(ACKNOWLEDGED, once, name="sent").items()}


def _batching(bench: Bench, broker: KafkaBroker) -> dict[str, Any]:
    messages = bench.sized(toy=1000, small=100_000, paper=2_000_000)
    sets = bench.sized(toy=(1, 50), small=(1, 5, 20, 50, 200), paper=SETS)
    found = bench.in_turn(sets, lambda batch: produce(KIND, broker, "sync", messages, batch=batch), name="sets")
    return {str(batch): figures(samples) for batch, samples in found.items()}


def _sendfile(bench: Bench, broker: KafkaBroker) -> dict[str, Any]:
    """Send one segment file; amounts are megabytes, and the client is the sender, the broker too."""
    [path] = _segments(broker, bench.sized(toy=1000, small=500_000, paper=2_000_000))
    times = bench.sized(toy=2, small=10, paper=20)
    ways = {SENDFILE: (SENDFILE, FETCH_BYTES), COPY: (COPY, FETCH_BYTES), WHOLE: (SENDFILE, 0)}

    def once(way: str) -> Sample:
        if way in ways:
            return send_file(path, ways[way][0], times, ways[way][1])
        return _served(broker, path, times, BROKER[way])

    found = bench.in_turn((*ways, *BROKER), once, name="files")
    return {way: figures(samples) for way, samples in found.items()}


def _served(broker: KafkaBroker, path: Path, times: int, parts: int) -> Sample:
    server = broker.broker
    before = broker.usage()
    assert server is not None
    assert before is not None
    topic = path.parent.name.rpartition("-")[0]
    size = path.stat().st_size
    read = read_log((server.host, server.port), topic, size, times, FETCH_BYTES, parts)
    after = broker.usage()
    assert after is not None
    return replace(read, cpu_s=after.since(before).cpu_s, server_cpu_s=read.cpu_s)


def _segments(broker: KafkaBroker, messages: int) -> list[Path]:
    assert broker.broker is not None
    sent = produce(KIND, broker, "raw", messages, batch=BATCH)
    return sorted((broker.broker.log_dir / f"{sent.topic}-0").glob("*.kafka"))


def _page_cache(bench: Bench, broker: KafkaBroker) -> dict[str, Any]:
    """Read one log in each state; `from_disk` is the share of it that the broker read from there."""
    server = broker.broker
    assert server is not None
    sent = produce(KIND, broker, "raw", bench.sized(toy=1000, small=1_000_000, paper=4_000_000), batch=BATCH)
    directory = server.log_dir / f"{sent.topic}-0"
    size = sum(path.stat().st_size for path in directory.glob("*.kafka"))

    def once(state: str) -> dict[str, float]:
        if state == RESTARTED:
            server.stop()
            server.start()
        elif state == COLD:
            forget(directory)
        run = consume(KIND, broker, "raw", sent.topic, sent.landed)
        assert run.server is not None
        return {"rate": run.rate, "from_disk": run.server.read_bytes / size}

    found = bench.in_turn((WARM, RESTARTED, COLD), once, name="reads")
    return {state: {key: [each[key] for each in several] for key in several[0]} for state, several in found.items()}


def forget(directory: Path) -> None:
    """Have the page cache forget the segments of a log, which must be on disk before it can."""
    for path in directory.glob("*.kafka"):
        with path.open("rb") as segment:
            os.fsync(segment.fileno())
            os.posix_fadvise(segment.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _bytes(bench: Bench) -> list[dict[str, Any]]:
    """Count what every kind writes for messages that come, and for messages that are read."""
    messages = bench.sized(toy=1000, small=100_000, paper=1_000_000)
    quiet_s = bench.sized(toy=0.0, small=_QUIET_S, paper=_QUIET_S)
    with ExitStack() as stack:
        topics = []
        for kind in bench.kinds:
            clients = {kind.title: kind.producers()[0].client}
            if kind.name == OWN:
                clients[MAGIC_0] = "sync-magic-0"
            for title, client in clients.items():
                system = stack.enter_context(bench.start(kind))
                if system.directory is not None and system.pids():
                    warm_up(kind, system, bench.sized(toy=0.001, small=0.02, paper=0.02))
                    topics.append(_Topic(kind, system, title, client))
        time.sleep(quiet_s)
        for topic in topics:
            bench.say(f"{topic.title}: produce and store")
            topic.fill(messages)
        time.sleep(quiet_s)
        for topic in topics:
            topic.look()
            bench.say(f"{topic.title}: consume")
            topic.read()
        time.sleep(quiet_s)
        return [topic.found() for topic in topics]


class _Topic:
    """One topic of one system, and what was written for it."""

    def __init__(self, kind: Kind, system: System, title: str, client: str) -> None:
        self.title = title
        self._kind, self._system, self._client = kind, system, client
        self._stored = self._written = 0
        self._zookeeper: int | None = None

    def fill(self, messages: int) -> None:
        """Produce, after a look at what is there."""
        self._stored = self._now_stored()
        batch = BATCH if self._kind.producers()[0].batch > 1 else 1
        self._sent = produce(self._kind, self._system, self._client, messages, batch=batch)

    def look(self) -> None:
        """Note what was stored, and how much had been written until then."""
        self._stored = self._now_stored() - self._stored
        self._written, self._zookeeper = self._usage().written_bytes, self._zookeeper_written()

    def read(self) -> None:
        """Consume everything."""
        consume(self._kind, self._system, self._kind.consumers()[0].client, self._sent.topic, self._sent.landed)

    def found(self) -> dict[str, Any]:
        """Return bytes for a message, and what the server has become."""
        usage, zookeeper = self._usage(), self._zookeeper_written()
        return {
            "kind": self._kind.name,
            "title": self.title,
            "messages": self._sent.landed,
            "stored_bytes": self._stored / self._sent.landed,
            "written_bytes": (usage.written_bytes - self._written) / self._sent.landed,
            "zookeeper_bytes": None if zookeeper is None else zookeeper - (self._zookeeper or 0),
            "threads": usage.threads,
            "memory_bytes": usage.memory_bytes,
        }

    def _now_stored(self) -> int:
        assert self._system.directory is not None
        return stored_in(self._system.directory)

    def _usage(self) -> Usage:
        usage = self._system.usage()
        assert usage is not None
        return usage

    def _zookeeper_written(self) -> int | None:
        """Return what the keeper of our consumers' offsets has written."""
        pid = getattr(self._system, "zookeeper_pid", None)
        return None if pid is None else usage_of([pid]).written_bytes


# What claims and pictures take of it ---------------------------------------------------------------------------------


def without_proof(body: Mapping[str, Any], line: str) -> Spread:
    """Return how many times as fast the same was without proof, in the same rounds."""
    lines = body["acknowledgement"]
    return ratio(lines[ACKNOWLEDGED[line].plain]["rate"], lines[line]["rate"])


def gain(body: Mapping[str, Any], batch: int = BATCH, key: str = "rate") -> Spread:
    """Return how many times the rate of single messages that of sets was; by another key the CPU time of these."""
    sets = body["batching"]
    one, many = sets["1"], sets[str(batch)]
    return ratio(many[key], one[key]) if key == "rate" else ratio(one[key], many[key])


def times_sendfile(body: Mapping[str, Any], way: str) -> Spread:
    """Return the sender's CPU time of a way as a multiple of sendfile's in the same rounds."""
    return ratio(body["sendfile"][way]["client_cpu_us"], body["sendfile"][SENDFILE]["client_cpu_us"])


def overhead(line: Mapping[str, Any]) -> float:
    """Return what a message takes on disk besides its payload."""
    return float(line["stored_bytes"]) - PAYLOAD_BYTES


# The report ----------------------------------------------------------------------------------------------------------

ACKNOWLEDGEMENT = """\
The protocol has no answer to a produce, so what is waited for is an empty multifetch behind the sets, which the broker
answers only when it has appended them."""
BATCHING = "SyncProducer, unconfirmed, by how many messages of 200 bytes go in one set."
SENDFILE_TEXT = """\
A process that does nothing else sends a segment file from the page cache in pieces of 200 KB to a process that only
receives: by sendfile(2), or by pread(2) and send(2); and all of it by one sendfile(2). Beside it, our broker answers
fetches of 200 KB for the same file, one a request and eight, of which the next is always under way. CPU time is the
sender's, for a megabyte; the receiver's copy out of its socket is the same in all of them."""
PAGE_CACHE = """\
One log is read by a client that does not look at the bytes: just after it was written, after the broker was stopped and
started, and after the kernel was told to forget the file. What comes from the disk is what the broker's `/proc/PID/io`
says. On a tmpfs, or where something below this machine caches the disk, cold is no slower than that."""
BYTES = """\
Each topic is written, left alone for some seconds, and read once; counted once, as bytes do not depend on what else
runs. *On disk* is by how much a server's files grew, without blocks of nothing but zeros, which are room made ready
before it is needed. *Written while read* is `write_bytes` of all its processes (`/proc/PID/io`, which counts nothing on
a tmpfs) from the first message read until some seconds after the last. Where ours keeps nothing, the consumers' offsets
are in ZooKeeper, which wrote {zookeeper} bytes meanwhile. Threads and memory are those at the end."""


def chapter(body: Mapping[str, Any], _pictures: Path) -> str:
    """Put each reason into a table."""
    rows = [{"line": line, **found} for line, found in body["acknowledgement"].items()]
    plain = [row for row in rows if ACKNOWLEDGED[row["line"]].plain]
    times = {row["line"]: brackets(without_proof(body, row["line"])) for row in plain}
    sent = [("sent", text("line")), ("messages/s", spread_of("rate", whole=True)), *cost_columns("broker")]
    sets = [{"batch": batch, **found} for batch, found in body["batching"].items()]
    files = [{"way": way, **found} for way, found in body["sendfile"].items()]
    states = [{"state": state, **found} for state, found in body["page_cache"].items()]
    zookeeper = sum(line["zookeeper_bytes"] or 0 for line in body["bytes"])
    return "\n\n".join(
        [
            f"### No acknowledgement\n\n{ACKNOWLEDGEMENT}",
            table(rows, [*sent, ("x without proof", lambda row: times.get(row["line"]))]),
            f"### Batches\n\n{BATCHING}",
            table(
                sets,
                [
                    ("messages in a set", text("batch")),
                    *sent[1:],
                    ("x single", lambda row: brackets(gain(body, int(row["batch"])))),
                ],
            ),
            f"### sendfile\n\n{SENDFILE_TEXT}",
            table(
                files,
                [
                    ("sent by", text("way")),
                    ("CPU us a MB", spread_of("client_cpu_us")),
                    ("x sendfile", lambda row: brackets(times_sendfile(body, row["way"]))),
                    ("MB/s", spread_of("rate", whole=True)),
                ],
            ),
            f"### The page cache\n\n{PAGE_CACHE}",
            table(
                states,
                [
                    ("log", text("state")),
                    ("messages/s", spread_of("rate", whole=True)),
                    ("of it from the disk", lambda row: f"{statistics.median(row['from_disk']):.0%}"),
                ],
            ),
            f"### Compact format, and no delivery state\n\n{BYTES.format(zookeeper=f'{zookeeper:,}')}",
            table(
                body["bytes"],
                [
                    ("system", text("title")),
                    ("on disk, bytes a message", figure("stored_bytes")),
                    ("overhead", lambda line: significant(overhead(line))),
                    ("written while read, bytes a message", figure("written_bytes")),
                    ("threads", text("threads")),
                    ("memory, MB", figure("memory_bytes", unit=1e6)),
                ],
            ),
        ]
    )


EXPERIMENT = Experiment(
    "reasons",
    "Why: the paper's reasons, one by one",
    "readers of the paper's sections 3.1 and 5: what each design decision is worth",
    measure,
    chapter,
)
