"""Places and numbers of partitions by their names: looked up here, or by the gateway that serves the partition."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, TypeAlias

from kafka2011.errors import BrokerConnectionError, KafkaError
from kafka2011.gateway.groups.peers import Looked
from kafka2011.gateway.groups.places import CommitPlace, CommitPlaces
from kafka2011.gateway.protocol.errors import ErrorCode
from zk.errors import ZkError

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka2011.gateway.catalogue import Catalogue
    from kafka2011.gateway.claims import Claims
    from kafka2011.gateway.groups.peers import Peers
    from kafka2011.gateway.partitions import Partitions, Served

logger = logging.getLogger(__name__)

UNAVAILABLE = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
"""What is answered while a broker, or the gateway that serves it, is away: clients ask again."""

TopicNumber: TypeAlias = tuple[str, int]
"""A partition as today's clients name it."""


class Lookups:
    """Looks up places of numbers, and numbers of places. Waits for brokers and other gateways."""

    def __init__(self, catalogue: Catalogue, claims: Claims, partitions: Partitions, peers: Peers) -> None:
        self._catalogue = catalogue
        self._claims = claims
        self._partitions = partitions
        self._peers = peers
        self._places = CommitPlaces()

    def place_of(self, name: TopicNumber, number: int, timeout_s: float) -> Looked:
        """Return the place of a number, or the nearest place, and the number that has this place."""
        return self._find(name, number, CommitPlace(0), timeout_s)

    def number_of(self, name: TopicNumber, place: CommitPlace, timeout_s: float) -> Looked:
        """Return the number of a place."""
        return self._find(name, -1, place, timeout_s)

    def find_here(self, name: TopicNumber, number: int, place: CommitPlace, timeout_s: float) -> Looked:
        """Look up a partition that this gateway serves, as `Peers.look` asks for it."""

        def find_number(served: Served) -> Looked:
            found = self._places.number_of(served, place, timeout_s)
            return Looked(ErrorCode.NONE, -1 if found is None else found, place)

        return self._in_service(name, find_number) if number < 0 else self._place_here(name, number, timeout_s)

    def _place_here(self, name: TopicNumber, number: int, timeout_s: float) -> Looked:
        """Return the place of a number; without its broker, of what clients were given before it went away."""
        served = self._partitions.known(*name)
        place = None if served is None else self._places.known_place_of(served.log, number)
        known = Looked(UNAVAILABLE) if place is None else Looked(ErrorCode.NONE, number, place)
        if served is not None and served.log.fault and not known.error:
            return known  # a broker that hangs would be waited for
        looked = self._in_service(
            name, lambda found: Looked(ErrorCode.NONE, *self._places.place_of(found, number, timeout_s))
        )
        return known if looked.error is UNAVAILABLE else looked

    def stop(self) -> None:
        """Close what was opened for it."""
        self._peers.stop()

    def _find(self, name: TopicNumber, number: int, place: CommitPlace, timeout_s: float) -> Looked:
        where = self._catalogue.partition(*name)
        if where is None:
            return Looked(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if not self._claims.holds(where.broker_id):
            leader = self._claims.leader(where.broker_id)
            if leader is None or leader.of_gateway == self._claims.address:
                return Looked(UNAVAILABLE)
            try:
                return self._peers.look(leader.of_gateway, *name, number, place)
            except BrokerConnectionError as error:
                logger.info("%s: a place in its log is not told: %s", where, error)
                return Looked(UNAVAILABLE)
        return self.find_here(name, number, place, timeout_s)

    def _in_service(self, name: TopicNumber, look_up: Callable[[Served], Looked]) -> Looked:
        served = self._partitions.find(*name)
        if isinstance(served, ErrorCode):
            return Looked(served if served is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION else UNAVAILABLE)
        try:
            return look_up(served)
        except (BrokerConnectionError, ZkError) as error:
            logger.info("%s: a place in its log cannot be told now: %s", served.log.where, error)
            return Looked(UNAVAILABLE)
        except (KafkaError, OSError) as error:
            logger.warning("%s: a place in its log cannot be told: %s", served.log.where, error)
            return Looked(UNAVAILABLE)
