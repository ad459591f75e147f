"""Loads of one topic, some of which are killed, and the account of every message."""

from __future__ import annotations

import subprocess
import sys
import uuid
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafka2011 import Producer
from kafka2011.audit.publishing import open_counter
from kafka2011.events.codec import EventEncoder, read_stamps
from kafka2011.events.schema_registry import SchemaRegistry
from kafka2011.events.schemas import KnownSchemas, event_schema
from kafka2011.warehouse.loading.load_settings import LoadSettings
from kafka2011.warehouse.loading.opening import local_engine_of
from kafka2011.warehouse.loading.spark_engine import SparkEngine
from kafka2011.warehouse.loading.topic_load import TopicLoad
from kafka2011.warehouse.table.quarantine import open_quarantine
from kafka2011.warehouse.table.topic_table import TopicTable
from tests.support.dying import environment, steps_in
from tests.support.waiting import eventually
from tests.support.warehouse import PLACE, Place, payloads_of, places_in, quarantined_by, rows_of
from zk.connecting import connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafka2011.warehouse.loading.engine import Engine

VIEW = event_schema("View", {"name": "page", "type": "string"})
GARBAGE = b"garbage"
START_US = 1_700_000_000_000_000
SPAN_S = 4 * 3600
"""Of events, before and after a midnight."""
TIMEOUT_S = 600


def publish(zk_connect: str, topic: str, events: int, codec: int = 0) -> None:
    """Publish events of some hours, and some garbage, as the tier `producer`."""
    with connect(zk_connect) as client:
        SchemaRegistry(client).register(topic, VIEW)
    encoder = EventEncoder(KnownSchemas({topic: VIEW}))
    settings = {"zk.connect": zk_connect, "producer.type": "async", "confirm": True, "compression.codec": codec}
    with Producer(settings) as producer, open_counter("producer", zk_connect) as counter:
        for first in range(0, events, 1000):
            numbers = range(first, min(first + 1000, events))
            payloads = encoder.encode_all(topic, [_view(number) for number in numbers])
            for payload in payloads:
                producer.send(topic, payload)
            counter.count(topic, [stamp for stamp in read_stamps(payloads) if stamp is not None])
            producer.send(topic, GARBAGE)


def _view(number: int) -> dict[str, Any]:
    return {
        "time": START_US + number * 7919 % SPAN_S * 1_000_000,
        "published_at": START_US + number * 100,
        "server": "s",
        "id": str(uuid.uuid4()),
        "page": f"/{number}",
    }


class Loading:
    """Loads of one topic into a table of its own."""

    def __init__(
        self, spark: SparkSession, zk_connect: str, directory: Path, topic: str, master: str = "local[2]"
    ) -> None:
        self.warehouse = str(directory / "warehouse")
        self.zk_connect = zk_connect
        self.topic = topic
        self.table = self._open()
        self._spark = spark  # counts what there is in the end
        self._master = master
        self._published = 0
        self._local = local_engine_of(master)
        self.engine: Engine = self._local or SparkEngine(spark.sparkContext)

    def close(self) -> None:
        """End the processes that have run tasks, if they are not Spark's."""
        if self._local is not None:
            self._local.close()

    @property
    def number(self) -> int:
        """The number of the newest commit, 0 before the first."""
        newest = self.table.newest()
        return newest.number if newest else 0

    def publish(self, events: int, codec: int = 0) -> None:
        """Publish events that are not loaded yet, and wait until consumers can read them."""
        publish(self.zk_connect, self.topic, events, codec)
        self._published += events + len(range(0, events, 1000))
        eventually(lambda: len(payloads_of(self.zk_connect, self.topic)) >= self._published, TIMEOUT_S)

    def new(self, **more: Any) -> TopicLoad:
        """Return a load with a table object of its own, as another process has."""
        settings = LoadSettings(zk_connect=self.zk_connect, source={"kafkaConsumer.pollTimeoutMs": 5000})
        quarantine = open_quarantine(self.warehouse, self.topic)
        return TopicLoad(self.engine, self._open(), quarantine, settings, **more)

    def die_at(self, step: str | int, *tier: str) -> list[str]:
        """Load in a process that kills itself there, and return the steps that it had reached."""
        done = self._run(str(step), *tier)
        assert done.returncode == -9, done.stderr[-3000:]
        return done.stdout.split()

    def commit_steps(self) -> list[str]:
        """Load in a process of its own, and return the calls by which the commit changes files."""
        done = self._run("0")
        assert done.returncode == 0, done.stderr[-3000:]
        return steps_in(self._steps)

    def check(self) -> None:
        """Count by place, with Polars and with Spark: each message is one row, or once in quarantine."""
        logged, bad = payloads_of(self.zk_connect, self.topic), quarantined_by(self.table, self.warehouse)
        assert set(bad.values()) <= {GARBAGE}
        assert len(bad) == sum(payload == GARBAGE for payload in logged.values())
        expected = sorted(logged.keys() - bad.keys())
        assert places_in(rows_of(self.table)) == expected
        found = self._spark.read.parquet(*self.table.delta().file_uris()).groupBy(*PLACE).count().collect()
        assert Counter({Place(*row[:-1]): row[-1] for row in found}) == Counter(expected)
        print(f"{self.topic}: {len(expected)} rows and {len(bad)} quarantined of {len(logged)} messages")  # noqa: T201

    def _open(self) -> TopicTable:
        return TopicTable(self.warehouse, self.topic)

    @property
    def _steps(self) -> Path:
        return Path(f"{self.warehouse}-steps")

    def _run(self, step: str, *tier: str) -> subprocess.CompletedProcess[str]:
        program = (sys.executable, "-m", "integration.spark.programs.load_and_die")
        command = [*program, self.zk_connect, self.warehouse, self.topic, self._master, step, *tier]
        environ = environment(self._steps, last=int(step)) if step.isdecimal() else None
        return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
