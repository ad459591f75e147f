"""Follows the ends of one broker's logs: one fetch that waits at the broker, for all partitions that somebody wants."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

import gevent
from gevent.event import Event

from kafka2011.errors import BrokerConnectionError, ErrorCodes, KafkaError, OffsetOutOfRangeError
from kafka2011.gateway.links import BARRIER
from kafka2011.gateway.partition_log import FETCH_BYTES
from kafka2011.wire.protocol import FetchRequest, FetchWait, MultiFetchRequest, decode_multifetch_body, encode_request
from zk.errors import ZkError

if TYPE_CHECKING:
    from kafka2011.gateway.links import BrokerLink, BrokerLinks
    from kafka2011.gateway.partition_log import PartitionLog

logger = logging.getLogger(__name__)

WAIT_S = 10.0
RETRY_S = 0.2
FETCHED_BYTES = 16 * 1024 * 1024
"""The most that one request asks for, of all partitions together."""
TURN_S = 0.02
LEAST_BYTES = 64 * 1024
MOST_PARTS = 1000
WANTED_S = 30.0
"""How long the end of a log is followed after somebody has asked for it."""


class BrokerTail:
    """Follows the logs of one broker, each as long as it is wanted. `connections` counts its connections."""

    def __init__(self, links: BrokerLinks) -> None:
        self._links = links
        self._link: BrokerLink = links.new()
        self._logs: dict[PartitionLog, None] = {}
        self._wanted = Event()
        self._is_parked = False
        self._nudges = 0
        self.connections = 0
        self._greenlet = gevent.spawn(self._run)

    def want(self, log: PartitionLog) -> None:
        """Follow a log from now on, for some time."""
        log.wanted_until_s = time.monotonic() + WANTED_S
        if log not in self._logs:
            log.is_current = False
            self._logs[log] = None
            self._wanted.set()
        if not log.is_current:
            self._nudge()

    def stop(self) -> None:
        """Follow nothing any more."""
        self._greenlet.kill()
        self._link.close()
        for log in self._logs:
            log.note_outage("the gateway serves this broker no more")

    def _nudge(self) -> None:
        """End the wait of the request that is parked at the broker."""
        if self._is_parked and not self._nudges:
            self._nudges += 1
            try:
                self._link.send(BARRIER)
            except BrokerConnectionError as error:
                logger.debug("the tail of broker %d cannot be woken: %s", self._links.broker.id, error)

    def _run(self) -> None:
        while True:
            now_s = time.monotonic()
            for log in [log for log in self._logs if log.wanted_until_s <= now_s]:
                log.is_current = False
                del self._logs[log]
            if not self._logs:
                self._wanted.clear()
                self._wanted.wait()
                continue
            try:
                logs = [*self._logs][:MOST_PARTS]
                if len(self._logs) > MOST_PARTS:  # they take turns, and none waits at the broker
                    for log in logs:
                        self._logs[log] = self._logs.pop(log)
                    gevent.sleep(TURN_S)
                self._look(logs)
            except (BrokerConnectionError, ZkError) as error:
                self._link.close()
                logger.info("broker %d: %s", self._links.broker.id, error)
                for log in [*self._logs]:
                    log.note_outage(str(error))
                gevent.sleep(RETRY_S)
            except Exception:
                logger.exception("the tail of broker %d", self._links.broker.id)
                gevent.sleep(RETRY_S)

    def _look(self, logs: list[PartitionLog]) -> None:
        logs = [log for log in logs if self._is_ready(log)]
        if not logs:
            return
        size = min(FETCH_BYTES, max(LEAST_BYTES, FETCHED_BYTES // len(logs)))
        fetches = tuple(
            FetchRequest(log.where.topic, log.where.partition, log.index().end.position, size) for log in logs
        )
        may_wait = len(logs) == len(self._logs) and all(log.is_current for log in logs)
        request = MultiFetchRequest(fetches, FetchWait(int(WAIT_S * 1000), 1) if may_wait else None)
        answers = self._ask(request, WAIT_S if may_wait else 0.0)
        for log, fetch, (error, data) in zip(logs, fetches, answers, strict=True):
            self._take(log, error, fetch.offset, data)

    def _is_ready(self, log: PartitionLog) -> bool:
        try:
            log.begin_following()
        except (BrokerConnectionError, ZkError):
            raise
        except (KafkaError, OSError) as failed:
            self._give_up(log, failed)
            return False
        return True

    def _ask(self, request: MultiFetchRequest, wait_s: float) -> list[tuple[int, bytes]]:
        link = self._link
        if not link.is_open:
            self.connections += 1
        try:
            link.send(encode_request(request))
            self._is_parked = wait_s > 0
            frame = link.receive(wait_s)
            self._is_parked = False
            while self._nudges:
                self._nudges -= 1
                link.receive()
        finally:
            self._is_parked = False
            self._nudges = 0
        return decode_multifetch_body(frame[2:], len(request.fetches))

    def _take(self, log: PartitionLog, error: int, position: int, data: bytes) -> None:
        try:
            if error == OffsetOutOfRangeError.code:
                log.check()
            elif error != ErrorCodes.NONE:
                raise ErrorCodes.error_for(error, f"a fetch at the end of {log.where} was refused")
            elif data:
                log.take(position, data)
            elif position == log.index().end.position:
                log.note_current()
        except (BrokerConnectionError, ZkError):
            raise
        except (KafkaError, OSError) as failed:  # such as a full disk: other partitions go on
            self._give_up(log, failed)

    def _give_up(self, log: PartitionLog, failed: Exception) -> None:
        """Follow a log no more until somebody wants it again."""
        logger.warning("%s cannot be followed: %s", log.where, failed)
        log.note_outage(str(failed))
        self._logs.pop(log, None)
