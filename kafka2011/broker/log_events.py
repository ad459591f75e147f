"""Passes on what happens to a broker's logs: to flushes, parked requests, replicas and ZooKeeper."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafka2011.broker.flushing.flush_scheduler import FlushScheduler
    from kafka2011.broker.registration import BrokerRegistration
    from kafka2011.broker.replication.replication import Replication
    from kafka2011.broker.requests.parking import Parking
    from kafka2011.log.log import Log


class LogEvents:
    """What the logs call; nothing here waits. `registration` and `replication` are there before a log is opened."""

    registration: BrokerRegistration
    replication: Replication | None = None

    def __init__(self, flushes: FlushScheduler, parking: Parking) -> None:
        self._flushes = flushes
        self._parking = parking

    def request_flush(self, log: Log) -> None:
        """Flush a log soon, since as many messages wait as its settings allow, or since a client waits."""
        if self.replication is not None:
            self.replication.note_appended(log)
        self._flushes.request(log)

    def note_appended(self, log: Log) -> None:
        """Pass on an append, and have no more appends to this log told unless a reader or a follower waits."""
        is_led = self.replication is not None and self.replication.note_appended(log)
        if not self._flushes.note_appended(log) and not is_led:
            log.is_awaited = False

    def note_readable(self, log: Log) -> None:
        """End the waits of those who can read what they wait for."""
        self._parking.note_readable(log)

    def note_flushed(self, log: Log) -> None:
        """Let followers and clients of a log with copies know what is on this disk."""
        if self.replication is not None:
            self.replication.note_flushed(log)

    def note_new_topic(self, topic: str, partitions: int) -> None:
        """Have a topic registered that has got its first log."""
        self.registration.topic_added(topic, partitions)
