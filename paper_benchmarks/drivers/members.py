"""Members of a group that join, stay or leave when told to; each reads its stream in a thread, as applications do."""

from __future__ import annotations

import sys
import threading
from collections import deque
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from kafka2011 import ConsumerConnector
from paper_benchmarks.worker import work

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from paper_benchmarks.worker import Work


@contextmanager
def prepare(job: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], Work]]:
    """Join `members` times, unless the work is to `join`; it may also be to `leave`, or to `stay`.

    Who stays or has joined is a member until the process ends, whose input ends before that.
    """
    with ExitStack() as stack:

        def join() -> ConsumerConnector:
            consumer = stack.enter_context(
                ConsumerConnector({"zk.connect": job["zk_connect"], "groupid": job["group"]}),
            )
            [stream] = consumer.create_message_streams({job["topic"]: 1})[job["topic"]]
            threading.Thread(target=deque, args=(stream, 0), daemon=True).start()
            return consumer

        joined = [join() for _ in range(0 if job["do"] == "join" else job["members"])]

        def run() -> Mapping[str, Any]:
            if job["do"] == "leave":
                for consumer in joined:
                    consumer.shutdown()
                return {}
            if job["do"] == "join":
                join()
            sys.stdin.read()
            return {}

        yield {"members": [consumer.consumer_id for consumer in joined]}, run


if __name__ == "__main__":
    work(prepare)
