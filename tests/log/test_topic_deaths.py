"""A process that ends before any of the calls by which a topic is created, deleted or grows, and the next one."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from kafka2011.log.log_manager import LogManager, TopicSettings
from kafka2011.message.message_set import encode
from tests.support.dying import environment, steps_in
from tests.support.topic_dying import CREATED, GROWN, NEW, TOPIC

if TYPE_CHECKING:
    from pathlib import Path

MESSAGE = encode(b"hello")
OTHER = f"{TOPIC}-x"


@pytest.fixture
def before(tmp_path: Path) -> Path:
    """Make a log.dir with a topic that has grown to three partitions, and another topic."""
    log_dir = tmp_path / "before"
    with LogManager(log_dir, TopicSettings(num_partitions=2)) as manager:
        manager.grow_topic(TOPIC, 3)
        for topic, partition in ((TOPIC, 0), (TOPIC, 2), (OTHER, 0)):
            manager.get_or_create(topic, partition).append(MESSAGE, 1)
    return log_dir


@pytest.mark.parametrize("what", ["delete", "grow"])
def test_each_moment_leaves_all_of_a_log_or_nothing(what: str, before: Path, tmp_path: Path) -> None:
    """What is asked for again, as a broker does when it starts, is done then; other topics never notice."""
    into, steps = tmp_path / what, tmp_path / "steps"
    command = [sys.executable, "-m", "tests.support.topic_dying", str(before), str(into), what]
    subprocess.run(command, env=environment(steps), timeout=100, check=True)
    deaths = sorted(into.iterdir(), key=lambda path: int(path.name))[1:]
    assert len(deaths) >= (10 if what == "delete" else 5)
    for log_dir, step in zip(deaths, steps_in(steps), strict=False):
        with LogManager(log_dir, TopicSettings(num_partitions=2)) as manager:
            found = {(log.topic, log.partition): log.end_offset for log in manager.logs()}
            assert set(found.values()) == {len(MESSAGE)}, step
            assert (OTHER, 0) in found
            assert not list(log_dir.glob("*.deleted")), "what was given up is gone"
            if what == "delete":
                assert manager.num_partitions(TOPIC) in {2, 3}
                manager.delete_topic(TOPIC)
                assert [(log.topic, log.partition) for log in manager.logs()] == [(OTHER, 0)], step
            else:
                assert manager.num_partitions(TOPIC) in {3, GROWN}
                assert set(found) == {(TOPIC, 0), (TOPIC, 2), (OTHER, 0)}, step
                manager.grow_topic(TOPIC, GROWN)
        with LogManager(log_dir, TopicSettings(num_partitions=2)) as manager:
            assert manager.num_partitions(TOPIC) == (2 if what == "delete" else GROWN), step


def test_each_moment_of_a_creation_leaves_what_can_be_created_again(before: Path, tmp_path: Path) -> None:
    """The topic then has the exact number of partitions, and no other topic has changed."""
    into, steps = tmp_path / "create", tmp_path / "steps"
    command = [sys.executable, "-m", "tests.support.topic_dying", str(before), str(into), "create"]
    subprocess.run(command, env=environment(steps), timeout=100, check=True)
    deaths = sorted(into.iterdir(), key=lambda path: int(path.name))[1:]
    assert len(deaths) >= 10
    for log_dir, step in zip(deaths, steps_in(steps), strict=False):
        with LogManager(log_dir, TopicSettings(num_partitions=2)) as manager:
            assert manager.topics().get(NEW) in {None, CREATED}, step
            manager.create_topic(NEW, CREATED)
        with LogManager(log_dir, TopicSettings(num_partitions=7)) as manager:
            assert manager.topics() == {NEW: CREATED, TOPIC: 7, OTHER: 7}, step
            assert [log.partition for log in manager.logs() if log.topic == NEW] == list(range(CREATED)), step
            ends = [log.end_offset for log in manager.logs() if log.topic != NEW]
            assert ends == [len(MESSAGE)] * 3, step
