"""The brokers that this gateway serves, and the partitions that clients have asked for."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import gevent

from kafka2011.errors import BrokerConnectionError, KafkaError
from kafka2011.gateway.appends import Appender
from kafka2011.gateway.links import BrokerLinks
from kafka2011.gateway.partition_log import PartitionLog
from kafka2011.gateway.protocol.errors import ErrorCode
from kafka2011.gateway.tail import BrokerTail
from zk.gateways import BrokerFault

if TYPE_CHECKING:
    import uuid
    from collections.abc import Callable

    from kafka2011.config import GatewayConfig
    from kafka2011.gateway.catalogue import Catalogue
    from kafka2011.gateway.claims import Claims
    from kafka2011.gateway.numbering.partition_index import PartitionIndex
    from zk.cluster import Broker, TopicPartition
    from zk.gateways import PartitionList


logger = logging.getLogger(__name__)

CURRENT_S = 20.0
"""How long an answer waits until the end of a log is known: it may have to be read for that."""
SLOW_S = 0.5
"""`doctor` names a broker whose usual wait for an acknowledgement is this or longer."""


class _Served(NamedTuple):
    links: BrokerLinks
    tail: BrokerTail


@dataclass(frozen=True, slots=True)
class Served:
    """One partition in service: its log, and who appends to it."""

    log: PartitionLog
    appender: Appender
    tail: BrokerTail

    def want(self) -> None:
        """Have the end of its log followed for some time."""
        self.tail.want(self.log)


class Partitions:
    """Finds partitions by topic and number, and drops those whose broker is served no more or has moved."""

    def __init__(
        self,
        config: GatewayConfig,
        catalogue: Catalogue,
        claims: Claims,
        new_index: Callable[[PartitionLog], PartitionIndex],
    ) -> None:
        self._config = config
        self._catalogue = catalogue
        self._claims = claims
        self._new_index = new_index
        self._brokers: dict[int, _Served] = {}
        self._served: dict[TopicPartition, Served] = {}

    @property
    def logs(self) -> list[PartitionLog]:
        """The logs of all partitions that were asked for."""
        return [served.log for served in self._served.values()]

    def slow_brokers(self) -> dict[int, BrokerFault]:
        """Return the brokers at which clients wait long for each acknowledgement."""
        waits_s = {broker_id: served.tail.usual_wait_s for broker_id, served in self._brokers.items()}
        return {
            broker_id: BrokerFault(
                f"what clients send is acknowledged only after {SLOW_S:g} s or more, as a rule",
                "lower its log.default.flush.interval.ms and log.default.flush.scheduler.interval.ms (3000 by default"
                " in Kafka 0.7); if its disk is slow, see the metrics of flushes",
            )
            for broker_id, wait_s in waits_s.items()
            if wait_s >= SLOW_S
        }

    def find(self, topic: str, number: int) -> Served | ErrorCode:
        """Return a partition in service, or why it is in none."""
        known = self._catalogue.lists.get(topic)
        where = self._catalogue.partition(topic, number)
        if known is None or where is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if not self._catalogue.is_live(where) or not self._claims.holds(where.broker_id):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        served = self._served.get(where)
        if served is None or not _is_of(served.log, known):
            self._drop_log(where)
            served = self._served[where] = self._serve(where, number, known.topic_id)
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED if served.log.is_refused else served

    def known(self, topic: str, number: int) -> Served | None:
        """Return a partition that was asked for before, also while its broker is away; None for any other."""
        known = self._catalogue.lists.get(topic)
        where = self._catalogue.partition(topic, number)
        served = None if where is None else self._served.get(where)
        return served if known is not None and served is not None and _is_of(served.log, known) else None

    def drop_changed(self) -> None:
        """Drop what belongs to brokers that have another address now, and topics that are gone."""
        for broker_id, served in [*self._brokers.items()]:
            broker = self._catalogue.brokers.get(broker_id)
            if broker is not None and broker.address != served.links.broker.address:
                self.drop(broker_id)
        for where, partition in [*self._served.items()]:
            known = self._catalogue.lists.get(where.topic)
            if where.broker_id in self._catalogue.brokers and not self._catalogue.is_live(where):
                gevent.spawn(partition.log.release)
            if known is None or not _is_of(partition.log, known):
                self._drop_log(where)

    def _drop_log(self, where: TopicPartition) -> None:
        """Serve a log no more. If its topic was deleted and created again, the new log has higher numbers only."""
        served = self._served.pop(where, None)
        known = self._catalogue.lists.get(where.topic)
        if served is None or known is None or _is_of(served.log, known):
            return
        index = served.log.known_index
        if index is not None:
            self._catalogue.raise_floor(where.topic, served.log.number, index.reserved)

    def drop(self, broker_id: int) -> None:
        """Drop all that belongs to a broker."""
        served = self._brokers.pop(broker_id, None)
        if served is not None:
            served.tail.stop()
            served.links.close()
        for where in [where for where in self._served if where.broker_id == broker_id]:
            del self._served[where]

    def stop(self) -> None:
        """Drop everything, and store what is known of numbers."""
        for log in self.logs:
            try:
                log.store()
            except (KafkaError, OSError) as error:
                logger.warning("the numbers of %s will be counted again at the next start: %s", log.where, error)
        for broker_id in [*self._brokers]:
            self.drop(broker_id)

    def _serve(self, where: TopicPartition, number: int, topic_id: uuid.UUID) -> Served:
        broker = self._broker(where.broker_id)
        timeout_s = self._config.request_timeout_ms / 1000
        log = PartitionLog(
            where,
            number,
            topic_id,
            self._catalogue.floors(where.topic),
            lambda: self._broker(where.broker_id).links,
            self._new_index,
            self._config.max_socket_request_bytes,
        )
        appender = Appender(log, broker.links, broker.tail, lambda: self._is_in_service(log), timeout_s)
        return Served(log, appender, broker.tail)

    def _is_in_service(self, log: PartitionLog) -> bool:
        """Say whether a log is still the one in service: a claim may be lost and won again, and a broker may move."""
        served = self._served.get(log.where)
        return served is not None and served.log is log and self._claims.holds(log.where.broker_id)

    def _broker(self, broker_id: int) -> _Served:
        served = self._brokers.get(broker_id)
        if served is None:
            broker: Broker | None = self._catalogue.brokers.get(broker_id)
            if broker is None:
                raise BrokerConnectionError(f"broker {broker_id} is not registered")
            links = BrokerLinks(broker, self._config.request_timeout_ms / 1000)
            served = self._brokers[broker_id] = _Served(links, BrokerTail(links))
        return served


def _is_of(log: PartitionLog, known: PartitionList) -> bool:
    """Say whether a log belongs to a topic as it was created last."""
    return log.topic_id is known.topic_id or log.topic_id == known.topic_id


def await_current(served: Served, timeout_s: float = CURRENT_S) -> bool:
    """Wait until the end of a log is known; False if that takes too long, or the broker is away."""
    return await_end(served, lambda: False, timeout_s)


def await_end(served: Served, is_enough: Callable[[], bool], timeout_s: float = CURRENT_S) -> bool:
    """Wait until the end of a log is known, or as much of the log as is needed; False as for `await_current`."""
    ends_s = time.monotonic() + timeout_s
    served.want()  # if nobody has followed it lately, nothing is known of its end
    while not is_enough() and not served.log.is_current and not served.log.fault:
        changes = served.log.changes
        served.want()
        left_s = ends_s - time.monotonic()
        if left_s <= 0:
            return False
        changes.wait(min(left_s, 1.0))
    return served.log.is_current or is_enough()
