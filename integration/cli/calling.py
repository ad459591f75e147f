"""Calling the commands, as a person does."""

from __future__ import annotations

import json
import subprocess
import sys

from kafka2011 import LATEST, SimpleConsumer
from tests.support.waiting import eventually

TIMEOUT_S = 60
PARTITIONS = 3


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "kafka2011", *map(str, arguments)]


def run(*arguments: object, text: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments), input=text, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )


def output(*arguments: object, text: str = "") -> str:
    done = run(*arguments, text=text)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def rows(*arguments: object) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(output(*arguments, "--json"))
    return found


def produce(topic: str, partition: int, text: str, broker: tuple[str, str]) -> None:
    """Publish lines, and wait until they are flushed, so that they can be read."""
    before = end_of(topic, partition, broker)
    output("produce", topic, "--partition", partition, *broker, text=text)
    lines = text.removesuffix("\n").split("\n")
    end = before + sum(len(line.encode()) + 10 for line in lines)
    eventually(lambda: end_of(topic, partition, broker) == end, what=f"offset {end} of {topic}-{partition}")


def end_of(topic: str, partition: int, broker: tuple[str, str]) -> int:
    host, _, port = broker[1].partition(":")
    with SimpleConsumer(host, int(port)) as consumer:
        return consumer.get_offsets_before(topic, partition, LATEST, 1)[0]
