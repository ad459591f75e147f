"""Readers that write down what was handed out to them and when, and what such receipts must say."""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Self

from kafka2011.message.compression import Codec
from kafka2011.message.message_set import MessageSet
from kafka2011.producer.sync_producer import SyncProducer
from zk.child import ChildProcess

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kafka2011.consumer.stream import MessageStream
    from kafka2011.local_cluster import LocalBroker

DEADLINE_S = 30.0
PROGRAMS = Path(__file__).with_name("programs")
PARTITIONS = 4


@dataclass(frozen=True, slots=True, order=True)
class Receipt:
    """A message that was handed out, and when (CLOCK_BOOTTIME)."""

    stamp_s: float
    partition: tuple[int, int]
    offset: int
    payload: str


def now_s() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def produce(
    broker: LocalBroker,
    topic: str,
    numbers: Iterable[int],
    *,
    partitions: Sequence[int] = range(PARTITIONS),
    codec: Codec = Codec.NONE,
    set_size: int = 10,
) -> None:
    """Send each number to every one of these partitions, as `{partition}:{number}`."""
    every = list(numbers)
    with SyncProducer(broker.host, broker.port) as producer:
        for start in range(0, len(every), set_size):
            producer.multi_send(
                (
                    topic,
                    partition,
                    MessageSet([b"%d:%d" % (partition, n) for n in every[start : start + set_size]], codec),
                )
                for partition in partitions
            )


class Reader:
    """Reads a stream in a thread of its own, with a pause for each message; a context manager.

    While `gate` is clear, the application keeps the message that it was handed. The message with the number `hold_at`
    clears it, until somebody sets it.
    """

    def __init__(self, stream: MessageStream, pause_s: float = 0.0, *, hold_at: int = 0) -> None:
        self.receipts: list[Receipt] = []
        self.errors: list[BaseException] = []
        self.gate = threading.Event()
        self.gate.set()
        self._hold_at = hold_at
        self._stream = stream
        self._pause_s = pause_s
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def payloads(self) -> list[str]:
        return [receipt.payload for receipt in self.receipts]

    def join(self) -> None:
        """Wait for the end of the iteration."""
        self._hold_at = 0
        self.gate.set()
        self._thread.join(DEADLINE_S)
        assert not self._thread.is_alive(), "the reader goes on after the end"
        if self.errors:
            raise self.errors[0]

    def _run(self) -> None:
        try:
            for message in self._stream:
                where = (message.broker_id or 0, message.partition)
                self.receipts.append(Receipt(now_s(), where, message.offset, message.payload.decode()))
                if len(self.receipts) == self._hold_at:
                    self.gate.clear()
                if self._pause_s:
                    time.sleep(self._pause_s)
                self.gate.wait(DEADLINE_S)
        except BaseException as error:  # noqa: BLE001 - it belongs to the test
            self.errors.append(error)


class MemberProcess:
    """A member in a process of its own; a context manager."""

    def __init__(self, path: Path, topic: str, config: dict[str, object], pause_ms: float) -> None:
        self._path = path
        command = [sys.executable, str(PROGRAMS / "member.py"), str(path), topic, str(pause_ms), json.dumps(config)]
        self._log_path = path.with_suffix(".log")
        self._process = ChildProcess(command, self._log_path)

    @property
    def receipts(self) -> list[Receipt]:
        """What it wrote down so far."""
        if not self._path.exists():
            return []
        found = []
        for line in self._path.read_text().splitlines(keepends=True):
            if line.endswith("\n"):
                stamp, broker, partition, offset, payload = line.split()
                found.append(Receipt(float(stamp), (int(broker), int(partition)), int(offset), payload))
        return found

    @property
    def log(self) -> str:
        """What it logged and complained about."""
        return self._log_path.read_text()

    def kill(self) -> None:
        self._process.kill()

    def stop(self) -> None:
        """Have it leave in order."""
        self._process.stop()
        assert self._process.poll() == 0, self.log

    def pause(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def __enter__(self) -> Self:
        self._process.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.stop()


def of_partition(receipts: Iterable[Receipt], partition: tuple[int, int]) -> list[Receipt]:
    return sorted(receipt for receipt in receipts if receipt.partition == partition)


def repeats(*readers: Iterable[Receipt]) -> list[str]:
    """Name what was handed out more than once."""
    every = sorted(receipt.payload for receipts in readers for receipt in receipts)
    return [one for one, other in pairwise(every) if one == other]


def everything(numbers: Iterable[int], partitions: Iterable[int] = range(PARTITIONS)) -> set[str]:
    every = list(numbers)
    return {f"{partition}:{number}" for partition in partitions for number in every}


def check_order(*readers: Iterable[Receipt]) -> None:
    """In each partition the first deliveries come in sending order, whoever got them."""
    every = sorted(receipt for receipts in readers for receipt in receipts)
    for partition in {receipt.partition for receipt in every}:
        numbers = [int(receipt.payload.partition(":")[2]) for receipt in of_partition(every, partition)]
        firsts = list(dict.fromkeys(numbers))
        assert firsts == sorted(firsts)


def check_turns(*readers: Iterable[Receipt]) -> dict[tuple[int, int], list[int]]:
    """Return whose turn it was in each partition, by stamps: no two hand-outs of different owners are interleaved.

    A turn that comes again and again would be two members handing out the same partition at once.
    """
    turns: dict[tuple[int, int], list[int]] = {}
    for receipt, reader in sorted((receipt, number) for number, each in enumerate(readers) for receipt in each):
        of = turns.setdefault(receipt.partition, [])
        if of[-1:] != [reader]:
            of.append(reader)
    return turns
