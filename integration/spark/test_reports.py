"""Reports are what plain Python makes of the same events, load after load."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kafka2011.cli import report
from kafka2011.cli.app import main
from kafka2011.events.schema_registry import SchemaRegistry
from kafka2011.events.schemas import event_schema
from kafka2011.events.types import EVENT_TYPES, PAGE_VIEW
from kafka2011.local_cluster import LocalCluster
from kafka2011.reports import settings
from kafka2011.reports.catalog import REPORTS
from kafka2011.reports.derive import derive
from kafka2011.reports.report import ReportSettings
from kafka2011.reports.results import Results
from kafka2011.reports.table_inputs import TableInputs, view_of
from kafka2011.warehouse.table.commits import Commit, Operation
from kafka2011.warehouse.table.compaction import compact
from kafka2011.warehouse.table.topic_table import TopicTable
from tests.support.event_streams import publish
from tests.support.event_tables import EventTable, own_columns, read_results, write_days
from tests.support.odd_events import Events, odd_events
from tests.support.plain_reports import plain_reports
from zk.cluster import TopicPartition
from zk.connecting import connect

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from kafka2011.reports.results import Derivation
    from zk.local_zookeeper import LocalZooKeeper

OWN_SITES = ("mail.example",)
UNCOMPILED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
}
"""With rows this few, compiling a query costs far more than running it, and so does changing its plan on the way."""
SETTINGS = ReportSettings({settings.OWN_SITES: OWN_SITES})


class Warehouse:
    """Tables, and results derived from them."""

    def __init__(self, spark: SparkSession, directory: Path) -> None:
        self.spark = spark
        self.directory = directory
        self.results = directory / "reports"
        self.tables: dict[str, EventTable] = {}

    def load(self, events: Events) -> None:
        """Load events, a commit for each topic."""
        for topic in {topic for topic, _ in events}:
            table = self.tables.setdefault(topic, EventTable(self.directory / "tables", topic))
            table.load([event for name, event in events if name == topic])

    def derive(self, **more: Any) -> Derivation | None:
        """Derive what is new."""
        inputs = TableInputs(self.spark, [table.view() for table in self.tables.values()])
        with Results(self.results) as results:
            return derive(self.spark, inputs, results, SETTINGS, **more)

    def check(self, events: Events) -> None:
        """Compare the newest results with plain Python's."""
        expected = plain_reports(events, OWN_SITES)
        assert set(expected) == {report.name for report in REPORTS}
        for name, rows in expected.items():
            rows.sort(key=lambda row: json.dumps(row, sort_keys=True))
            assert read_results(self.results / "latest", name) == rows, name


@pytest.fixture(autouse=True)
def _uncompiled(spark: SparkSession) -> Iterator[None]:
    """Have queries of these tests interpreted; those of commands and examples, which start a Spark, are compiled."""
    for key, value in UNCOMPILED.items():
        spark.conf.set(key, value)
    yield
    for key in UNCOMPILED:
        spark.conf.unset(key)


@pytest.fixture
def live(zookeeper: LocalZooKeeper, tmp_path: Path) -> Iterator[LocalCluster]:
    """Start a cluster of its own, since topics have fixed names."""
    properties = {"log.flush.interval": 1, "num.partitions": 2}
    with LocalCluster(
        1, zk_connect=f"{zookeeper.connect_string}/reports", directory=tmp_path / "live", properties=properties
    ) as running:
        yield running


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_reports_are_exact_load_after_load(spark: SparkSession, tmp_path: Path) -> None:
    """Late events change old days; repeats count once; a rerun, a failure and a compaction change nothing."""
    events = odd_events(seed=7)
    warehouse = Warehouse(spark, tmp_path)
    first = [each for each in events if each[0] not in {"clicks", "server_stats"}][:600]
    rest = [each for each in events if each not in first]
    warehouse.load(first)
    made = warehouse.derive()
    assert made is not None
    assert not made.after
    warehouse.check(first)

    warehouse.load(rest)

    def fail(*_: object) -> None:
        raise RuntimeError("the page cannot be written")

    with pytest.raises(RuntimeError):
        warehouse.derive(finish=fail)
    warehouse.check(first)
    made = warehouse.derive()
    assert made is not None
    assert made.after["page_views"]["commit"] == 1
    warehouse.check(events)

    for table in warehouse.tables.values():
        table.compact()
    assert warehouse.derive() is None
    assert warehouse.derive(again=True) is not None
    warehouse.check(events)


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_the_command_reads_tables_and_brokers(
    spark: SparkSession,
    live: LocalCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """All come to the same; what was read stands beside the page; the second time there is nothing new.

    Some page views name a schema that is registered for another topic.
    """
    monkeypatch.setattr(report, "spark_session", lambda *_, **__: contextlib.nullcontext(spark))
    events = [each for each in odd_events(seed=11) if each[0] != "impressions"]
    warehouse = Warehouse(spark, tmp_path)
    warehouse.load(events)
    fields = PAGE_VIEW.document["fields"][4:]
    other = event_schema("PageView", *fields, {"name": "more", "type": ["null", "int"], "default": None})
    with connect(live.zk_connect) as client:
        SchemaRegistry(client).register("other_views", other)
    publish(live.zk_connect, events[::2])
    publish(live.zk_connect, events[1::2], {**EVENT_TYPES, "page_views": other})
    common = ["--into", str(warehouse.results), "--own-site", *OWN_SITES, "--json"]

    def run(*options: str) -> dict[str, Any]:
        assert main(["report", *options, *common]) == 0
        return dict(json.loads(capsys.readouterr().out))

    tables = run("--warehouse", str(tmp_path / "tables"))
    assert tables["derivation"] == 1
    assert {place["commit"] for place in tables["through"].values()} == {1}
    warehouse.check(events)
    assert not run("--warehouse", str(tmp_path / "tables"))["new"]

    brokers = run("--from-brokers", "--zookeeper", live.zk_connect)
    assert brokers["derivation"] == 2
    assert set(brokers["through"]["page_views"]) == {"0-0", "0-1"}
    warehouse.check(events)
    assert not run("--from-brokers", "--zookeeper", live.zk_connect)["new"]
    assert "page views" in Path(brokers["page"]).read_text(encoding="utf-8")

    others = ["--warehouse", str(tmp_path / "loaded")]
    topics = "|".join(tables["through"])
    assert main(["load", "--zookeeper", live.zk_connect, *others, "--whitelist", topics]) == 0
    capsys.readouterr()
    loaded = run(*others)
    assert (loaded["derivation"], loaded["through"].keys()) == (3, tables["through"].keys())
    warehouse.check(events)
    assert not run(*others)["new"]


@pytest.mark.timeout(200)
def test_files_of_compactions_come_to_the_same(spark: SparkSession, tmp_path: Path) -> None:
    """They are read, and no day is derived again for them."""
    events = [each for each in odd_events(seed=13) if each[0] == "page_views"]
    table = TopicTable(tmp_path / "tables", "page_views")
    some = [report for report in REPORTS if report.name == "page_views"]
    for number, part in enumerate((events[:200], events[200:]), start=1):
        staging = table.begin()
        write_days(Path(staging), "page_views", [{**event, **own_columns(number, 0)} for _, event in part])
        offsets = {TopicPartition("page_views", 0, 0): number}
        table.commit(staging, Commit("page_views", number, Operation.LOAD, number, offsets, rows=len(part)))
        with Results(tmp_path / "reports") as results:
            made = derive(spark, TableInputs(spark, [view_of(table)]), results, reports=some)
        assert made is not None
        expected = plain_reports(events[: 200 * number] if number == 1 else events)["page_views"]
        expected.sort(key=lambda row: json.dumps(row, sort_keys=True))
        assert read_results(tmp_path / "reports" / "latest", "page_views") == expected
    assert compact(table).files_before > 1
    with Results(tmp_path / "reports") as results:
        inputs = TableInputs(spark, [view_of(table)])
        assert derive(spark, inputs, results, reports=some) is None  # no commit is new
        assert derive(spark, inputs, results, reports=some, again=True) is not None
    assert read_results(tmp_path / "reports" / "latest", "page_views") == expected
