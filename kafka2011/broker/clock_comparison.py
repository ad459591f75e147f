"""Compares a broker's wall clock with ZooKeeper's, so that retention knows whether it may go by age."""

from __future__ import annotations

import logging
from math import inf
from typing import TYPE_CHECKING

from kafka2011.log.clock_trust import NOT_COMPARED
from kafka2011.outages import Outages
from zk.errors import ZkError

if TYPE_CHECKING:
    from kafka2011.broker.registrar import BrokerRegistrar
    from kafka2011.broker.registration import BrokerRegistration
    from kafka2011.log.retention_clock import RetentionClock
    from zk.clock import Clock

logger = logging.getLogger(__name__)

LOOK_S = 5.0
"""How often it looks whether a comparison is due: a replica that has just begun to lead is compared soon."""
COMPARE_S = 60.0
BEFORE_PASS_S = 10.0
"""How old a comparison may be at a pass of retention, while ZooKeeper answers."""


class ClockComparison:
    """Has the broker's clock noted in ZooKeeper, and tells `retention_clock` what ZooKeeper's clock says in return.

    It does so through the registrar: so only a broker that is registered is compared, and of replicas the leader.
    """

    def __init__(self, retention_clock: RetentionClock, registration: BrokerRegistration, clock: Clock) -> None:
        self._retention_clock = retention_clock
        self._registration = registration
        self._clock = clock
        self._registrar: BrokerRegistrar | None = None
        self._compared_s = -inf
        self._outages = Outages(logger)

    def compare_when_due(self) -> None:
        """Compare once a minute, and soon after another registrar has registered the broker."""
        self._compare_unless_younger(COMPARE_S)

    def compare_before_pass(self) -> None:
        """Compare now, unless it was done in the last seconds."""
        self._compare_unless_younger(BEFORE_PASS_S)

    def _compare_unless_younger(self, age_s: float) -> None:
        registrar = self._registration.registrar
        if registrar is None or not registrar.is_registered:
            return
        if registrar is self._registrar and self._clock.monotonic_s() - self._compared_s < age_s:
            return
        obstacle = self._retention_clock.obstacle
        try:
            # That nothing was compared yet is over with this.
            text = "" if obstacle is None or obstacle.kind == NOT_COMPARED else obstacle.text
            zookeeper_ms = registrar.note_clock(self._clock.wall_s() * 1000, text)
        except ZkError as error:
            self._outages.failed("the wall clock was not compared with ZooKeeper's: %s", error)
            return
        self._outages.over()
        self._registrar, self._compared_s = registrar, self._clock.monotonic_s()
        self._retention_clock.compare(zookeeper_ms)
