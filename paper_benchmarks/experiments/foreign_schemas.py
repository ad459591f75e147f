"""Measures what a load costs when the registry also holds schemas of other topics."""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafka2011.events.codec import EventEncoder
from kafka2011.events.schema_registry import SchemaRegistry
from kafka2011.events.schemas import EventSchema, KnownSchemas, event_schema
from kafka2011.events.types import PAGE_VIEW
from kafka2011.local_cluster import LocalCluster
from kafka2011.producer.producer import Producer
from paper_benchmarks.experiments.experiment import Experiment
from paper_benchmarks.measuring.errors import BenchmarkError
from paper_benchmarks.measuring.page_views import page_views
from paper_benchmarks.pages.tables import spread_of, table
from zk.connecting import connect

if TYPE_CHECKING:
    from collections.abc import Mapping

    from paper_benchmarks.experiments.experiment import Bench

_TOPIC = "page_views"
_ROWS = 10
_FIELDS = 20

TEXT = """\
Ten events of one topic are loaded by `kafka2011 load --master none`, a new process each time, while the registry holds
one schema of each of so many other topics, with twenty fields. The processor time includes that of child processes."""


def measure(bench: Bench) -> dict[str, Any]:
    """Load the same number of events from clusters that differ in their number of schemas of other topics."""
    counts = bench.sized(toy=(0, 2), small=(0, 100, 1000), paper=(0, 100, 1000, 10_000))
    payloads = EventEncoder(KnownSchemas({_TOPIC: PAGE_VIEW})).encode_all(_TOPIC, page_views(_ROWS))
    with tempfile.TemporaryDirectory(prefix="bench-foreign-schemas-", dir=bench.data) as path, ExitStack() as stack:
        clusters = {}
        for count in counts:
            bench.say(f"register {count:,} schemas of other topics")
            properties = {"num.partitions": 1, "log.flush.interval": 1}
            clusters[count] = stack.enter_context(LocalCluster(1, properties=properties))
            _register(clusters[count], count)

        def once(count: int) -> dict[str, float]:
            return _load(clusters[count], Path(path) / str(count), payloads)

        bench.in_turn(counts, once, rounds=1, name="warm up")
        found = bench.in_turn(counts, once, bench.sized(toy=1, small=7, paper=11))
    lines = [
        {"schemas": count, **{figure: [sample[figure] for sample in samples] for figure in ("cpu_s", "wall_s")}}
        for count, samples in found.items()
    ]
    return {"lines": lines}


def _register(cluster: LocalCluster, count: int) -> None:
    with connect(cluster.zk_connect) as client:
        registry = SchemaRegistry(client)
        registry.register(_TOPIC, PAGE_VIEW)
        for number in range(count):
            registry.register(f"other{number}", _foreign_schema(number))


def _foreign_schema(number: int) -> EventSchema:
    fields = ({"name": f"field{each}", "type": ["null", "string"], "default": None} for each in range(_FIELDS))
    return event_schema(f"Other{number}", *fields)


def _load(cluster: LocalCluster, warehouse: Path, payloads: list[bytes]) -> dict[str, float]:
    """Publish the events and load them; return the seconds of processor time and of the clock that the load took."""
    with Producer({"zk.connect": cluster.zk_connect, "confirm": True}) as producer:
        producer.send(_TOPIC, payloads)
    command = [sys.executable, "-m", "kafka2011", "load", "--zookeeper", cluster.zk_connect, "--master", "none"]
    command += ["--warehouse", str(warehouse), "--topic", _TOPIC]
    began_s, before_s = time.perf_counter(), _children_cpu_s()
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 (ours)
    took = {"cpu_s": _children_cpu_s() - before_s, "wall_s": time.perf_counter() - began_s}
    if done.returncode:
        raise BenchmarkError(f"the load ended with status {done.returncode}: {done.stderr.strip()}")
    return took


def _children_cpu_s() -> float:
    """Return the processor time of all children that have ended. Brokers and ZooKeeper still run, and do not count."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


# The report ----------------------------------------------------------------------------------------------------------


def chapter(body: Mapping[str, Any], _pictures: Path) -> str:
    """Put processor times and ratios to the load without other topics' schemas into a table."""
    alone_s = statistics.median(body["lines"][0]["cpu_s"])
    columns = [
        ("schemas of other topics", lambda line: f"{line['schemas']:,}"),
        ("CPU s a load", spread_of("cpu_s")),
        ("ratio", lambda line: f"{statistics.median(line['cpu_s']) / alone_s:.2f}"),
        ("s", spread_of("wall_s")),
    ]
    return "\n\n".join([TEXT, table(body["lines"], columns)])


EXPERIMENT = Experiment(
    "foreign_schemas",
    "What a load costs beside schemas of other topics",
    "those who keep many topics in one registry: whether each load costs more with the schemas of others",
    measure,
    chapter,
)
