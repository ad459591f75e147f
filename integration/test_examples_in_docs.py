"""The examples of the documents run as they stand, on a cluster whose ZooKeeper is where it is."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kafka2011 import LocalCluster

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parent.parent
TIMEOUT_S = 60

_EXAMPLES: list[str] = [
    text
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
    for text in re.findall(r"```python\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL)
]


def example(holding: str) -> str:
    [found] = [text for text in _EXAMPLES if holding in text]
    return found


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=1, properties={"log.flush.interval": 1, "zk.sessiontimeout.ms": 2000}) as running:
        yield running


def test_the_producer_and_the_consumer(cluster: LocalCluster) -> None:
    """What the README's first example publishes, its second one prints."""
    here = {"localhost:2181": cluster.zk_connect}
    producing, consuming = (
        _replaced(example(holding), here) for holding in ('key="member-42"', '"reports"}) as consumer')
    )
    subprocess.run([sys.executable, "-c", producing], check=True, timeout=TIMEOUT_S)
    assert {line.split()[-1] for line in _first_lines(consuming, 3)} == {"b'one'", "b'two'", "b'three'"}


def test_the_first_examples_of_the_pages_on_producers_and_consumers(cluster: LocalCluster) -> None:
    """A confirmed send to a keyed partition is read by a member of a group, in order."""
    here = {"localhost:2181": cluster.zk_connect}
    producing, consuming = (_replaced(example(holding), here) for holding in ('key="member-7"', '"billing"'))
    done = subprocess.run(
        [sys.executable, "-c", producing], check=True, timeout=TIMEOUT_S, capture_output=True, text=True
    )
    assert done.stdout == "2 messages, confirmed: True\n"
    lines = _first_lines(consuming, 2)
    assert [(topic, payload) for topic, _offset, payload in map(str.split, lines)] == [
        ("orders", "b'one'"),
        ("orders", "b'two'"),
    ]


def test_events(cluster: LocalCluster) -> None:
    """The example of events prints the one that it published, with its schema."""
    publishing = _replaced(
        example("EventEncoder(registry, "), {"localhost:2181": cluster.zk_connect, '"views"': '"views-as-events"'}
    )
    done = subprocess.run(
        [sys.executable, "-c", publishing], check=True, timeout=TIMEOUT_S, capture_output=True, text=True
    )
    name, _server, url = done.stdout.split()
    assert (name, url) == ("kafka2011.View", "/jobs")


def test_an_event_loop(cluster: LocalCluster) -> None:
    """The example sends and reads in one loop."""
    looping = _replaced(example("AsyncioConsumer("), {"localhost:2181": cluster.zk_connect})
    done = subprocess.run(
        [sys.executable, "-c", looping], check=True, timeout=TIMEOUT_S, capture_output=True, text=True
    )
    assert done.stdout.splitlines()[1] == "b'one'"


def test_metrics_of_an_application(cluster: LocalCluster) -> None:
    """The example registers a consumer, and leaves."""
    showing = _replaced(example("ConsumerCollector("), {"localhost:2181": cluster.zk_connect, "(9000)": "(0)"})
    subprocess.run([sys.executable, "-c", showing], check=True, timeout=TIMEOUT_S)


def test_topics_and_groups(cluster: LocalCluster) -> None:
    """The example of `Admin` prints the partitions of its topic, and where the group stands in them."""
    administering = _replaced(example("with Admin("), {"localhost:2181": cluster.zk_connect})
    done = subprocess.run(
        [sys.executable, "-c", administering], capture_output=True, text=True, check=True, timeout=TIMEOUT_S
    )
    partitions = [f"views/0-{number}" for number in range(4)]
    assert [line.split()[0] for line in done.stdout.splitlines()] == [*partitions, *partitions]


def test_one_broker_without_zookeeper() -> None:
    """The example of the low-level clients, with a cluster of its own."""
    done = subprocess.run(
        [sys.executable, "-c", example("SyncProducer(")], capture_output=True, text=True, check=True, timeout=TIMEOUT_S
    )
    payloads = [line.split()[-1] for line in done.stdout.splitlines()]
    assert payloads == [f"b'{word}'" for word in ("one", "two", "three", "four", "five")][: len(payloads)]
    assert payloads


def _first_lines(program: str, count: int) -> list[str]:
    """Return the first lines that a program prints which goes on until Ctrl-C."""
    with subprocess.Popen([sys.executable, "-u", "-c", program], stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        try:
            return [running.stdout.readline() for _ in range(count)]
        finally:
            running.send_signal(signal.SIGINT)
            running.wait(TIMEOUT_S)


def _replaced(text: str, replacements: dict[str, str]) -> str:
    for old, new in replacements.items():
        assert old in text
        text = text.replace(old, new)
    return text
