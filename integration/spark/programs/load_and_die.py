"""Loads a topic in a Spark of its own, and kills itself at one of the steps: zk_connect warehouse topic step [tier]."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

from kafka2011.warehouse.counting import LoadAudit
from kafka2011.warehouse.formats import Format, open_quarantine, open_topic_table
from kafka2011.warehouse.sessions import open_spark
from kafka2011.warehouse.settings import LoadSettings
from kafka2011.warehouse.topic_load import Step, TopicLoad

WRITING = "writing"
"""While tasks are writing files; the others are those of `Step`."""
_POLL_S = 0.001


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_when_files_appear(staging: Path) -> None:
    while not any(staging.rglob("*.parquet")):
        time.sleep(_POLL_S)
    die()


def main() -> None:
    zk_connect, warehouse, topic, step, *tier = sys.argv[1:]
    settings = {"spark.sql.shuffle.partitions": "2"}
    spark = open_spark("local[2]", settings)
    if step == WRITING:
        staging = Path(f"{warehouse}-staging")
        threading.Thread(target=die_when_files_appear, args=(staging,), daemon=True).start()

    def on_step(reached: Step) -> None:
        print(reached, flush=True)  # noqa: T201 (whoever started it reads that)
        if reached == step:
            die()

    load = TopicLoad(
        spark,
        open_topic_table(Format.PARQUET, warehouse, topic, spark),
        open_quarantine(warehouse, topic, spark),
        LoadSettings(zk_connect=zk_connect),
        audit=LoadAudit(topic, tier[0], zk_connect) if tier else None,
        on_step=on_step,
    )
    print(load.load().number, flush=True)  # noqa: T201 (as above)
    spark.stop()


if __name__ == "__main__":
    main()
