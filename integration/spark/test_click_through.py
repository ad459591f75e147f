"""examples/click_through.py: a stream from the brokers, through windows, to an online consumer."""

from __future__ import annotations

import signal
import sys
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kafka2011.consumer.connector import ConsumerConnector
from kafka2011.events.codec import EventDecoder
from kafka2011.events.schema_registry import SchemaRegistry
from kafka2011.local_cluster import LocalCluster
from tests.support.event_streams import publish
from tests.support.odd_events import MIDNIGHT_US, odd_events
from tests.support.waiting import eventually
from zk.child import ChildProcess
from zk.connecting import connect

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.odd_events import Events
    from zk.local_zookeeper import LocalZooKeeper

EXAMPLE = Path(__file__).parents[2] / "examples" / "click_through.py"
TOPIC = "search_click_through"
EVERY_S, WITHIN_S = 10, 60
NUMBERS = ("searches_1_min", "clicked_1_min", "searches_5_min", "clicked_5_min")
LATER_US = MIDNIGHT_US + 10 * 86_400 * 1_000_000


@pytest.fixture
def live(zookeeper: LocalZooKeeper, tmp_path: Path) -> Iterator[LocalCluster]:
    properties = {"log.flush.interval": 1, "num.partitions": 2}
    with LocalCluster(
        1, zk_connect=f"{zookeeper.connect_string}/live", directory=tmp_path / "live", properties=properties
    ) as running:
        yield running


def plain_windows(events: Events) -> dict[int, tuple[int, int, int, int]]:
    """Return searches of a minute, how many were clicked, and the same of five, by the end of windows in seconds."""
    searches = {event["id"]: event["time"] for topic, event in events if topic == "searches"}
    clicked = {
        event["search_id"]
        for topic, event in events
        if topic == "clicks"
        and event["search_id"] in searches
        and 0 <= event["time"] - searches[event["search_id"]] <= WITHIN_S * 1_000_000
    }
    found: dict[int, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for search, at_us in searches.items():
        first_s = (at_us // 1_000_000 // EVERY_S + 1) * EVERY_S
        for end_s in range(first_s, first_s + 300, EVERY_S):
            of_minute = end_s - at_us / 1_000_000 <= 60
            hit = search in clicked
            for number, value in enumerate((of_minute, of_minute and hit, True, hit)):
                found[end_s][number] += value
    return {end_s: (row[0], row[1], row[2], row[3]) for end_s, row in found.items()}


@pytest.mark.slow
@pytest.mark.timeout(450)
def test_windows_reach_an_online_consumer(live: LocalCluster, light_spark: dict[str, str], tmp_path: Path) -> None:
    """Each window arrives once it is complete, with exactly the searches of it, however often events were published."""
    events = [each for each in odd_events(seed=5) if each[0] in {"searches", "clicks"}]
    publish(live.zk_connect, events)
    later = {"time": LATER_US, "id": "00000000-0000-4000-8000-000000000001", "server": "web-1"}
    counting = (str(EXAMPLE), str(tmp_path / "checkpoint"), live.zk_connect)
    output = tmp_path / "output"
    with ChildProcess([sys.executable, *counting], output, env=light_spark, stop_timeout_s=60) as process:
        publish(live.zk_connect, [("searches", {**later, "query": "the end", "results": 0})])
        expected = plain_windows(events)
        found: dict[int, tuple[int, int, int, int]] = {}
        consuming = {"zk.connect": live.zk_connect, "groupid": "online", "autooffset.reset": "smallest"}
        with (
            connect(live.zk_connect) as client,
            ConsumerConnector({**consuming, "consumer.timeout.ms": 500}) as consumer,
        ):
            decoder = EventDecoder(SchemaRegistry(client))
            [stream] = consumer.create_message_streams({TOPIC: 1})[TOPIC]

            def is_complete() -> bool:
                assert process.running, output.read_text()
                for message in stream:
                    take(decoder.decode(message).fields)
                return len(found) >= len(expected)

            def take(fields: dict[str, Any]) -> None:
                end_s = fields["time"] // 1_000_000
                assert end_s not in found
                found[end_s] = tuple(fields[name] for name in NUMBERS)

            eventually(is_complete, 300)
        assert found == expected
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0, output.read_text()
