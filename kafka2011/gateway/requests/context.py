"""What a request is handled with: the client, and the parts of the gateway."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from kafka2011.broker.security.access import CONSUME, GROUPS
from kafka2011.config.kinds import GROUP_NAME
from kafka2011.gateway.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable

    from kafka2011.config import GatewayConfig
    from kafka2011.gateway.catalogue import Catalogue
    from kafka2011.gateway.claims import Claims
    from kafka2011.gateway.groups.claims import GroupClaims
    from kafka2011.gateway.groups.coordinator import Coordinator
    from kafka2011.gateway.groups.directory import GroupDirectory
    from kafka2011.gateway.groups.lookups import Lookups
    from kafka2011.gateway.groups.offsets import GroupOffsets
    from kafka2011.gateway.partitions import Partitions, Served
    from kafka2011.gateway.topic_changes import TopicChanges
    from zk.gateways import GatewayAddress

_LIBRDKAFKA = re.compile(r"rdkafka[ -](\d+)\.(\d+)")
"""The version of librdkafka in the text of librdkafka itself, or of a client that is built on it."""
_SEVERAL_NODES_SINCE = (2, 4)

Body: TypeAlias = dict[str, Any]
"""The fields of a request or a response by their names in the protocol, in snake_case."""


@dataclass(frozen=True, slots=True)
class Gateway:
    """The parts of a gateway that requests need. `address` is where clients reach it."""

    config: GatewayConfig
    catalogue: Catalogue
    claims: Claims
    partitions: Partitions
    topic_changes: TopicChanges
    group_claims: GroupClaims
    coordinator: Coordinator
    group_directory: GroupDirectory
    group_offsets: GroupOffsets
    lookups: Lookups
    address: GatewayAddress
    counts: Counter[str]

    def address_for(self, caller: Caller, other: GatewayAddress | None = None) -> tuple[str, int]:
        """Return the host and port where a caller reaches this gateway or another one: over TLS as now, if so."""
        address = other or self.address
        over_tls = caller.is_secured and address.tls_port is not None
        return address.host, address.tls_port if over_tls and address.tls_port is not None else address.port

    @property
    def served_brokers(self) -> list[int]:
        """The brokers that are there and whose partitions this gateway serves."""
        return [broker_id for broker_id in self.catalogue.brokers if self.claims.holds(broker_id)]


@dataclass(slots=True)
class Caller:
    """Who asks: its principal, its address, its id, the version of its request, and what it may do.

    `software` is what its ApiVersions request says, the client's name and version; "" if it does not. `reserve` takes
    memory for an answer with records, and returns how large it may be.
    """

    principal: str
    name: str
    is_secured: bool
    may_use: Any
    client_id: str = ""
    version: int = 0
    software: str = ""
    reserve: Callable[[int], int] = int

    @property
    def host(self) -> str:
        """The address that it has connected from."""
        return self.name.rpartition(":")[0] or self.name

    @property
    def takes_one_node_per_address(self) -> bool:
        """The client may fail when several nodes have one address.

        An old librdkafka goes back and forth between them. KafkaJS, which does not name itself, sends what is for any
        of them over one connection, so its fetch from a broker that has nothing new holds up those from the others.
        """
        found = _LIBRDKAFKA.search(self.software)
        return not self.software or (found is not None and (int(found[1]), int(found[2])) < _SEVERAL_NODES_SINCE)

    def may(self, what: str, name: str) -> bool:
        """Say whether it may produce to a topic, consume from it, or use a group."""
        return self.may_use is None or bool(self.may_use(self.principal, what, name))


def group_error(caller: Caller, group: str) -> ErrorCode:
    """Say why a caller cannot use a group: its name must be one of 0.7, and the file must allow it."""
    try:
        is_name = GROUP_NAME.read(group) == group != ""
    except ValueError:
        is_name = False
    if not is_name:
        return ErrorCode.INVALID_GROUP_ID
    return ErrorCode.NONE if caller.may(GROUPS, group) else ErrorCode.GROUP_AUTHORIZATION_FAILED


def find_readable(gateway: Gateway, caller: Caller, topic: str, number: int) -> Served | ErrorCode:
    """Return a partition that a caller may consume from, or why it cannot have it."""
    if not caller.may(CONSUME, topic):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return gateway.partitions.find(topic, number)
