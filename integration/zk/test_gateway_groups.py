"""What gateways keep of groups in ZooKeeper: which members are today's clients."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from zk import paths
from zk.errors import NodeHeld
from zk.gateway_members import GatewayMember, GatewayMemberRegistry
from zk.nodes import Nodes

if TYPE_CHECKING:
    from collections.abc import Callable

    from zk.client import ZkClient

MEMBER = GatewayMember("rdkafka-1234", "rdkafka", "127.0.0.1")


def test_a_member_is_known_as_long_as_its_gateway_says_so(client: ZkClient, new_client: Callable[[], ZkClient]) -> None:
    """Beside others of other gateways, and whatever stands there that cannot be read."""
    registry = GatewayMemberRegistry(client)
    assert registry.read("readers") == {}
    static = MEMBER._replace(instance_id="one", host="größe")
    registry.register("readers", "g_a", MEMBER)
    registry.register("readers", "g_a", static)
    Nodes(client).create(paths.gateway_member("readers", "g_b"), b'{"host": []}')
    other = new_client()
    GatewayMemberRegistry(other).register("readers", "g_c", MEMBER)
    with pytest.raises(NodeHeld):
        registry.register("readers", "g_c", MEMBER)
    assert registry.read("readers") == {"g_a": static, "g_c": MEMBER}
    assert registry.malformed.count == 1

    other.shutdown()
    assert registry.deregister("readers", "g_a")
    assert not registry.deregister("readers", "g_a")
    assert registry.read("readers") == {}
    registry.delete_group("readers")
    assert Nodes(client).children(paths.GATEWAY_MEMBERS) == []
