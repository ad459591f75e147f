"""Who may join a group: session timeouts and assignment protocols, as settings allow them."""

from __future__ import annotations

import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kafka2011.config import GatewayConfig
from kafka2011.errors import ConfigError
from kafka2011.gateway.groups.coordinator import Joined
from kafka2011.gateway.groups.protocols import protocol_of
from kafka2011.gateway.protocol.consumer_protocol import write_subscription
from kafka2011.gateway.protocol.errors import ErrorCode
from kafka2011.gateway.requests.context import Body, Caller
from kafka2011.gateway.requests.members import join_group
from zk.gateway_members import GatewayMember


def ask(*protocols: str, session_ms: int = 6000, rebalance_ms: int = 60_000, **settings: Any) -> Body:
    """Return the answer to a JoinGroup; a member that may join is in generation 1."""
    config = GatewayConfig(zk_connect="127.0.0.1:1", directory=Path("unused"), **settings)
    gateway: Any = SimpleNamespace(
        config=config,
        group_claims=SimpleNamespace(coordinates=lambda _: True),
        coordinator=SimpleNamespace(join=lambda _group, _joining: Joined(ErrorCode.NONE, "m", 1)),
        catalogue=SimpleNamespace(partition=lambda *_: None),
    )
    body = {
        "group_id": "readers",
        "member_id": "",
        "session_timeout_ms": session_ms,
        "rebalance_timeout_ms": rebalance_ms,
        "protocol_type": "consumer",
        "protocols": [
            {"name": name, "metadata": write_subscription(["views"]) if name != "stream" else b"\xff"}
            for name in protocols
        ],
    }
    return join_group(gateway, Caller("me", "10.0.0.1:5", False, None, client_id="app", version=5), body)


@pytest.mark.parametrize("session_ms", [-1, 0, 100, 5999, 1_800_001])
def test_session_timeouts_have_bounds(session_ms: int) -> None:
    """They are Kafka's by default."""
    assert ask("range", session_ms=session_ms)["error_code"] == ErrorCode.INVALID_SESSION_TIMEOUT


def test_settings_move_the_bounds_of_session_timeouts() -> None:
    assert ask("range", session_ms=6000)["error_code"] == ErrorCode.NONE
    assert ask("range", session_ms=1_800_000)["error_code"] == ErrorCode.NONE
    assert ask("range", session_ms=100, group_min_session_timeout_ms=100)["error_code"] == ErrorCode.NONE
    refused = ask("range", session_ms=9000, group_max_session_timeout_ms=8000)
    assert refused["error_code"] == ErrorCode.INVALID_SESSION_TIMEOUT
    with pytest.raises(ConfigError, match=r"group\.min\.session\.timeout\.ms"):
        ask(group_min_session_timeout_ms=7000, group_max_session_timeout_ms=6999)


@pytest.mark.parametrize(
    "name",
    [
        *("range", "roundrobin", "sticky", "cooperative-sticky"),
        *("RoundRobinAssigner", "rack-affinity", "roundrobin_v2", "callback_implemented"),
    ],
)
def test_members_with_protocols_of_living_clients_join(name: str) -> None:
    answer = ask(name)
    assert (answer["error_code"], answer["protocol_name"]) == (ErrorCode.NONE, name)


def test_the_first_protocol_that_is_known_counts() -> None:
    assert ask("stream", "sticky", "range")["protocol_name"] == "sticky"


def test_a_member_whose_protocols_are_unknown_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    """It would be given an assignment without its own user data, and fail. The log says which one, and why."""
    with caplog.at_level(logging.WARNING):
        assert ask("stream", "faust")["error_code"] == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    [line] = caplog.messages
    assert all(part in line for part in ("readers", "app", "10.0.0.1:5", "stream, faust", "group.protocols"))


def test_a_setting_adds_protocols() -> None:
    assert ask("mine", group_protocols="other, mine")["protocol_name"] == "mine"
    assert ask("mine", group_protocols="other")["error_code"] == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_group_has_the_protocol_of_most_of_todays_clients() -> None:
    """Members of 0.7, and of gateways that do not note it, have none."""

    def client(protocol: str) -> GatewayMember:
        return GatewayMember("m", "c", "h", protocol=protocol)

    assert protocol_of([None, client("")]) == "range"
    assert protocol_of([None, client("sticky"), client(""), client("roundrobin"), client("sticky")]) == "sticky"
    assert protocol_of([client("sticky"), client("roundrobin")]) == "roundrobin"


def test_what_older_gateways_wrote_of_a_member_is_read() -> None:
    """They read what is written now as well, since they take only the fields that they know."""
    old = b'{"member_id": "m", "client_id": "c", "host": "h", "instance_id": null}'
    assert GatewayMember.from_node("/m", old) == GatewayMember("m", "c", "h")
    new = GatewayMember("m", "c", "h", "one", "sticky")
    assert GatewayMember.from_node("/m", new.text.encode()) == new
