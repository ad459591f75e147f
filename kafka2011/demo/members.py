"""The members of the demo's consumer groups, each in its own process."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING

from kafka2011.demo.patience import Patience
from kafka2011.demo.records import Receipt, read_receipts
from zk.child import ChildProcess, stop_all

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

STOP_TIMEOUT_S = 20.0


class Member:
    """A process that consumes a topic and notes receipts in `{directory}/{name}.receipts`."""

    def __init__(self, name: str, topic: str, settings: Mapping[str, object], directory: Path) -> None:
        self.name = name
        self.receipts_path = directory / f"{name}.receipts"
        self.was_killed = False
        own = json.dumps({**settings, "consumerid": name})
        self.process = ChildProcess(
            [sys.executable, "-m", "kafka2011.demo.member", topic, own, str(self.receipts_path)],
            directory / f"{name}.log",
            stop_timeout_s=STOP_TIMEOUT_S,
        )

    def kill(self) -> None:
        """End the member with kill -9."""
        self.was_killed = True
        self.process.kill()

    def receipts(self) -> list[Receipt]:
        """Return what the member has noted so far."""
        return list(read_receipts(self.receipts_path))


class Group:
    """A consumer group whose members come and go; a context manager that ends them all."""

    def __init__(self, name: str, topic: str, settings: Mapping[str, object], directory: Path) -> None:
        self.name = name
        self.members: list[Member] = []
        self._topic = topic
        self._settings = {**settings, "groupid": name}
        self._directory = directory

    def add_member(self) -> Member:
        """Start one more member."""
        member = Member(f"{self.name}-{len(self.members) + 1}", self._topic, self._settings, self._directory)
        self.members.append(member)
        member.process.start()
        return member

    def receipts(self) -> list[Receipt]:
        """Return all that the members have noted."""
        return [receipt for member in self.members for receipt in member.receipts()]

    def wait_for(self, lines: int, poll_s: float = 0.2) -> bool:
        """Wait until all lines were delivered; False when none has been for long."""
        received: set[int] = set()
        patience = Patience(lambda: len(received))
        while len(received := {receipt.number for receipt in self.receipts()}) < lines:
            if patience.is_over():
                return False
            time.sleep(poll_s)
        return True

    def stop(self) -> None:
        """End all members in order: all at once, then each awaited."""
        stop_all(member.process for member in self.members)

    def __enter__(self) -> Group:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
