"""`groups members`: who reads for a group, of 0.7 and of today."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from kafka2011.cli import groups
from tests.support.zk_in_memory import ZkClientInMemory
from zk.cluster import TopicPartition
from zk.consumers import ConsumerRegistry
from zk.gateway_members import GatewayMember, GatewayMemberRegistry
from zk.owners import OwnerRegistry

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Run the command against a group with two members, and return what it prints."""
    client: Any = ZkClientInMemory()
    consumers = ConsumerRegistry(client)
    for name in ("readers_host-1-a", "readers_m"):
        consumers.register("readers", name, '{ "views": 1 }')
    consumers.ensure_group("empty")
    GatewayMemberRegistry(client).register("readers", "readers_m", GatewayMember("m", "kcat", "10.0.0.1", "one"))
    for number in range(2):
        OwnerRegistry(client).claim("readers", TopicPartition("views", 0, number), "readers_m-0")
    monkeypatch.setattr(groups, "open_session", lambda _: client)

    def run(*arguments: str) -> Any:
        done = CliRunner().invoke(groups.command, ["members", *arguments], env={"ZOOKEEPER": "nowhere"})
        return done.output if done.exception is None else done.exception

    return run


def test_members_are_listed_with_client_address_and_partitions(shown: Callable[..., Any]) -> None:
    names = ("group", "member", "client_id", "address", "instance_id", "partitions", "subscription")
    expected = [
        ("readers", "readers_host-1-a", None, None, None, 0, '{ "views": 1 }'),
        ("readers", "readers_m", "kcat", "10.0.0.1", "one", 2, '{ "views": 1 }'),
    ]
    assert json.loads(shown("--json")) == [dict(zip(names, row, strict=True)) for row in expected]
    assert shown("--group", "empty") == "no members\n"
    assert "there is no group nosuch" in str(shown("--group", "nosuch"))
