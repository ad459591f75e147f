"""Which brokers this gateway serves: one claim for each in ZooKeeper, trusted as long as the session is certain."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import gevent

from zk.clock import SYSTEM_CLOCK
from zk.errors import NodeHeld, ZkError
from zk.gateways import GatewayStatus
from zk.sessions import SessionLease

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka2011.gateway.catalogue import Catalogue
    from zk.client import ZkClient
    from zk.clock import Clock
    from zk.gateways import GatewayAddress

logger = logging.getLogger(__name__)

RETRY_S = 1.0


class Claims:
    """Claims its share of the live brokers. `on_lost` is called with a broker's id when it is served no more.

    `status` gives what `doctor` is to show of this gateway, and `may_serve` says which brokers it may serve.

    Gateways divide brokers as members of a group divide partitions: both are sorted, and each takes a run of them. What
    has been sent to a broker cannot be fenced; so a claim counts only while its session certainly lives.
    """

    def __init__(
        self,
        client: ZkClient,
        catalogue: Catalogue,
        address: GatewayAddress,
        on_lost: Callable[[int], object],
        clock: Clock = SYSTEM_CLOCK,
        status: Callable[[], GatewayStatus] = GatewayStatus,
        may_serve: Callable[[int], bool] = lambda _: True,
    ) -> None:
        self._client = client
        self._catalogue = catalogue
        self.address = address
        self._on_lost = on_lost
        self._clock = clock
        self._lease: SessionLease | None = None
        self._claimed: dict[int, GatewayAddress] = {}
        self._asked: set[int] = set()
        """Brokers that this session may have claimed: also those where ZooKeeper's answer was lost."""
        self._status = status
        self._may_serve = may_serve
        self._announced: GatewayStatus | None = None
        self._greenlets: list[gevent.Greenlet[..., None]] = []

    def start(self) -> None:
        """Claim brokers, and go on doing so."""
        self._look()
        self._greenlets = [gevent.spawn(self._repeat, self._look), gevent.spawn(self._repeat, self._renew)]

    def stop(self) -> None:
        """Give all claims back, if ZooKeeper answers."""
        gevent.killall(self._greenlets)
        if self._lease is not None:
            self._lease.end()
        self._claimed = {}
        try:
            self._catalogue.registry.retire(self.address.node_id)
            for broker_id in sorted(self._asked):
                self._catalogue.registry.release(broker_id)
        except ZkError as error:
            logger.debug("claims on brokers end with the session: %s", error)

    def holds(self, broker_id: int) -> bool:
        """Say whether this gateway certainly serves a broker now."""
        return broker_id in self._claimed and self.certain_session_id() is not None

    def certain_session_id(self) -> int | None:
        """Return the session in ZooKeeper while it certainly lives, else None."""
        lease = self._lease
        return lease.session_id if lease is not None and self._clock.monotonic_s() < lease.until_s else None

    def leader(self, broker_id: int) -> GatewayAddress | None:
        """Return the gateway that serves a broker, with the broker's node id; None while none does."""
        return self._claimed.get(broker_id) or self._catalogue.claims.get(broker_id)

    def _repeat(self, work: Callable[[], None]) -> None:
        while True:
            gevent.sleep(RETRY_S if self._lease is None else min(RETRY_S, self._lease.renew_interval_s))
            try:
                work()
            except Exception:
                logger.exception("claims on brokers cannot be looked after")

    def _renew(self) -> None:
        """Keep the session certain also while ZooKeeper takes long to answer what `_look` asks."""
        try:
            if self._lease is not None:
                self._lease.renew()
        except ZkError as error:
            logger.debug("the session is not certain for now: %s", error)

    def _look(self) -> None:
        session_id = self._client.session_id
        if session_id is None:
            return
        try:
            if self._lease is None or self._lease.session_id != session_id:
                self._lose_all()
                self._lease = SessionLease(self._client, session_id)
                self._announced = None
                self._announce()
            self._lease.renew()
            share = self._share()
            for broker_id in sorted(self._asked - share):
                self._give_up(broker_id)
            for broker_id in sorted(share - self._claimed.keys()):
                self._claim(broker_id)
        except ZkError as error:
            logger.warning("no claim can be made or kept for now: %s", error)

    def _announce(self) -> None:
        try:
            status = self._status()
            self._catalogue.registry.announce(self.address.node_id, status)
        except NodeHeld as error:  # of an earlier process at this address, until its session ends
            logger.debug("others know of this gateway by its old session: %s", error)
            self._announced = None
        else:
            self._announced = status

    def _share(self) -> set[int]:
        """Return the brokers that are this gateway's, of those that live or are served by a gateway.

        One that restarts stays where it is, and so do all others.
        """
        if self._announced != self._status():
            self._announce()
        gateways = sorted({*self._catalogue.registry.live(), self.address.node_id})
        brokers = sorted({*self._catalogue.brokers, *self._catalogue.claims, *self._claimed})
        each, rest = divmod(len(brokers), len(gateways))
        place = gateways.index(self.address.node_id)
        begin = place * each + min(place, rest)
        return set(filter(self._may_serve, brokers[begin : begin + each + (place < rest)]))

    def _give_up(self, broker_id: int) -> None:
        """Let another gateway serve a broker, once nothing more is sent to it from here."""
        if self._claimed.pop(broker_id, None) is not None:
            self._on_lost(broker_id)
        self._catalogue.registry.release(broker_id)
        self._asked.discard(broker_id)
        logger.info("broker %d goes to another gateway", broker_id)

    def _claim(self, broker_id: int) -> None:
        registry, address = self._catalogue.registry, self.address
        node_id = registry.node_id(address.host, address.port, broker_id)
        served_at = address._replace(node_id=node_id, gateway_id=address.node_id)
        self._asked.add(broker_id)
        try:
            registry.claim(broker_id, served_at)
        except NodeHeld as error:
            self._asked.discard(broker_id)
            logger.debug("broker %d is served by another gateway: %s", broker_id, error)
        else:
            self._claimed[broker_id] = served_at
            logger.info("this gateway serves broker %d", broker_id)

    def _lose_all(self) -> None:
        lost, self._claimed = self._claimed, {}
        self._asked.clear()
        for broker_id in lost:
            logger.warning("the claim on broker %d went with its session", broker_id)
            self._on_lost(broker_id)
