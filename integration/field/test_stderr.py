"""Reports about what commands print on standard error, which cron sends by mail."""

from __future__ import annotations

from typing import TYPE_CHECKING

from integration.cli.calling import output, run
from kafka2011 import Producer, connect
from kafka2011.events import EventEncoder, EventPublisher, SchemaRegistry, event_schema

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from kafka2011 import LocalCluster

ODD = event_schema(
    "Reading",
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-nanos"}},
    {"name": "took", "type": {"type": "fixed", "name": "Took", "size": 12, "logicalType": "duration"}},
)


def test_a_logical_type_that_no_library_knows_is_said_once(
    kafka2011_cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Report apache/avro, Python: a warning with a source line from each load, which cron sends by mail each night.

    Python's warnings, also those of pandas, pyarrow and delta-rs, are errors here.
    """
    monkeypatch.setenv("PYTHONWARNINGS", "error")
    zookeeper = ("--zookeeper", kafka2011_cluster.zk_connect)
    (tmp_path / "reading.avsc").write_text(ODD.text)
    for command in ("check", "register"):
        done = run("schemas", command, "odd", tmp_path / "reading.avsc", *zookeeper)
        assert done.returncode == 0
        at, took = done.stderr.splitlines()
        assert at.startswith("kafka2011: warning: Topic odd: field at: the logical type is ignored: timestamp-nanos is")
        assert took.startswith("kafka2011: warning: Topic odd: field took: the logical type is ignored: duration is")
    output("schemas", "register", "odd", tmp_path / "reading.avsc", *zookeeper)  # is there already
    with (
        connect(kafka2011_cluster.zk_connect) as client,
        Producer({"zk.connect": kafka2011_cluster.zk_connect, "confirm": True}) as producer,
    ):
        publisher = EventPublisher(producer, EventEncoder(SchemaRegistry(client)))
        publisher.publish("odd", {"at": 1, "took": b"twelve bytes"}).result(30)
    warehouse = ("--warehouse", tmp_path / "warehouse")
    output("consume", "odd", "--from-beginning", "--decode", "--max-messages", 1, *zookeeper)
    for _ in range(2):
        output("load", "--master", "none", *warehouse, "--topic", "odd", *zookeeper)
    output("tables", "compact", *warehouse)
    output("tables", "status", *warehouse)
    output("tables", "redrive", *warehouse, "--topic", "odd", *zookeeper)
