"""A client of today before replicas: it sends through gateways, and what it was told and reads is accounted for."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import contextmanager
from dataclasses import replace
from operator import itemgetter
from typing import TYPE_CHECKING, Self

from integration.chaos.account.order import find_disorder_in_logs
from integration.chaos.account.today import find_wrong_for_today
from integration.chaos.cluster import Client
from integration.chaos.evidence import Evidence
from integration.chaos.gateway import bootstrap_servers_of, read_as_today
from integration.chaos.records import NO_KEY, TODAY, Logged, Sent, read_sent, read_told, whole_lines
from integration.chaos.replica_set import TOPIC

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from integration.chaos.gateway import ChaosGateway
    from integration.chaos.records import MessageId, Place
    from integration.chaos.replica_set import ReplicaSet

MESSAGES_PER_S = 100
_NAME = f"{TODAY}.1"
_END_S = 120.0


class TodayClient:
    """A producer in a process of its own; a context manager. `stop` ends it."""

    def __init__(self, gateways: Sequence[ChaosGateway], directory: Path) -> None:
        topics = directory / "topics"
        topics.write_text(f"{TOPIC}\n")
        settings = {"bootstrap.servers": bootstrap_servers_of(gateways)}
        command = [TODAY, str(MESSAGES_PER_S), str(topics.absolute()), json.dumps(settings)]
        self._client = Client(_NAME, "producer", TODAY, "", command, directory, None)

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Have it send nothing in this block, but what is on its way already."""
        self._client.pause()
        try:
            yield
        finally:
            self._client.resume()

    def stop(self) -> None:
        """Let it end; what was sent is acknowledged by then, or never."""
        assert self._client.process.running, "a producer of today ended before it was told to"
        self._client.leave()
        try:
            status = self._client.process.wait(_END_S)
        except TimeoutError as error:
            raise AssertionError("a producer of today does not end") from error
        assert not status, f"a producer of today ended with status {status}"

    def evidence(self, stored: Mapping[Place, MessageId | None], confirmed: Iterable[MessageId]) -> Evidence:
        """Return what it wrote down, with what the logs have and what was confirmed to producers of 0.7."""
        sent = read_sent(_NAME, whole_lines(self._client.notes))
        keys = {each.message: each.key for each in sent}
        return Evidence(
            sent=sent + [Sent(message, TOPIC, NO_KEY, "", 0.0, "confirmed", 0.0, 0) for message in confirmed],
            logged=[
                Logged(place, message, NO_KEY if message is None else keys.get(message, NO_KEY))
                for place, message in sorted(stored.items(), key=itemgetter(0))
            ],
            told=read_told(_NAME, whole_lines(self._client.notes)),
        )

    def __enter__(self) -> Self:
        self._client.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._client.kill()


def read_back(replicas: ReplicaSet, evidence: Evidence) -> Iterator[str]:
    """Have a client of today read everything, and yield what could not be read."""
    yield from read_as_today(replicas.zk_connect, replicas.gateways, [TOPIC], evidence)
    if not evidence.read_today or not evidence.told:
        yield "a client of today was acknowledged nothing, or has read nothing"


def find_wrong(evidence: Evidence) -> Iterator[str]:
    """Yield which rules for clients of today do not hold, how often, and where first."""
    of_today = replace(evidence, sent=[each for each in evidence.sent if each.message.is_of_today])
    wrong = [*find_wrong_for_today(evidence), *find_disorder_in_logs(of_today)]
    first = {violation.rule: violation for violation in reversed(wrong)}
    for rule, count in Counter(violation.rule for violation in wrong).items():
        yield f"{count} times {first[rule]}"
