"""Brokers that a gateway does not serve, since it would let in whom they keep out; and its status for `doctor`."""

from __future__ import annotations

import pytest

from kafka2011.config import GatewayConfig
from kafka2011.gateway.guarded_brokers import fault_of
from tests.planted.patches import Defect, read_defects
from tests.planted.planting import planted
from zk.errors import MalformedNode
from zk.gateways import BrokerFault, GatewayStatus

GUARDED = {"tls.only": "true", "allow.file": "/etc/allow.toml"}
OPEN = {"tls.only": "false", "allow.file": "", "num.partitions": "1"}


def config(**more: object) -> GatewayConfig:
    given = {"zk.connect": "a:1", "directory": "/d", "advertised.host": "a", **more}
    return GatewayConfig.from_properties({key.replace("_", "."): str(value) for key, value in given.items()})


def refused(settings: dict[str, str], **more: object) -> list[str]:
    """Return which of the broker's settings are named."""
    fault = fault_of(config(**more), settings)
    return [] if fault is None else [name for name in GUARDED if name in fault.remedy]


def test_a_broker_is_served_by_a_gateway_that_keeps_out_the_same() -> None:
    assert refused(OPEN) == refused({}) == []
    assert refused(GUARDED) == [*GUARDED]
    assert refused(GUARDED, allow_file="/etc/mine.toml") == ["tls.only"]
    assert refused({**OPEN, "allow.file": "/etc/allow.toml"}) == ["allow.file"]


def test_a_setting_says_that_it_is_meant() -> None:
    assert refused(GUARDED, serve_guarded_brokers="true") == []


@pytest.mark.parametrize("defect", read_defects("gateway_guarded").values(), ids=lambda defect: defect.name)
def test_each_defect_is_noticed(defect: Defect) -> None:
    with planted(defect), pytest.raises(AssertionError):
        globals()[defect.shows["noticed_by"]]()


@pytest.mark.parametrize(
    "status",
    [
        GatewayStatus(),
        GatewayStatus("/d: full"),
        GatewayStatus("", {2: BrokerFault("slow", "flush"), 1: BrokerFault("a", "b")}),
    ],
)
def test_what_a_gateway_says_of_itself_is_read_back(status: GatewayStatus) -> None:
    assert GatewayStatus.from_node("/gateway/ids/1", status.text.encode()) == status


@pytest.mark.parametrize("text", [b"/d: full", b"{}", b"[]", b'{"directory": "", "brokers": {"x": ["a", "b"]}}'])
def test_what_no_gateway_writes_is_malformed(text: bytes) -> None:
    with pytest.raises(MalformedNode):
        GatewayStatus.from_node("/gateway/ids/1", text)
