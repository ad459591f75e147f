"""What version 0.1.0 has left is gone on with: logs, groups, schemas, and how far a collector was."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest

from integration.cli.calling import TIMEOUT_S, command
from kafka2011 import ConsumerConnector, Producer, SimpleConsumer
from kafka2011.events.codec import EventDecoder
from kafka2011.events.schema_registry import SchemaRegistry
from tests.support.upgrade import LEFT, messages, upgraded
from tests.support.waiting import eventually
from zk.connecting import connect

if TYPE_CHECKING:
    from pathlib import Path

    from kafka2011.local_cluster import LocalBroker


def stored(broker: LocalBroker, where: str) -> list[tuple[int, int, bytes]]:
    """Return all that can be read of a partition."""
    topic, _, partition = where.rpartition("-")
    found: list[tuple[int, int, bytes]] = []
    with SimpleConsumer(broker.host, broker.port) as consumer:
        while page := list(consumer.fetch(topic, int(partition), found[-1][1] if found else 0, 100_000)):
            found += [(message.offset, message.next_offset, message.payload) for message in page]
    return found


@pytest.mark.parametrize("is_torn", [False, True], ids=["stopped in order", "killed"])
def test_every_message_is_where_it_was(zk_connect: str, tmp_path: Path, is_torn: bool) -> None:
    """Plain ones and those in compressed sets, over segments; of a message that was half written nothing stays."""
    with upgraded(tmp_path, zk_connect, is_torn=is_torn) as broker:
        assert {where: stored(broker, where) for where in messages()} == messages()
        assert (b"recovering 4 logs" in broker.output()) == is_torn
        [*cut] = (tmp_path / "logs" / "views-1").glob("*.cut")
        assert len(cut) == is_torn


def test_a_group_goes_on_where_it_was(zk_connect: str, tmp_path: Path) -> None:
    """From the offsets that it had committed, and nothing twice; then it commits as before."""
    committed = {"0": 252, "1": 0}
    left = [
        payload
        for where, every in messages().items()
        for start, _, payload in every
        if where.startswith("views-") and start >= committed[where[-1]]
    ]
    settings = {"zk.connect": zk_connect, "groupid": "reports", "consumer.timeout.ms": 20_000}
    with upgraded(tmp_path, zk_connect):
        with Producer({"zk.connect": zk_connect, "confirm": True}) as producer:
            producer.send("views", b"new").result()
        with ConsumerConnector(settings) as consumer:
            [stream] = consumer.create_message_streams({"views": 1})["views"]
            read = [next(stream).payload for _ in range(len(left) + 1)]
            assert sorted(read) == sorted([*left, b"new"])
        with connect(zk_connect) as client:
            ends = {name: int(client.get(f"/consumers/reports/offsets/views/0-{name}")[0]) for name in committed}
        assert sum(ends.values()) > sum(every[-1][1] for where, every in messages().items() if where[:5] == "views")


def test_events_are_decoded_by_the_schemas_that_were_registered(zk_connect: str, tmp_path: Path) -> None:
    """Their fingerprints name them, as before."""
    with upgraded(tmp_path, zk_connect) as broker, connect(zk_connect) as client:
        decoder = EventDecoder(SchemaRegistry(client))
        payloads = [payload for where in ("clicks-0", "clicks-1") for _, _, payload in stored(broker, where)]
        items = sorted(decoder.decode_payload(payload)[1]["item"] for payload in payloads)
    assert items == [f"item-{number}" for number in range(5)]


def test_a_collector_goes_on_in_its_file(zk_connect: str, tmp_path: Path) -> None:
    """Only the line that came since is sent; the numbers of the file and its place are those of here."""
    lines, state = tmp_path / "lines.log", tmp_path / "state"
    lines.write_text("one\ntwo\nthree\n")
    found = lines.stat()
    state.mkdir()
    positions = json.loads((LEFT / "positions.json").read_text())
    [file] = positions["files"]
    file |= {"key": [found.st_dev, found.st_ino], "watched": str(lines), "modified_ns": found.st_mtime_ns}
    (state / "positions.json").write_text(json.dumps(positions))
    with lines.open("a") as more:
        more.write("four\n")
    with upgraded(tmp_path / "broker", zk_connect) as broker:
        collect = command("collect", lines, "--topic", "lines", "--state", state, "--zookeeper", zk_connect)
        done = subprocess.run(collect, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        assert done.returncode == 0, done.stderr

        def payloads() -> list[bytes]:
            return [payload for where in ("lines-0", "lines-1") for _, _, payload in stored(broker, where)]

        eventually(lambda: sorted(payloads()) == [b"four", b"one", b"three", b"two"], TIMEOUT_S)
