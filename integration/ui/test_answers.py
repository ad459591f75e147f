"""The questions that a person has who opens the console, each answered on the view that it leads to.

The cluster has events of yesterday, which producers and loads have counted; of clicks some were lost on the way.
One group keeps up, one falls behind, one has stopped. UI_PICTURES names a directory that gets a picture of each view.
"""

from __future__ import annotations

import itertools
import os
import re
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from integration.ui.test_browser import see
from kafka2011 import ConsumerConnector, LocalCluster, Producer
from kafka2011.admin import Admin, create_topic
from kafka2011.audit import scan
from kafka2011.audit.publishing import open_counter
from kafka2011.audit.scan import Rules
from kafka2011.events.codec import EventEncoder, Stamp
from kafka2011.events.event_ids import EventIds
from kafka2011.events.publisher import EventPublisher
from kafka2011.events.schema_registry import SchemaRegistry
from kafka2011.events.schemas import event_schema
from kafka2011.ui import lag
from kafka2011.ui.serving import serve
from kafka2011.warehouse.loading.loader import load
from tests.support.devtools import CHROMIUM, Browser
from tests.support.waiting import TIMEOUT_S, eventually
from zk.clock import SystemClock
from zk.connecting import connect

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zk.client import ZkClient

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")

DAY_S = 86_400
LOST = 7
FED, KEEPS_UP, FALLS_BEHIND, STOPPED = "activity", "reports", "exports", "archive"
EVENTS = {"page_views": 300, "clicks": 40}
MEMBER = {
    "zk.sessiontimeout.ms": 2000,
    "autooffset.reset": "smallest",
    "autocommit.interval.ms": 100,
    "fetch.size": 1000,
}
PAUSES_S = {KEEPS_UP: 0.0, FALLS_BEHIND: 0.1, STOPPED: TIMEOUT_S}
"""Of each group after each message."""
MAIN = "document.getElementById('main').innerText"


class Ago(SystemClock):
    """A clock that is behind."""

    def __init__(self, behind_s: float) -> None:
        self._behind_s = behind_s

    def wall_s(self) -> float:
        return super().wall_s() - self._behind_s


class Looked(NamedTuple):
    """A browser at a console."""

    browser: Browser
    address: str
    zk_connect: str

    def at(self, view: str, text: str) -> str:
        """Open a view until it says something, and return all that it says."""
        found = see(self.browser, self.address, view, text)
        if "UI_PICTURES" in os.environ:
            time.sleep(1)  # for those who look at it: with a second picture of the cluster
            self.browser.picture(Path(os.environ["UI_PICTURES"]) / f"{view.partition('/')[0]}.png")
            found = self.browser.evaluate(MAIN)
        return found


@pytest.fixture(scope="module")
def looked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Looked]:
    tmp = tmp_path_factory.mktemp("answers")
    properties = {"num.partitions": 2, "log.flush.interval": 1, "log.file.size": 20_000, "zk.sessiontimeout.ms": 2000}
    with ExitStack() as stack:
        patched = stack.enter_context(pytest.MonkeyPatch.context())
        patched.setattr(lag, "LOOK_S", 1.0)  # ten of them in as many seconds
        # Brokers flush each message here. As shipped, a load is believed to have read everything after ten seconds.
        patched.setattr(scan, "DEFAULT_RULES", Rules(flush_ms=0))
        cluster = stack.enter_context(LocalCluster(2, properties=properties))
        client = stack.enter_context(connect(cluster.zk_connect))
        for topic in EVENTS:
            create_topic(client, topic)
        create_topic(client, FED)
        publish(cluster.zk_connect, client, DAY_S)
        warehouse = str(tmp / "warehouse")
        load([*EVENTS], warehouse=warehouse, zk_connect=cluster.zk_connect, master="none", tier="warehouse")
        read(stack, cluster.zk_connect)
        served = stack.enter_context(connect(cluster.zk_connect))
        address = stack.enter_context(serve(served, "127.0.0.1", 0, is_always_on=True, warehouse=warehouse))
        yield Looked(stack.enter_context(Browser(tmp / "profile")), address, cluster.zk_connect)


def publish(zk_connect: str, client: ZkClient, behind_s: float) -> None:
    """Publish events of yesterday; of clicks, a few are counted that never arrive."""
    clock, registry, ids = Ago(behind_s), SchemaRegistry(client), EventIds()
    schemas = {topic: event_schema(topic, {"name": "member_id", "type": "long"}) for topic in EVENTS}
    for topic, schema in schemas.items():
        registry.register(topic, schema)
    with (
        open_counter("producer", zk_connect, clock=clock) as counter,
        Producer({"zk.connect": zk_connect, "producer.type": "async", "confirm": True}) as producer,
    ):
        publisher = EventPublisher(producer, EventEncoder(registry, schemas), counter=counter, clock=clock)
        for topic, count in EVENTS.items():
            for number in range(count):
                publisher.publish(topic, {"member_id": number})
        producer.flush()
        publisher.await_counted()
        now_us = int(clock.wall_s() * 1_000_000)
        counter.count("clicks", [Stamp(now_us, ids.next(), now_us) for _ in range(LOST)])


def read(stack: ExitStack, zk_connect: str) -> None:
    """Feed a topic from now on, and have three groups read it, each in its way."""
    stop = threading.Event()

    def feed() -> None:
        with Producer({"zk.connect": zk_connect}) as producer:
            for number in itertools.count():
                if stop.wait(0.01):
                    return
                producer.send(FED, b"x" * 200, key=str(number))

    def follow(group: str) -> None:
        with ConsumerConnector({"zk.connect": zk_connect, "groupid": group, **MEMBER}) as consumer:
            stack.callback(consumer.shutdown)
            [stream] = consumer.create_message_streams({FED: 1})[FED]
            for _ in stream:
                if stop.wait(PAUSES_S[group]):
                    return

    threads = [threading.Thread(target=feed), *(threading.Thread(target=follow, args=(each,)) for each in PAUSES_S)]
    for thread in threads:
        stack.callback(thread.join)
        thread.start()
    stack.callback(stop.set)
    with Admin(zk_connect) as admin:
        eventually(lambda: set(PAUSES_S) <= set(admin.groups()), what="the groups")
        eventually(lambda: not any(map(admin.problems, PAUSES_S)), what="an owner for each partition")


def test_who_is_behind_and_by_how_long(looked: Looked) -> None:
    """At a glance, at the top of the first view: who, how much, for how long, and what is the matter."""
    see(looked.browser, looked.address, "cluster", "Consumer lag")
    eventually(lambda: are_told_apart(looked.browser.evaluate(MAIN)), what="the verdicts")
    looked.at("cluster", "Consumer lag")


def are_told_apart(text: str) -> bool:
    first, second, third = (each.strip() for each in text.splitlines()[1:4])
    return (
        first.startswith(f"{STOPPED} lags by ")
        and first.endswith("stopped: commits nothing")
        and second.startswith(f"{FALLS_BEHIND} lags by ")
        and ", about " in first
        and ", about " in second
        and third == "1 other group keeps up."
    )


def test_who_owns_this_partition_and_since_when(looked: Looked) -> None:
    """Below its log: each group, its owner there, and since when."""
    text = looked.at(f"log/{FED}/0-0", "Groups in this partition")
    [row] = [each for each in text.splitlines() if each.startswith(f"{KEEPS_UP}\t")]
    assert re.search(r"\d\d:\d\d", row)


def test_what_would_be_lost(looked: Looked) -> None:
    """A table of brokers says how much each alone holds, and who has not read it yet."""
    text = looked.at("cluster", "If a broker died now")
    assert text.count("unavailable: no copy") == 2
    assert f"by {STOPPED}" in text


def test_whether_everything_of_yesterday_arrived(looked: Looked) -> None:
    """In the first line of the view: no, and how many are missing; then of what, when, and where they were lost."""
    text = looked.at("pipeline", "Yesterday")
    assert "Only tiers and clusters that have reported can be judged" in text
    assert f"Yesterday: ■ messages are missing: clicks lacks {LOST} in warehouse. 1 other topic complete." in text
    assert f"40, lacks {LOST}" in text


def test_what_happened_at_a_time(looked: Looked) -> None:
    """A time of day that is entered shows the rebalances around it, each with its causes and steps."""
    with ConsumerConnector({"zk.connect": looked.zk_connect, "groupid": KEEPS_UP, **MEMBER}) as joining:
        joining.create_message_streams({FED: 1})
        eventually(lambda: len(joining.owned_partitions()) == 2, what="its share")
    looked.at(f"rebalances/{KEEPS_UP}", "partitions moved")
    looked.browser.evaluate(
        "(at => { at.value = new Date().toTimeString().slice(0, 5); at.onchange({target: at}); })"
        "(document.querySelector('input[type=time]'))"
    )
    eventually(lambda: "Within five minutes of" in looked.browser.evaluate(MAIN), what="what happened then")
    text = looked.browser.evaluate(MAIN)
    assert " joined" in text
    assert " left" in text
    assert "claims" in text
