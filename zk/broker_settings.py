"""The settings of brokers, as brokers publish them: gateways tell clients how a topic is kept.

/settings/{id}    ephemeral    JSON: a broker's settings, the text of each by its name
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

from zk import ephemeral, paths
from zk.cluster import broker_id_from, text_from
from zk.errors import MalformedNode
from zk.malformed import MalformedNodes
from zk.nodes import Nodes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zk.client import ZkClient

logger = logging.getLogger(__name__)

MOST_BYTES = 512 * 1024
"""The largest text of a broker's settings. ZooKeeper closes connections that send it 1 MiB."""


class BrokerSettingsRegistry:
    """Reads and writes /settings. Every method raises ZkUnavailable when ZooKeeper does not answer."""

    def __init__(self, client: ZkClient, session_id: int | None = None) -> None:
        self._nodes = Nodes(client, session_id)
        self.malformed = MalformedNodes(logger)

    def publish(self, broker_id: int, settings: Mapping[str, str], wait_ms: int = 0) -> None:
        """Publish a broker's settings in this session, as `BrokerRegistry.register` registers it."""
        data = json.dumps(settings).encode()
        if len(data) > MOST_BYTES:
            logger.warning("broker %d does not publish its settings: they take %d bytes", broker_id, len(data))
            return
        self._nodes.ensure_persistent(paths.SETTINGS)
        ephemeral.hold(self._nodes, paths.settings(broker_id), data, wait_ms)

    def settings(self) -> dict[int, dict[str, str]]:
        """Return the settings of all live brokers that publish them, by broker id."""
        found: dict[int, dict[str, str]] = {}
        for name, node in self._nodes.read_children(paths.SETTINGS).items():
            try:
                text = text_from(node.path, node.data)
                try:
                    document = json.loads(text)
                    found[broker_id_from(node.path, name)] = {key: str(value) for key, value in document.items()}
                except (ValueError, AttributeError, RecursionError) as error:
                    raise MalformedNode(node.path, text, "not a broker's settings") from error
            except MalformedNode as error:
                self.malformed.skip(error)
        return found
