"""The witness: a second connection beside one with a suspect set; if only that one ends, the set is to blame."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka2011.errors import BrokerConnectionError, ProtocolError
from kafka2011.producer.producer_connection import ProducerConnection

if TYPE_CHECKING:
    from kafka2011.config import ProducerConfig
    from zk.cluster import Broker


class Witness:
    """A connection that the broker was proven to serve, while it is being found out which set the broker refuses."""

    def __init__(self, config: ProducerConfig, answer_timeout_s: float) -> None:
        self._config = config
        self._answer_timeout_ms = int(answer_timeout_s * 1000)
        self.connection: ProducerConnection | None = None

    def bring(self, broker: Broker) -> None:
        """Have one to this broker. Raises BrokerConnectionError and ProtocolError."""
        connection = self.connection
        if connection is None or not connection.is_open or connection.broker != broker:
            self.let_go()
            self.connection = ProducerConnection(broker, self._config, self._answer_timeout_ms)
            self.connection.open()
            self.connection.prove()

    def lives(self) -> bool:
        """Say whether there is one, and the broker still serves it."""
        if self.connection is None or not self.connection.is_open:
            return False
        try:
            self.connection.prove()
        except (BrokerConnectionError, ProtocolError):
            return False
        return True

    def let_go(self) -> None:
        """Close it, if there is one."""
        if self.connection is not None:
            self.connection.close()
