"""The clocks of brokers, each beside ZooKeeper's: an independent clock tells a broker whether its own is right.

    /brokers/clocks/{id}    ephemeral    what a broker's wall clock says, and why it deletes nothing by age

A broker writes its node now and then; the time of the write is ZooKeeper's.
"""

from __future__ import annotations

import json
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from zk import paths
from zk.cluster import broker_id_from, text_from
from zk.errors import MalformedNode, NodeExists, NoNode
from zk.malformed import MalformedNodes
from zk.nodes import Nodes

if TYPE_CHECKING:
    from zk.client import ZkClient
    from zk.nodes import Node

logger = logging.getLogger(__name__)


class BrokerClock(NamedTuple):
    """What a broker's wall clock says, in ms since the epoch. `obstacle` says why retention does not go by it."""

    wall_ms: int
    obstacle: str = ""

    @property
    def text(self) -> str:
        """What stands in the znode."""
        return json.dumps({"wall_ms": self.wall_ms, "obstacle": self.obstacle})


class ComparedClock(NamedTuple):
    """A broker's clock, and what ZooKeeper's said when the broker wrote it, in ms since the epoch."""

    clock: BrokerClock
    zookeeper_ms: int

    @property
    def ahead_ms(self) -> int:
        """How far the broker's clock is ahead; negative: behind. Too low by what the write took."""
        return self.clock.wall_ms - self.zookeeper_ms


class BrokerClockRegistry:
    """Reads and writes /brokers/clocks. Every method raises ZkUnavailable when ZooKeeper does not answer."""

    def __init__(self, client: ZkClient, session_id: int | None = None) -> None:
        self._nodes = Nodes(client, session_id)
        self.malformed = MalformedNodes(logger)

    def note(self, broker_id: int, clock: BrokerClock) -> int:
        """Write a broker's clock, and return what ZooKeeper's says, in ms since the epoch.

        The node ends with the session that made it: another one makes it again.
        """
        path, data = paths.broker_clock(broker_id), clock.text.encode()
        while True:
            with suppress(NoNode):
                return self._nodes.write(path, data).modified_ms
            with suppress(NodeExists):
                self._nodes.create_with_parents(path, data, ephemeral=True)

    def clocks(self) -> dict[int, ComparedClock]:
        """Return the clocks of living brokers that note them, by broker id."""
        clocks: dict[int, ComparedClock] = {}
        for name, node in self._nodes.read_children(paths.BROKER_CLOCKS).items():
            try:
                clocks[broker_id_from(node.path, name)] = ComparedClock(_clock_from(node), node.modified_ms)
            except MalformedNode as error:
                self.malformed.skip(error)
        return dict(sorted(clocks.items()))


def _clock_from(node: Node) -> BrokerClock:
    text = text_from(node.path, node.data)
    try:
        document = json.loads(text)
        clock = BrokerClock(document["wall_ms"], document["obstacle"])
    except (ValueError, RecursionError, TypeError, KeyError) as error:
        raise MalformedNode(node.path, text, "not a broker's clock") from error
    if type(clock.wall_ms) is not int or not isinstance(clock.obstacle, str):
        raise MalformedNode(node.path, text, "not a broker's clock")
    return clock
