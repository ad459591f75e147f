"""Members of a group of today's clients, some in a process: each polls in a thread of its own until told to end.

Whenever a member was given partitions, or gave some up, the process writes how many each member has: a number a line,
into a file that has its process id as name.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from confluent_kafka import Consumer


class Notes:
    """How many partitions each member of this process has; written into a directory, if there is one."""

    def __init__(self, directory: str, members: int) -> None:
        self._path = Path(directory) / str(os.getpid()) if directory else None
        self._counts = [0] * members
        self._lock = threading.Lock()

    def note(self, member: int, partitions: int) -> None:
        """Write that a member has that many partitions."""
        with self._lock:
            self._counts[member] = partitions
            if self._path is not None:
                unfinished = self._path.with_suffix(".part")
                unfinished.write_text("".join(f"{count}\n" for count in self._counts), encoding="utf-8")
                unfinished.replace(self._path)


def noted(directory: Path) -> tuple[int, int]:
    """Return how many partitions the members of all processes have, and how many members have some."""
    counts: list[int] = []
    for path in directory.iterdir():
        if not path.suffix:
            counts += map(int, path.read_text(encoding="utf-8").split())
    return sum(counts), sum(map(bool, counts))


def _poll(consumer: Consumer, topics: list[str], ended: threading.Event, notes: Notes, member: int) -> None:
    consumer.subscribe(
        topics,
        on_assign=lambda _, partitions: notes.note(member, len(partitions)),
        on_revoke=lambda *_: notes.note(member, 0),
    )
    while not ended.is_set():
        consumer.poll(0.1)
    consumer.close()


def _run(job: Mapping[str, Any]) -> None:
    from confluent_kafka import Consumer  # noqa: PLC0415 (who reads notes does not need it)

    ended = threading.Event()
    settings = {
        "bootstrap.servers": job["zk"],
        "group.id": job["group"],
        "auto.offset.reset": "earliest",
        **job["settings"],
    }
    consumers = [Consumer(settings) for _ in range(job["count"])]
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    if not sys.stdin.readline():
        return
    notes = Notes(job["notes"], job["count"])
    threads = [
        threading.Thread(target=_poll, args=(consumer, list(job["topics"]), ended, notes, number))
        for number, consumer in enumerate(consumers)
    ]
    for thread in threads:
        thread.start()
    sys.stdin.read()
    ended.set()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    _run(json.loads(sys.argv[1]))
