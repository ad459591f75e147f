"""A console of today at a gateway: kaskade, a terminal UI. Its toolkit presses its keys without a terminal."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from kafka2011 import ConsumerConnector
from kafka2011.local_cluster import LocalCluster
from proof.environments import environment

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PACKAGE = "kaskade==5.1.0"
TIMEOUT_S = 300
CONSOLE = """
import asyncio, json, sys
from kaskade.admin import KaskadeAdmin, ListTopics
from kaskade.consumer import KaskadeConsumer
from kaskade.deserializers import Deserialization
from textual.widgets import DataTable

servers = sys.argv[1]

def rows(app, name):
    table = app.screen.query_one(name, DataTable)
    return [[str(cell) for cell in table.get_row_at(number)] for number in range(table.row_count)]

async def until(pilot, condition):
    for _ in range(600):
        await pilot.pause(0.1)
        if condition():
            return
    raise SystemExit(f"{pilot.app.title}: waited in vain, {pilot.app.screen}")

async def administer():
    app, found = KaskadeAdmin({"bootstrap.servers": servers}, refresh_interval=0), {}
    async with app.run_test(size=(160, 50)) as pilot:
        def is_complete():
            table = rows(app, "#topics-table")
            return table and all("\u2026" not in cell for row in table for cell in row)
        await until(pilot, is_complete)
        found["topics"] = rows(app, "#topics-table")
        for _ in [row[0] for row in found["topics"]][:[row[0] for row in found["topics"]].index("views")]:
            await pilot.press("down")
        app.query_one("#topics-table").focus()
        await until(pilot, lambda: app.query_one(ListTopics).check_action("describe", ()))
        await pilot.press("d")
        await until(pilot, lambda: app.screen.query("#group-offsets-table"))
        for name in ("partitions", "groups", "group-offsets", "group-members"):
            found[name] = rows(app, f"#{name}-table")
        await pilot.press("escape", "n")
        await until(pilot, lambda: app.screen.query("Input"))
        await pilot.press(*"made", "ctrl+s")
        await until(pilot, lambda: not app.screen.query("Input"))
        await pilot.press("ctrl+r")
        await until(pilot, lambda: "made" in [row[0] for row in rows(app, "#topics-table")] and is_complete())
    return found

async def read():
    settings = {"bootstrap.servers": servers, "auto.offset.reset": "earliest"}
    string = Deserialization.STRING
    app, found = KaskadeConsumer("views", settings, {}, {}, {}, string, string), {}
    async with app.run_test(size=(160, 50)) as pilot:
        await until(pilot, lambda: len(rows(app, "#records-table")) >= 3)
        found["records"] = rows(app, "#records-table")
        app.query_one("#records-table").focus()
        await pilot.press("enter")
        await until(pilot, lambda: app.screen.query("#record-headers-list"))
        found["headers"] = [app.screen.record.dict()["headers"]]
    return found

print(json.dumps({**asyncio.run(administer()), **asyncio.run(read())}))
"""

pytestmark = pytest.mark.timeout(3 * TIMEOUT_S)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    with LocalCluster(1, directory=tmp_path / "cluster", properties={"num.partitions": 1}, gateway=True) as made:
        yield made


def test_kaskade(cluster: LocalCluster, tmp_path: Path) -> None:
    """It shows topics, groups of both protocols with lag, records with keys and headers; and creates a topic."""
    servers = {"bootstrap.servers": cluster.bootstrap_servers}
    admin = AdminClient(servers)
    admin.create_topics([NewTopic("views", 1)])["views"].result(30)
    producer = confluent_kafka.Producer(servers)
    for number in range(3):
        producer.produce("views", f"value {number}", f"key {number}", headers={"colour": f"{number}"})
        producer.flush(30)
    group = {**servers, "group.id": "readers", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    reader = confluent_kafka.Consumer(group)
    reader.subscribe(["views"])
    message = None
    while message is None:
        message = reader.poll(1)
    reader.commit(message, asynchronous=False)
    with ConsumerConnector(
        {"zk.connect": cluster.zk_connect, "groupid": "of-2011", "autooffset.reset": "smallest"}
    ) as connector:
        [stream] = connector.create_message_streams({"views": 1})["views"]
        assert next(stream).payload == b"value 0"
        assert next(stream).payload == b"value 1"
        connector.commit_offsets()
        python = environment(tmp_path / "environment", PACKAGE)
        script = tmp_path / "console.py"
        script.write_text(CONSOLE)
        done = subprocess.run(
            [python, str(script), cluster.bootstrap_servers],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
            env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "TERM": "xterm-256color"},
        )
    reader.close()
    assert done.returncode == 0, done.stderr[-5000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert {tuple(row[:2]) for row in found["topics"]} >= {("views", "1")}
    assert [row[2:5] for row in found["partitions"]] == [["0", "3", "3"]]
    assert {(row[0], row[2], row[5], row[6]) for row in found["groups"]} == {
        ("readers", "stable", "1", "2"),
        ("of-2011", "stable", "1", "1"),
    }
    assert sorted(row[:5] for row in found["group-offsets"]) == [
        ["of-2011", "0", "2", "3", "1"],
        ["readers", "0", "1", "3", "2"],
    ]
    assert {row[0]: row[1] for row in found["group-members"]} == {"of-2011": "kafka-0.7", "readers": "rdkafka"}
    assert [row[:2] for row in found["records"]] == [[f"key {number}", f"value {number}"] for number in range(3)]
    assert found["headers"] == [[{"key": "colour", "value": "0"}]]
