"""What a gateway asks another one, that serves a partition: places of numbers in its log, and numbers of places."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from kafka2011.errors import BrokerConnectionError, ProtocolError
from kafka2011.gateway.groups.places import CommitPlace
from kafka2011.gateway.links import BrokerLinks
from kafka2011.gateway.protocol.errors import ErrorCode
from kafka2011.gateway.protocol.fields import Api
from kafka2011.gateway.protocol.frames import read_response, write_request
from zk.cluster import Broker

if TYPE_CHECKING:
    from zk.gateways import GatewayAddress

CLIENT_ID = "gateway"
MOST_PEERS = 64


class Looked(NamedTuple):
    """What was found: a number or a place, or why not. Number -1: the place is behind the end of the log."""

    error: ErrorCode
    number: int = -1
    place: CommitPlace = CommitPlace(0)


class Peers:
    """Asks other gateways. `security` is the file with the settings of TLS for them. `stop` closes all connections."""

    def __init__(self, security: str, timeout_s: float) -> None:
        self._security = security
        self._timeout_s = timeout_s
        self._links: dict[GatewayAddress, BrokerLinks] = {}

    def look(self, address: GatewayAddress, topic: str, partition: int, number: int, place: CommitPlace) -> Looked:
        """Ask a gateway for the place of a number, or for the number of a place if `number` is -1.

        Raises BrokerConnectionError if it does not answer, or answers nonsense.
        """
        asked = {"topic": topic, "partition": partition, "number": number, **place._asdict()}
        frame = b"".join(write_request(Api.PLACES, 0, 0, CLIENT_ID, {"places": [asked]}))
        with self._links_to(address).link() as link:
            link.send(frame)
            answer = link.receive()
            try:
                (found,) = read_response(Api.PLACES, 0, answer)["places"]
                return Looked(
                    ErrorCode(found["error_code"]), found["number"], CommitPlace(found["position"], found["within"])
                )
            except (ProtocolError, ValueError) as error:
                link.close()
                raise BrokerConnectionError(f"the gateway at {address.host}:{address.port}: {error}") from error

    def stop(self) -> None:
        """Close all connections."""
        for links in self._links.values():
            links.close()
        self._links.clear()

    def _links_to(self, address: GatewayAddress) -> BrokerLinks:
        links = self._links.get(address)
        if links is None:
            if len(self._links) >= MOST_PEERS:
                self.stop()
            is_secured = bool(self._security) and address.tls_port is not None
            port = address.tls_port if is_secured and address.tls_port is not None else address.port
            peer = Broker(address.node_id, address.host, port, security=self._security if is_secured else "")
            links = self._links[address] = BrokerLinks(peer, self._timeout_s)
        return links


def written(looked: Looked) -> dict[str, Any]:
    """Return the fields of an answer."""
    return {"error_code": looked.error, "number": looked.number, **looked.place._asdict()}
