"""The solutions in the page for lecturers are right: each program prints what stands below it."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from integration.blocks.gather import ROOT, Block, blocks_of
from kafka2011.consumer.rebalance import assign
from kafka2011.lab.stages import STAGES
from kafka2011.message.message_set import MessageSet
from zk.cluster import TopicPartition

PAGE = "docs/how-to/teaching.md"
TEXT = (ROOT / PAGE).read_text(encoding="utf-8")
PROGRAMS = [block for block in blocks_of(PAGE, TEXT) if block.language == "python"]


@pytest.mark.parametrize("block", PROGRAMS, ids=lambda block: block.place)
def test_a_solution_prints_what_the_page_says(block: Block) -> None:
    """Exactly that, and it says something."""
    done = subprocess.run(
        [sys.executable, "-c", block.text], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert block.prints
    assert done.stdout == block.prints


def test_solutions_are_those_of_the_shipped_code() -> None:
    """The message, and both assignments."""
    assert f"\n{bytes(MessageSet([b'hello'])).hex(' ')}\n" in TEXT
    for brokers, count, streams in ((2, 4, "abc"), (1, 11, "abcd")):
        partitions = [TopicPartition("views", broker, number) for broker in range(brokers) for number in range(count)]
        for stream, owned in assign(partitions, streams).items():
            assert f"\n{' '.join([stream, *(partition.znode_name for partition in owned)])}\n" in TEXT


def test_every_exercise_has_a_solution() -> None:
    """Table, exercises and solutions have the same numbers, and stages are those of the lab."""
    exercises, solutions = TEXT.split("\n## Exercises\n")[1].split("\n## Solutions\n")
    numbers = re.findall(r"^\| (\d) \|", exercises, re.MULTILINE)
    assert len(numbers) >= 6
    assert re.findall(r"^\*\*(\d)\. ", exercises, re.MULTILINE) == numbers
    assert re.findall(r"^\*\*(\d)\.\*\*", solutions, re.MULTILINE) == numbers
    stages = {int(number) for number in re.findall(r"\bstage (\d+)", TEXT)}
    assert stages
    assert stages <= set(STAGES)
