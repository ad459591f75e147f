"""Brokers that keep clients out whom this gateway would let in: it serves them only where a setting says so."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zk.gateways import BrokerFault

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafka2011.config import GatewayConfig

_GUARDS = {
    "tls.only": "takes connections over TLS only",
    "allow.file": "has rules about who may use which topics",
}
"""Settings of brokers that keep clients out; gateways have them by the same names."""


def fault_of(config: GatewayConfig, settings: Mapping[str, str]) -> BrokerFault | None:
    """Say why a gateway does not serve a broker with these settings; None if it may."""
    own = {"tls.only": config.tls_only, "allow.file": config.allow_file}
    open_ways = [name for name in _GUARDS if settings.get(name) not in {None, "", "false"} and not own[name]]
    if not open_ways or config.serve_guarded_brokers:
        return None
    return BrokerFault(
        " and ".join(f"it {_GUARDS[name]} ({name})" for name in open_ways)
        + ", and the gateway does not: whoever reaches the gateway would get in",
        f"set {' and '.join(open_ways)} at the gateway, or serve.guarded.brokers=true if that is what you want",
    )
