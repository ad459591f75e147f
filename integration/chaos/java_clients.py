"""A Java producer and a Java consumer that send and read through gateways, and must never end by themselves."""

from __future__ import annotations

import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Self

from integration.chaos.gateway import bootstrap_servers_of
from integration.chaos.records import JAVA, NO_KEY, Sent, identify
from integration.gateway.endless import EndlessMember, EndlessProducer
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from integration.chaos.evidence import Evidence
    from integration.chaos.gateway import ChaosGateway
    from integration.gateway.endless import Line

GROUP = "endless"
READ_S = 120.0
PATIENCE_MS = 3_600_000
_POLL_S = 1.0
_NOBODY_SENT = b"?"


class JavaClients:
    """Both clients, for one topic; a context manager. No fault is theirs: only what they are connected to suffers."""

    def __init__(
        self, gateways: Sequence[ChaosGateway], topic: str, partitions: int, directory: Path, jars: Path
    ) -> None:
        servers = bootstrap_servers_of(gateways)
        self._topic = topic
        self._producer = EndlessProducer(
            servers, topic, partitions, f"{JAVA}-", "java-producer", directory, jars, patience_ms=PATIENCE_MS
        )
        self._member = EndlessMember(servers, topic, GROUP, "java-member", directory, jars)

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Pause the producer in this block; records that are on their way still arrive."""
        self._producer.process.pause()
        try:
            yield
        finally:
            self._producer.process.resume()

    def end_producer(self) -> list[str]:
        """Let the producer end; return what is wrong. What was sent is acknowledged by then."""
        return [*self._producer.stop(), *self._producer.problems()]

    def stop(self) -> None:
        """Let the producer end, as `end_producer` does. Raises AssertionError if something is wrong."""
        problems = self.end_producer()
        assert not problems, "; ".join(problems[:5])

    def end_consumer(self, evidence: Evidence) -> list[str]:
        """Let the consumer read all that a client of today has read, and end; return what is wrong with its end."""
        wanted = {
            str(message).encode()
            for (topic, _, _), records in evidence.read_today.items()
            for _, message in records
            if topic == self._topic
        }

        def is_read() -> bool:
            return not self._member.process.running or wanted <= {line.value for line in self._lines()}

        with suppress(AssertionError):  # the account says what is missing
            eventually(is_read, READ_S, what="the Java consumer's end", sleep=lambda _: time.sleep(_POLL_S))
        problems = [*self._member.stop()]
        evidence.endless[self._topic] = [*self._lines()]
        return problems

    def note_sent(self, evidence: Evidence) -> None:
        """Add what the producer was told."""
        for record in self._producer.acknowledged():
            known = identify(record.value)
            assert known is not None, record
            message, _ = known
            evidence.sent.append(Sent(message, self._topic, NO_KEY, "", record.at_s, "confirmed", record.at_s, 0))
            evidence.told[message] = self._topic, record.partition, record.offset

    def _lines(self) -> Iterator[Line]:
        """Yield what the consumer noted, with names of messages in place of their bytes."""
        for line in self._member.lines():
            if line.what == b"has":
                yield line
            else:
                known = identify(line.value)
                yield line._replace(value=str(known[0]).encode() if known else _NOBODY_SENT)

    def __enter__(self) -> Self:
        self._member.process.start()
        self._producer.process.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._producer.process.kill()
        self._member.process.kill()
