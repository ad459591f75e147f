"""What a loaded row costs, by engine, form and size of messages, beside loads from a Kafka of today."""

from __future__ import annotations

import statistics
import sys
import tempfile
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from deltalake import DeltaTable

from paper_benchmarks.experiments.experiment import Experiment
from paper_benchmarks.loads.filling import PARTITIONS, fill_kafka, fill_ours
from paper_benchmarks.loads.messages import CASES, Case
from paper_benchmarks.loads.ways import CORES, NONE, NONE_AUDIT, SPARK, SPARK_AUDIT, WAYS, Way, warm_topic
from paper_benchmarks.measuring.errors import BenchmarkError
from paper_benchmarks.measuring.samples import Spread
from paper_benchmarks.measuring.worker import run_worker
from paper_benchmarks.pages.tables import brackets, significant, spread_of, table, text
from paper_benchmarks.systems.kafka2011 import ASYNCHRONOUS, OWN, own_broker

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from paper_benchmarks.experiments.experiment import Bench
    from paper_benchmarks.systems.system import System

    Line = Mapping[str, Any]

_WARM_SHARE = 5
_DEADLINE_S = 1800.0
AUDITED = {NONE: NONE_AUDIT, SPARK: SPARK_AUDIT}

TEXT = f"""\
A load takes a whole topic of {PARTITIONS} partitions from one broker into a new Delta table, by {CORES} processes or by
Spark on `local[{CORES}]`. Before it, the same process loads a topic of the same kind with a fifth of the messages into
another table, which does not count: no figure has the start of Python and Java in it, nor most of the work of Java's
compiler. *Client* is the user and system time of the loading process and all below it; *broker* is that of the broker.
Delta's log must have a row for each message, else there is no figure."""
AUDIT = """\
The part of the client's CPU time with `--audit` that goes into counting, files of counts, reports, and reading what
other tiers have reported. Events are 0.5 ms apart by their own times. It is the difference between two loads of one
round; the table has the median of all cases, and the lowest and highest case."""
OURS, DELTA_RS, DELTA_SPARK = "`kafka2011 load`", "confluent-kafka, delta-rs", "Spark's Kafka source, delta-spark"
UNLIKE = (
    ("a line", "the one field of an event, beside time, server and id", "text; nothing to decode", "the same"),
    (
        "an event",
        "the same bytes; its fingerprint finds its schema",
        "one schema, no look at the fingerprint",
        "the same",
    ),
    ("a message that cannot be decoded", "goes to quarantine with a reason", "ends the load", "ends the load"),
    ("CRCs", "checked", "not checked, by default", "checked"),
    ("order of rows", "by time, in each file", "as they come", "as they come"),
    ("position columns", "broker, partition, offset, next offset, index in set, load", "partition, offset", "the same"),
    ("commits", "one", "one, into which rows stream", "one, and a checkpoint"),
    ("a load that is killed", "the next one goes on: exactly once", "offsets are in the commit", "exactly once"),
    ("check that no message of a range is missing", "yes", "no", "no"),
    ("Parquet", "zstd level 1, by PyArrow", "zstd level 1, by delta-rs", "zstd level 3, by Spark"),
    ("memory at once", "128 MB of rows a task", "lists of 10,000 messages", "Spark's rows, one by one"),
    ("messages on the wire", "sets of 200", "batches of up to 1 MB", "the same"),
)


def measure(bench: Bench) -> dict[str, Any]:
    """Load the messages of each case by each way, in turn."""
    rounds = bench.sized(toy=1, small=1, paper=3)
    kinds = {kind.name for kind in bench.kinds}
    ways = [way for way in WAYS if way.kind in kinds]
    left_out = {way.name: reason for way in ways if (reason := way.missing()) is not None}
    found = []
    for case in CASES:
        messages = _messages(bench, case)
        its = {way.name: way for way in ways if case.form in way.forms and way.name not in left_out}
        with _Topics(bench, case, messages, its) as topics:
            samples = bench.in_turn(its, topics.load, rounds, str(case))
        lines = [{"line": name, **_figures(several)} for name, several in samples.items()]
        found.append({"form": case.form, "size_bytes": case.size_bytes, "messages": messages, "lines": lines})
    return {"cases": found, "lines_left_out": left_out}


def _messages(bench: Bench, case: Case) -> int:
    is_large = case.size_bytes >= 1000
    return bench.sized(toy=2000, small=1_000_000 if is_large else 2_000_000, paper=2_000_000 if is_large else 5_000_000)


def _figures(samples: Sequence[Line]) -> dict[str, list[float]]:
    return {name: [sample[name] for sample in samples] for name in samples[0]}


class _Topics:
    """The topics of one case and the ways to load them. A system is started and filled when it is first needed."""

    def __init__(self, bench: Bench, case: Case, messages: int, ways: Mapping[str, Way]) -> None:
        self._bench = bench
        self._case = case
        self._messages = messages
        self._ways = ways
        self._stack = ExitStack()
        self._systems: dict[str, System] = {}

    def __enter__(self) -> _Topics:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def load(self, name: str) -> dict[str, float]:
        """Load them once, by a way; return what a row has cost. Raises BenchmarkError unless each is one row."""
        way = self._ways[name]
        system = self._system(way.kind)
        with tempfile.TemporaryDirectory(prefix="bench-load-", dir=self._bench.data) as warehouse:
            job = way.job(self._case, system, warehouse)
            done = run_worker(
                way.worker, job, system.cpu_s, deadline_s=_DEADLINE_S, python=way.python or sys.executable
            )
            files = DeltaTable(f"{warehouse}/{self._case.topic}").get_add_actions(flatten=True)
            rows, size = (sum(files.column(name).to_pylist()) for name in ("num_records", "size_bytes"))
        if rows != self._messages:
            raise BenchmarkError(f"{way.name}: {rows} rows of {self._messages} messages, so there is no figure")
        assert done.server_cpu_s is not None
        return {
            "rate": rows / done.result["wall_s"],
            "client_cpu_us": done.result["cpu_s"] / rows * 1e6,
            "server_cpu_us": done.server_cpu_s / rows * 1e6,
            "file_bytes": size / rows,
        }

    def _system(self, kind: str) -> System:
        if kind not in self._systems:
            system = self._stack.enter_context(self._started(kind))
            fill = fill_ours if kind == OWN else fill_kafka
            self._bench.say(f"{kind}: {self._messages} {self._case}")
            fill(system, self._case, warm_topic(self._case), max(self._messages // _WARM_SHARE, 1))
            fill(system, self._case, self._case.topic, self._messages)
            self._systems[kind] = system
        return self._systems[kind]

    @contextmanager
    def _started(self, kind: str) -> Iterator[System]:
        if kind == OWN:
            with own_broker(self._bench.data, properties={**ASYNCHRONOUS, "num.partitions": PARTITIONS}) as broker:
                yield broker
            return
        [found] = [each for each in self._bench.kinds if each.name == kind]
        with self._bench.start(found) as system:
            yield system


# The report ----------------------------------------------------------------------------------------------------------


def client_us(case: Mapping[str, Any], line: str) -> float | None:
    """Return what a row costs the client, the median; None where the line was not measured."""
    found = [each for each in case["lines"] if each["line"] == line]
    return statistics.median(found[0]["client_cpu_us"]) if found else None


def shares(body: Mapping[str, Any]) -> dict[str, list[float]]:
    """Return which part of the client's CPU time is the audit's, by engine: the median of rounds, for each case."""
    found: dict[str, list[float]] = {}
    for case in body["cases"]:
        costs = {line["line"]: line["client_cpu_us"] for line in case["lines"]}
        for plain, audited in AUDITED.items():
            if plain in costs and audited in costs:
                pairs = zip(costs[plain], costs[audited], strict=True)
                found.setdefault(plain, []).append(statistics.median(1 - without / with_ for without, with_ in pairs))
    return found


def chapter(body: Mapping[str, Any], _pictures: Path) -> str:
    """Put each case into a table, and say what is not alike."""
    parts = [TEXT]
    columns = [
        ("loaded by", text("line")),
        ("client, CPU us a row", spread_of("client_cpu_us")),
        ("broker, CPU us a row", spread_of("server_cpu_us")),
        ("rows/s", spread_of("rate", whole=True)),
        ("bytes of Parquet a row", lambda line: significant(statistics.median(line["file_bytes"]))),
    ]
    for case in body["cases"]:
        title = str(Case(case["form"], case["size_bytes"])).capitalize()
        parts += [f"### {title}\n\n{case['messages']:,} messages.", table(case["lines"], columns)]
    if body["lines_left_out"]:
        parts.append("\n".join(f"- Left out: {name}: {why}." for name, why in body["lines_left_out"].items()))
    parts += ["### The audit's share", _audit(body), "### What is not alike", _unlike()]
    return "\n\n".join(parts)


def _audit(body: Mapping[str, Any]) -> str:
    rows = [(engine, brackets(Spread.of(100 * share for share in several))) for engine, several in shares(body).items()]
    return f"{AUDIT}\n\n{table(rows, [('engine', text(0)), ('% of CPU time', text(1))])}"


def _unlike() -> str:
    titles = ("", OURS, DELTA_RS, DELTA_SPARK)
    return table(UNLIKE, [(title, text(place)) for place, title in enumerate(titles)])


EXPERIMENT = Experiment(
    "load_cost",
    "What a loaded row costs",
    "whoever loads topics into tables: by engine and message, beside loads from a Kafka of today",
    measure,
    chapter,
)
