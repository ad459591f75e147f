"""Members of a group, some to a process: both ends of the pipe to each process."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Self

from kafka2011 import ConsumerConnector
from kafka2011.consumer.topic_filter import Whitelist
from paper_benchmarks.measuring.usage import process_cpu_s, raise_file_limit
from paper_benchmarks.measuring.worker import ROOT

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from types import TracebackType

MODULE = "paper_benchmarks.workers.members"
"""The program of members of ours."""
_STOP_TIMEOUT_S = 120.0


class Members:
    """So many members of a group, in processes that are ready when this is entered; they join when told to.

    `topics` are those that each subscribes to, with how many streams; one of them may be a pattern with a `*`. `module`
    is the program of a process; it gets `zk_connect` as where to connect to. `settings` are those of a member. `notes`
    is a directory where the module may keep a file for each process; the file is removed when the process has ended.
    """

    def __init__(
        self,
        zk_connect: str,
        group: str,
        topics: Mapping[str, int],
        count: int,
        at_once: int,
        module: str = MODULE,
        settings: Mapping[str, object] | None = None,
        notes: Path | None = None,
    ) -> None:
        self._job = {"zk": zk_connect, "group": group, "topics": dict(topics), "settings": settings or {}}
        self._notes = notes
        self._counts = [min(at_once, count - start) for start in range(0, count, at_once)]
        self._module = module
        self._processes: list[subprocess.Popen[str]] = []

    def __enter__(self) -> Self:
        for count in self._counts:
            job = {**self._job, "count": count, "notes": str(self._notes or "")}
            command = [sys.executable, "-m", self._module, json.dumps(job)]
            self._processes.append(
                subprocess.Popen(  # noqa: S603 (a module of ours)
                    command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT, text=True
                )
            )
        for process in self._processes:
            assert process.stdout is not None
            process.stdout.readline()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.leave()

    def join(self) -> None:
        """Have them join."""
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.write("join\n")
            process.stdin.flush()

    def kill(self) -> None:
        """End them with kill -9."""
        for process in self._processes:
            process.kill()
        self.leave()

    def leave(self) -> None:
        """Have them leave, and end."""
        processes, self._processes = self._processes, []
        for process in processes:
            assert process.stdin is not None
            process.stdin.close()
        for process in processes:
            try:
                process.wait(_STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            assert process.stdout is not None
            process.stdout.close()
            if self._notes is not None:
                (self._notes / str(process.pid)).unlink(missing_ok=True)

    def pids(self) -> list[int]:
        """Return the processes."""
        return [process.pid for process in self._processes]

    def cpu_s(self) -> float:
        """Return the processor time of all that run."""
        return sum(map(process_cpu_s, self.pids()))


def _run(job: Mapping[str, Any]) -> None:
    raise_file_limit()
    settings = {
        "zk.connect": job["zk"],
        "groupid": job["group"],
        "zk.sessiontimeout.ms": 10_000,
        "zk.connectiontimeout.ms": 60_000,
        **job["settings"],
    }
    with ExitStack() as stack:
        members = [ConsumerConnector(settings) for _ in range(job["count"])]
        for member in members:
            stack.callback(member.shutdown)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        if not sys.stdin.readline():
            return
        joining = [threading.Thread(target=_join, args=(member, job["topics"])) for member in members]
        for thread in joining:
            thread.start()
        sys.stdin.read()
        for thread in joining:
            thread.join()


def _join(member: ConsumerConnector, topics: Mapping[str, int]) -> None:
    patterns = [topic for topic in topics if "*" in topic]
    if patterns:
        streams = member.create_message_streams_by_filter(Whitelist(patterns[0]), 1)
    else:
        streams = [stream for found in member.create_message_streams(topics).values() for stream in found]
    for stream in streams:
        threading.Thread(target=_drain, args=(stream,), daemon=True).start()


def _drain(stream: Any) -> None:
    for _ in stream.batches(1000):
        pass


if __name__ == "__main__":
    _run(json.loads(sys.argv[1]))
