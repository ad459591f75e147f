"""One member of a group, in a process of its own: `python -m integration.chaos.member FILE STYLE STREAMS SETTINGS`.

It reads every topic that begins with `chaos`, in one of four styles:

    one      a message at a time
    lists    `batches()`
    by-hand  a message at a time, and it commits by itself
    pauses   a message at a time, and sometimes it works on one for longer than a rebalance waits

Everything that is handed out is written down before more is asked for. SIGTERM leaves the group in order.
"""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from integration.chaos.defects import plant
from integration.chaos.records import Place, receipt_line, tenure_line, whole_lines
from kafka2011 import ConsumerConnector, RebalanceListener, Whitelist
from kafka2011.errors import KafkaError
from zk.clock import SYSTEM_CLOCK
from zk.cluster import TopicPartition
from zk.errors import ZkError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kafka2011.consumer.stream import MessageStream
    from kafka2011.message.message_set import Message

    _Joined = tuple[ConsumerConnector, list[MessageStream]]

TOPICS = "chaos.*"
COMMIT_EVERY_S = 1.0
PAUSE_EVERY_S = 7.0
PAUSE_S = 2.5
_PLACE = re.compile(r" in (?P<where>\S+) at offset (?P<offset>[0-9]+)")

logger = logging.getLogger("member")

now_s = SYSTEM_CLOCK.monotonic_s


class Notes(RebalanceListener):
    """The member's file: one write for each line, so that nothing is torn but by the end of the process."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def write(self, line: bytes) -> None:
        """Write a line down."""
        os.write(self._fd, line)

    def handed_out(self, messages: Iterable[Message]) -> None:
        """Write down what was just handed out."""
        stamp_s = now_s()
        lines = []
        for each in messages:
            where = TopicPartition(each.topic, each.broker_id or 0, each.partition)
            place = Place(where, each.offset, each.index_in_set)
            lines.append(receipt_line(stamp_s, place, each.next_offset, each.payload))
        self.write(b"".join(lines))

    def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self.write(tenure_line(now_s(), "assigned", partitions))

    def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self.write(tenure_line(now_s(), "revoked", partitions))

    def on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        self.write(tenure_line(now_s(), "lost", partitions))


class Reader:
    """Reads one stream in a thread, in one style, until its end."""

    def __init__(self, stream: MessageStream, style: str, notes: Notes, consumer: ConsumerConnector) -> None:
        self._stream = stream
        self._style = style
        self._notes = notes
        self._consumer = consumer
        self._next_pause_s = now_s() + PAUSE_EVERY_S
        self.next_commit_s = now_s() + COMMIT_EVERY_S
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        while True:
            try:
                self._read()
            except KafkaError as error:
                self._notes.write(f"E {now_s():.6f} {type(error).__name__} {error}\n".encode())
                time.sleep(0.2)
                self._step_over(str(error))
            else:
                return

    def _read(self) -> None:
        if self._style == "lists":
            for messages in self._stream.batches(200):
                self._notes.handed_out(messages)
            return
        for message in self._stream:
            self._notes.handed_out([message])
            if self._style == "pauses" and now_s() >= self._next_pause_s:
                self._notes.write(f"P {now_s():.6f}\n".encode())
                time.sleep(PAUSE_S)
                self._next_pause_s = now_s() + PAUSE_EVERY_S
            elif self._style == "by-hand" and now_s() >= self.next_commit_s:
                self.next_commit_s = now_s() + COMMIT_EVERY_S
                self._commit()

    def _commit(self) -> None:
        try:
            self._consumer.commit_offsets()
        except KafkaError as error:
            logger.info("not committed: %s", error)

    def _step_over(self, error: str) -> None:
        """Go on behind a message that was damaged; else going on fetches it again, which mends an error of the way."""
        found = find_flip(error, whole_lines(self._notes.path.parents[1] / "flips"))
        if found is not None:
            where, next_offset = found
            try:
                self._consumer.rewind(*where, offset=next_offset)
            except KafkaError as refused:
                logger.info("not stepped over: %s", refused)


def find_flip(error: str, flips: Iterable[str]) -> tuple[TopicPartition, int] | None:
    """Return the partition of the damaged message that an error is about, and where that message ends."""
    match = _PLACE.search(error)
    for line in flips if match else ():
        name, offset, next_offset = line.split()
        if match and (name, offset) == (match["where"], match["offset"]):
            topic, _, numbers = name.rpartition("/")
            return TopicPartition.from_znode_name(topic, numbers), int(next_offset)
    return None


def join(settings: str, notes: Notes, streams: int, ended: threading.Event) -> _Joined | None:
    """Join the group, once ZooKeeper lets us; None when it is over before that."""
    while not ended.is_set():
        with ExitStack() as failed:
            try:
                consumer = ConsumerConnector(json.loads(settings), notes)
                failed.callback(consumer.shutdown)
                found = consumer.create_message_streams_by_filter(Whitelist(TOPICS), streams)
            except ZkError as error:
                logger.info("not joined: %s", error)
            else:
                failed.pop_all()
                return consumer, found
        ended.wait(0.5)
    return None


def main(path: str, style: str, streams: str, settings: str) -> None:
    """Be a member until SIGTERM."""
    plant("member")
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("kazoo").setLevel(logging.WARNING)
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    notes = Notes(path)
    joined = join(settings, notes, int(streams), ended)
    if joined is None:
        return
    consumer, found = joined
    notes.write(f"B {now_s():.6f} {style}\n".encode())
    readers = [Reader(stream, style, notes, consumer) for stream in found]
    while not ended.wait(0.5):
        pass
    consumer.shutdown()
    for reader in readers:
        reader.thread.join(20)
    notes.write(f"X {now_s():.6f} {json.dumps(consumer.counts())}\n".encode())


if __name__ == "__main__":
    main(*sys.argv[1:])
