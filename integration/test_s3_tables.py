"""Tables in S3, by a server that can do wrong; no Java. See proof/test_storage.py for real servers of S3 and HDFS."""

from __future__ import annotations

import pickle
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from integration.spark.loading import GARBAGE, publish
from kafka2011 import LocalCluster
from kafka2011.cli.app import main
from kafka2011.events.columns.held_columns import Widening
from kafka2011.events.columns.kinds import DOUBLE
from kafka2011.warehouse import open_table
from kafka2011.warehouse.errors import WarehouseError
from kafka2011.warehouse.table.cleaning import clean
from kafka2011.warehouse.table.compaction import compact
from kafka2011.warehouse.table.quarantine import open_quarantine
from kafka2011.warehouse.table.rewriting import inexact, widen
from kafka2011.warehouse.table.status import status_of
from kafka2011.warehouse.table.topic_table import TopicTable
from tests.support.s3_server import s3_server
from tests.support.tables import FIRST_MS, HOUR_MS, SCHEMA, TOPIC, commit_of, load, race, rows_of, staged
from tests.support.waiting import eventually
from tests.support.warehouse import payloads_of, places_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.s3_server import S3Server

WAREHOUSE = "s3://bucket/deep/warehouse"
LOG = "bucket/deep/warehouse/views/_delta_log"
TIMEOUT_S = 60


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    with s3_server() as running:
        for name, value in running.environment().items():
            monkeypatch.setenv(name, value)
        yield running


@pytest.fixture
def table(server: S3Server) -> TopicTable:
    return TopicTable(WAREHOUSE, TOPIC)


def offsets() -> list[int]:
    found: list[int] = open_table(WAREHOUSE, TOPIC).to_table()["kafka2011_offset"].to_pylist()
    return sorted(found)


def test_a_table_lives_in_a_bucket(table: TopicTable, server: S3Server) -> None:
    """It is loaded, listed, compacted, cleaned and read, and nothing else is left in the bucket."""
    assert table.newest() is None
    for _ in range(12):  # there are checkpoints then
        load(table, [FIRST_MS, FIRST_MS + 24 * HOUR_MS])
    staged(table, 13, [FIRST_MS], 24)  # by a load that dies
    expected = [100 * number for number in range(24)]
    assert offsets() == expected
    [status] = status_of(WAREHOUSE)
    assert (status.topic, status.number, status.rows) == (TOPIC, 12, 24)
    assert compact(table) == (24, 2)
    assert clean(table, older_than_s=-10, at_rest=True).files >= 25
    assert offsets() == expected
    rest = [key for key in server.names() if not key.startswith(LOG) and not key.endswith("/")]
    assert sorted(key.partition("date=")[2].partition("/")[0] for key in rest) == ["2011-06-12", "2011-06-13"]


def test_what_could_not_be_decoded_is_written_read_and_removed(server: S3Server) -> None:
    """By the attempt that wrote it."""
    quarantine = open_quarantine(WAREHOUSE, TOPIC)
    for attempt in ("a", "b"):
        quarantine.write(7, attempt, [f"{attempt}1", f"{attempt}2"])
    assert list(quarantine.read(7, "a")) == [(quarantine.paths(7, "a")[0], b"a1\na2\n")]
    quarantine.remove(7, "a")
    assert (quarantine.paths(7, "a"), len(quarantine.paths(7, "b"))) == ([], 1)


def test_executors_write_with_keys_of_their_own(table: TopicTable, server: S3Server) -> None:
    """What is sent to them says where, and nothing of who may."""
    sent = pickle.dumps(table.output(table.begin()))
    assert b"anything" not in sent
    output = pickle.loads(sent)
    with output.create("date=2011-06-12/x.parquet") as file:
        pq.write_table(rows_of(1, 0, [FIRST_MS]), file)
    assert server.names(f"{output.table}/{output.staging}") == [
        f"{output.table}/{output.staging}/date=2011-06-12/x.parquet"
    ]


def test_of_three_loaders_one_succeeds(table: TopicTable, server: S3Server) -> None:
    """For every number, with the making of the table."""
    assert [race(WAREHOUSE, number, 3, TIMEOUT_S) for number in range(1, 6)] == [1] * 5
    assert len(offsets()) == 5
    assert len([key for key in server.names(table.output("").table) if "/date=" in key]) == 5


def test_a_commit_whose_answer_was_lost_is_there_once(table: TopicTable, server: S3Server) -> None:
    """The client asks again and is refused, by its own commit."""
    load(table, [FIRST_MS])
    version = table.delta().version() + 1
    lost: list[str] = []

    def loses(method: str, key: str) -> bool:
        if method == "PUT" and key == f"{LOG}/{version:020d}.json" and not lost:
            lost.append(key)
            return True
        return False

    server.loses_answer_to = loses
    load(table, [FIRST_MS])
    assert lost
    assert (offsets(), [each.number for each in table.commits()]) == ([0, 100], [1, 2])


def test_a_column_is_rewritten_once_though_the_answer_was_lost(table: TopicTable, server: S3Server) -> None:
    """The client asks again and is refused, by its own entry: the wider column is there."""
    numbers = SCHEMA.append(pa.field("count", pa.int64()))
    load(table, [FIRST_MS])
    load(table, [FIRST_MS, FIRST_MS + 24 * HOUR_MS], numbers, count=[2**53, None])
    version = table.delta().version() + 1
    lost: list[str] = []

    def loses(method: str, key: str) -> bool:
        if method == "PUT" and key == f"{LOG}/{version:020d}.json" and not lost:
            lost.append(key)
            return True
        return False

    server.loses_answer_to = loses
    wider = {"count": Widening(DOUBLE)}
    assert inexact(table, wider) == frozenset()
    assert widen(table, wider)
    assert lost
    assert not widen(table, wider)
    assert table.delta().version() == version
    load(table, [FIRST_MS], SCHEMA.append(pa.field("count", pa.float64())), count=[0.5])
    rows = open_table(WAREHOUSE, TOPIC).to_table(columns=["kafka2011_offset", "count"]).sort_by("kafka2011_offset")
    assert rows["count"].to_pylist() == [None, 2.0**53, None, 0.5]


def test_a_store_without_conditional_writes_is_refused(table: TopicTable, server: S3Server) -> None:
    """Before it has any rows."""
    server.ignores_conditions = True
    for _ in range(2):
        with pytest.raises(WarehouseError, match="If-None-Match"):
            load(table, [FIRST_MS])
        assert TopicTable(WAREHOUSE, TOPIC).newest() is None
        server.objects.clear()


def test_a_store_that_fails_is_given_up(table: TopicTable, server: S3Server) -> None:
    """After a few tries; nothing is there, and the next load does it."""
    load(table, [FIRST_MS])
    staging = staged(table, 2, [FIRST_MS], 1)
    server.requests.clear()
    server.fails = lambda method, key: method == "PUT" and "_delta_log" in key
    with pytest.raises(WarehouseError, match="topic views, table s3://bucket/deep/warehouse/views"):
        table.commit(staging, commit_of(2, 200, start=100, rows=1))
    assert len(server.requests) < 100
    server.fails = lambda method, key: False
    load(table, [FIRST_MS])
    assert offsets() == [0, 100]


def _can_read(zk_connect: str, messages: int) -> bool:
    return len(payloads_of(zk_connect, TOPIC)) == messages


def test_topics_are_loaded_into_a_bucket(server: S3Server, capsys: pytest.CaptureFixture[str]) -> None:
    """Each message once, by processes of this machine, which find the bucket by their environment."""
    with LocalCluster(1, properties={"num.partitions": 2, "log.flush.interval": 1}) as cluster:
        command = ["load", "--master", "none[2]", "--zookeeper", cluster.zk_connect, "--warehouse", WAREHOUSE]
        for codec in (0, 1):
            publish(cluster.zk_connect, TOPIC, 1000, codec)
            eventually(partial(_can_read, cluster.zk_connect, 1001 * (codec + 1)))
            assert main([*command, "--topic", TOPIC]) == 0
        logged = payloads_of(cluster.zk_connect, TOPIC)
    assert main(["tables", "compact", "--warehouse", WAREHOUSE]) == 0
    expected = sorted(place for place, payload in logged.items() if payload != GARBAGE)
    assert places_in(open_table(WAREHOUSE, TOPIC).to_table()) == expected
    quarantine = open_quarantine(WAREHOUSE, TOPIC)
    lines = [
        line
        for commit in TopicTable(WAREHOUSE, TOPIC).commits()
        for _, text in quarantine.read(commit.number, commit.attempt)
        for line in text.splitlines()
    ]
    assert len(lines) == len(logged) - len(expected) > 0
