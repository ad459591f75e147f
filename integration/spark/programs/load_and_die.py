"""Loads a topic in a Spark of its own, and kills itself on the way.

    python -m integration.spark.programs.load_and_die zk_connect warehouse topic format day|hour step [tier]

A step is one of `Step`; or writing, while tasks write files; or a number: then it dies, or lives on, before a call by
which the commit changes files, as `tests.support.dying` has it. It prints the steps that it has reached.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

from kafka2011.warehouse.load.counting import LoadAudit
from kafka2011.warehouse.load.load_settings import LoadSettings
from kafka2011.warehouse.load.running_spark import LIGHT, open_spark
from kafka2011.warehouse.load.topic_load import Step, TopicLoad
from kafka2011.warehouse.load.write import PartitionBy
from kafka2011.warehouse.table.formats import Format, open_quarantine, open_topic_table
from tests.support.dying import count_below

WRITING = "writing"
_POLL_S = 0.001


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_when_files_appear(near: Path) -> None:
    """Wait for a file of rows beside those that are there now, in the table or out of it."""
    known = files_near(near)
    threading.Thread(target=_die_after, args=(near, known), daemon=True).start()


def _die_after(near: Path, known: set[Path]) -> None:
    while files_near(near) <= known:
        time.sleep(_POLL_S)
    die()


def files_near(near: Path) -> set[Path]:
    return set(near.rglob("*.parquet"))


def main() -> None:
    zk_connect, warehouse, topic, table_format, partition_by, step, *tier = sys.argv[1:]
    spark = open_spark("local[2]", local=LIGHT)

    def on_step(reached: Step) -> None:
        print(reached, flush=True)  # noqa: T201 (whoever started it reads that)
        if reached == step:
            die()
        if reached is Step.RESOLVED and step == WRITING:
            die_when_files_appear(Path(warehouse).parent)
        if reached is Step.COMMITTING and step.isdecimal():
            count_below(Path(warehouse).parent)

    load = TopicLoad(
        spark,
        open_topic_table(Format(table_format), warehouse, topic, spark),
        open_quarantine(warehouse, topic, spark),
        LoadSettings(zk_connect=zk_connect, partition_by=PartitionBy(partition_by)),
        audit=LoadAudit(topic, tier[0], zk_connect) if tier else None,
        on_step=on_step,
    )
    load.load()
    spark.stop()


if __name__ == "__main__":
    main()
