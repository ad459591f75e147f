"""Forks while a thread of a handler, a producer or a counter begins, at one moment after the other, and uses each copy.

python -m integration.programs.fork_at_every_moment handler|producer|counter ZK_CONNECT

Prints how many moments there were, and those after which the child could not publish.
"""

from __future__ import annotations

import logging
import os
import queue
import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType

ROOT = str(Path(__file__).parent.parent.parent)
EVERY = 6  # of the functions; each module counts
CHILD_S = 20
MOMENT_S = 0.05  # how long the thread stays where it is when forks are held back

moments: queue.SimpleQueue[str | None] = queue.SimpleQueue()
resumed = threading.Event()
seen: set[CodeType] = set()


def stop_at(frame: FrameType, _event: str, _argument: object) -> None:
    """Stop the thread at the beginning of a function or module that has not begun before."""
    code = frame.f_code
    if code in seen or code.co_filename == __file__:
        return
    seen.add(code)
    is_module = code.co_name == "<module>"
    is_ours = code.co_filename.startswith((f"{ROOT}/kafka2011", f"{ROOT}/zk"))
    if is_module or (is_ours and len(seen) % EVERY == 0):
        resumed.clear()
        moments.put(f"{code.co_filename}:{code.co_name}")
        resumed.wait(MOMENT_S)


def handler_of(zk_connect: str) -> Callable[[], bool]:
    from kafka2011.collect.log_handler import KafkaLogHandler

    handler = KafkaLogHandler({"zk.connect": zk_connect}, "records", flush_timeout_ms=CHILD_S * 1000)

    def publish() -> bool:
        handler.emit(logging.LogRecord("application", logging.INFO, "", 0, "one", None, None))
        handler.flush()
        return handler.counts.lines_confirmed >= 1

    return publish


def producer_of(zk_connect: str) -> Callable[[], bool]:
    from kafka2011.producer.producer import Producer

    producer = Producer({"zk.connect": zk_connect, "producer.type": "async", "confirm": "true", "queue.time": 1})
    return lambda: producer.send("records", b"one").result(CHILD_S) is not None


def counter_of(zk_connect: str) -> Callable[[], bool]:
    from kafka2011.audit.publishing import open_counter
    from kafka2011.events.codec import Stamp

    counter = open_counter("tier", zk_connect)

    def publish() -> bool:
        counter.count(
            "records", [Stamp(1_323_000_000_000_000, "00000000-0000-4000-8000-000000000000", 1_323_000_000_000_000)]
        )
        counter.report()
        return counter.counts()["reports"] >= 1

    return publish


def fork(publish: Callable[[], bool]) -> bool:
    """Publish in a forked child; say whether it could."""
    child = os.fork()
    if child == 0:
        threading.settrace(None)
        signal.alarm(CHILD_S)
        os._exit(0 if publish() else 1)
    resumed.set()
    return os.waitpid(child, 0)[1] == 0


def main() -> None:
    """Fork until the thread's first work is done."""
    makers: dict[str, Callable[[str], Callable[[], bool]]] = {
        "handler": handler_of,
        "producer": producer_of,
        "counter": counter_of,
    }
    publish = makers[sys.argv[1]](sys.argv[2])
    tracer: Any = stop_at
    threading.settrace(tracer)

    def begin() -> None:
        publish()
        moments.put(None)

    threading.Thread(target=begin).start()
    asked = 0
    while (moment := moments.get()) is not None:
        asked += 1
        if not fork(publish):
            sys.stdout.write(f"lost: {moment}\n")
    sys.stdout.write(f"moments: {asked}\n")
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
