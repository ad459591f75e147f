"""Events through a real cluster: registered, generated, published, and printed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from integration.cli.calling import output, rows, run
from kafka2011 import Producer
from kafka2011.collect.access_log import page_view
from kafka2011.events.codec import EventEncoder
from kafka2011.events.publisher import EventPublisher
from kafka2011.events.schema_registry import SchemaRegistry
from kafka2011.events.schemas import event_schema
from zk.connecting import connect

if TYPE_CHECKING:
    from pathlib import Path

    from kafka2011 import LocalCluster
    from kafka2011.events.codec import Stamp

LINE = '83.149.9.216 - - [17/May/2015:10:05:03 +0000] "GET /jobs HTTP/1.1" 200 7 "-" "Mozilla/5.0"'
VIEW = event_schema("View", *({"name": name, "type": ["null", "string"], "default": None} for name in ("line", "url")))


class Counted:
    """Keeps what was counted."""

    def __init__(self) -> None:
        self.stamps: list[Stamp] = []

    def stamp(self, _topic: str, now_us: int) -> int:
        """Take any time."""
        return now_us

    def ended(self, topic: str, stamped_us: list[int]) -> None:
        """Forget it."""

    def count(self, topic: str, stamps: list[Stamp]) -> None:
        """Count."""
        self.stamps += stamps


def test_what_is_published_is_decoded(cluster: LocalCluster, zookeeper: tuple[str, str], tmp_path: Path) -> None:
    """With a schema that `schemas register` put into ZooKeeper; what is no event is reported, and fails the command."""
    (tmp_path / "view.avsc").write_text(VIEW.text)
    assert rows("schemas", "register", "events", str(tmp_path / "view.avsc"), *zookeeper)[0]["number"] == 1
    counter = Counted()
    config = {"zk.connect": cluster.zk_connect, "confirm": True}
    with connect(cluster.zk_connect) as client, Producer(config) as producer:
        publisher = EventPublisher(producer, EventEncoder(SchemaRegistry(client)), server="web-1", counter=counter)
        parsed = page_view(LINE)
        publisher.publish("events", {name: parsed[name] for name in ("time", "line", "url")})
        producer.send("events", b"no event")
    given = ("--topic", "events", "--from-beginning", "--decode", "--formatter", "json", "--max-messages", "2")
    read = run("consume", *given, *zookeeper)
    assert read.returncode == 1
    assert "not an event" in read.stderr
    [printed] = map(json.loads, read.stdout.splitlines())
    assert (printed["topic"], printed["fingerprint"], printed["schema"]) == ("events", VIEW.fingerprint, VIEW.name)
    event = printed["event"]
    assert (event["server"], event["url"], event["line"]) == ("web-1", "/jobs", LINE)
    assert event["time"] == "2015-05-17T10:05:03.000000Z"
    assert [stamp.id for stamp in counter.stamps] == [event["id"]]
    retired = json.loads(output("schemas", "retire", "events", "1", "--scan", "--json", *zookeeper))
    assert sum(retired["events"].values()) == 1


def test_generated_events_arrive_and_a_seed_repeats_them(zookeeper: tuple[str, str]) -> None:
    """All that the command counts is in the topics; a second run publishes the same ids again."""
    options = ("--rate", "300", "--seconds", "2", "--seed", "5", "--at-once", "--repeated", "0", *zookeeper)
    counts = {row["topic"]: row["events"] for row in rows("generate", *options)}
    assert rows("generate", *options) == [{"topic": topic, "events": count} for topic, count in counts.items()]
    twice = 2 * int(str(counts["page_views"]))
    given = ("--topic", "page_views", "--from-beginning", "--decode", "--max-messages", str(twice))
    events = [json.loads(line.partition(" ")[2]) for line in output("consume", *given, *zookeeper).splitlines()]
    assert len(events) == twice
    without = [json.dumps({**event, "published_at": None}) for event in events]
    assert len(set(without)) == counts["page_views"]
