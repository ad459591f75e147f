"""Which groups this gateway coordinates: a claim for each in ZooKeeper, made when a client first asks for its group."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import gevent

from zk.clock import SYSTEM_CLOCK
from zk.errors import NotConnected, ZkError

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka2011.gateway.claims import Claims
    from zk.clock import Clock
    from zk.gateways import GatewayAddress, GatewayRegistry

logger = logging.getLogger(__name__)

LOOK_S = 1.0
IDLE_S = 60.0
"""After this time without a request of its members a group may go to another gateway."""


class GroupClaims:
    """Claims groups that nobody else coordinates. `on_lost` is called with a group that another gateway has got.

    A claim counts only while its session certainly lives, as `claims` says. In a new session what was claimed is
    claimed again.
    """

    def __init__(
        self,
        registry: GatewayRegistry,
        claims: Claims,
        address: GatewayAddress,
        on_lost: Callable[[str], object],
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._registry = registry
        self._claims = claims
        self._address = address
        self._on_lost = on_lost
        self._clock = clock
        self._claimed: dict[str, tuple[int, float]] = {}  # the session of each claim, and when it was last used
        self._greenlet: gevent.Greenlet[..., None] | None = None

    def start(self) -> None:
        """Look after claims from now on."""
        self._greenlet = gevent.spawn(self._run)

    def stop(self) -> None:
        """Give all claims back, if ZooKeeper answers."""
        if self._greenlet is not None:
            self._greenlet.kill()
        groups, self._claimed = list(self._claimed), {}
        for group in groups:
            if not self._release(group):
                break

    def find(self, group: str) -> GatewayAddress:
        """Return the gateway that coordinates a group: this one, if no other does. Raises ZkError.

        While its session may have ended, a gateway still names itself for what it has claimed, though it handles no
        request: clients then ask again, while franz-go would tell the application that there is no coordinator.
        """
        if group in self._claimed and self._claims.certain_session_id() is None:
            return self._address
        return self._address if self.holds(group) else self._claim(group) or self._address

    def coordinates(self, group: str) -> bool:
        """Say whether this gateway coordinates a group, now or from now on. Raises ZkError."""
        if not self.holds(group):
            self._claim(group)  # another gateway may have sent the client here, before this one was asked
        return self.holds(group)

    def holds(self, group: str) -> bool:
        """Say whether this gateway certainly coordinates a group now; if so, it keeps it for some time."""
        claimed = self._claimed.get(group)
        if claimed is None or claimed[0] != self._claims.certain_session_id():
            return False
        self._claimed[group] = claimed[0], self._clock.monotonic_s()
        return True

    def _claim(self, group: str) -> GatewayAddress | None:
        """Claim a group, and return the gateway that has it if another has."""
        session_id = self._claims.certain_session_id()
        if session_id is None:
            raise NotConnected("the session in ZooKeeper may have ended")
        holder = self._registry.claim_group(group, self._address)
        if holder is not None:
            if self._claimed.pop(group, None) is not None:
                logger.warning("another gateway coordinates group %s now", group)
                self._on_lost(group)
            return holder
        if group not in self._claimed:
            logger.info("this gateway coordinates group %s", group)
        self._claimed[group] = session_id, self._clock.monotonic_s()
        return None

    def _run(self) -> None:
        while True:
            gevent.sleep(LOOK_S)
            try:
                self.look()
            except ZkError as error:
                logger.warning("no claim on a group can be made or kept for now: %s", error)
            except Exception:
                logger.exception("claims on groups cannot be looked after")

    def look(self) -> None:
        """Claim again what was claimed in an earlier session, and let go what nobody uses. Raises ZkError."""
        session_id = self._claims.certain_session_id()
        if session_id is None:
            return
        idle_since_s = self._clock.monotonic_s() - IDLE_S
        for group, (claimed_in, used_s) in list(self._claimed.items()):
            if used_s < idle_since_s:
                del self._claimed[group]
                self._release(group)
            elif claimed_in != session_id:
                self._claim(group)

    def _release(self, group: str) -> bool:
        try:
            self._registry.release_group(group)
        except ZkError as error:
            logger.debug("the claim on group %s ends with the session: %s", group, error)
            return False
        return True
