"""Loads a topic in a Spark of its own, or without, and kills itself on the way.

    python -m integration.spark.programs.load_and_die zk_connect warehouse topic master step [tier]

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

from kafka2011.warehouse.loading.counting import LoadAudit
from kafka2011.warehouse.loading.load_settings import LoadSettings
from kafka2011.warehouse.loading.opening import opened_engine
from kafka2011.warehouse.loading.running_spark import LIGHT, open_spark
from kafka2011.warehouse.loading.topic_load import Step, TopicLoad
from kafka2011.warehouse.table.quarantine import open_quarantine
from kafka2011.warehouse.table.topic_table import TopicTable
from tests.support.dying import count_below

WRITING = "writing"
_POLL_S = 0.001


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_when_files_appear(table: TopicTable) -> None:
    """Wait for a file of rows beside those that are there now."""
    known = files_of(table)
    threading.Thread(target=_die_after, args=(table, known), daemon=True).start()


def _die_after(table: TopicTable, known: set[str]) -> None:
    while files_of(table) <= known:
        time.sleep(_POLL_S)
    die()


def files_of(table: TopicTable) -> set[str]:
    return {each.path for each in table.files.walk(table.path) if "/date=" in each.path}


def main() -> None:
    zk_connect, warehouse, topic, master, step, *tier = sys.argv[1:]

    def on_step(reached: Step) -> None:
        print(reached, flush=True)  # noqa: T201 (whoever started it reads that)
        if reached == step:
            die()
        if reached is Step.RESOLVED and step == WRITING:
            die_when_files_appear(TopicTable(warehouse, topic))
        if reached is Step.COMMITTING and step.isdecimal():
            count_below(Path(warehouse).parent)

    spark = None if master.startswith("none") else open_spark(master, local=LIGHT)
    with opened_engine(master, spark) as engine:
        load = TopicLoad(
            engine,
            TopicTable(warehouse, topic),
            open_quarantine(warehouse, topic),
            LoadSettings(zk_connect=zk_connect),
            audit=LoadAudit(topic, tier[0], zk_connect) if tier else None,
            on_step=on_step,
        )
        load.load()
    if spark is not None:
        spark.stop()


if __name__ == "__main__":
    main()
