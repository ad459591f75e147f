"""DescribeConfigs and AlterConfigs: settings of topics and of brokers. They are in the brokers' files."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from kafka2011.broker.security.access import PRODUCE
from kafka2011.config import BrokerConfig
from kafka2011.config.kinds import ZK_CONNECT, Boolean, Decimal, Directory, File, Integer, TopicMap
from kafka2011.errors import ConfigError
from kafka2011.gateway.protocol.errors import ErrorCode
from kafka2011.log.log_settings import LogSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from kafka2011.gateway.requests.context import Body, Caller, Gateway

logger = logging.getLogger(__name__)

_TOPIC = 2
_BROKER = 4
_FROM_FILE, _DEFAULT = 4, 5
"""The protocol's numbers for the source of a value."""
_FIXED = {"cleanup.policy": "delete", "message.timestamp.type": "CreateTime"}
_FIXED_OF_BROKERS = {"default.replication.factor": "1"}
"""Broker settings that Kafka's clients request and that do not exist here: clients do not see the replicas of a log."""
_APPLIED: dict[str, Callable[[BrokerConfig, LogSettings], float]] = {
    "flush.messages": lambda _, log: log.flush_interval,
    "flush.ms": lambda _, log: log.flush_interval_ms,
    "max.message.bytes": lambda config, _: config.max_message_size,
    "min.insync.replicas": lambda config, _: config.min_insync_replicas,
    "retention.bytes": lambda _, log: log.retention_bytes,
    "retention.ms": lambda _, log: log.retention_ms,
    "segment.bytes": lambda _, log: log.max_segment_bytes,
    "segment.ms": lambda _, log: log.roll_ms,
}
"""The settings that a broker applies to a topic, by Kafka's names."""
_SET_BY = {
    "flush.messages": "log.flush.interval",
    "flush.ms": "log.default.flush.interval.ms",
    "max.message.bytes": "max.message.size",
    "retention.bytes": "log.retention.size",
    "retention.ms": "log.retention.hours",
    "segment.bytes": "log.file.size",
    "segment.ms": "log.roll.hours",
}
"""The brokers' own names of these settings, where they differ."""
_STRING, _LONG = 2, 5
_TYPES: dict[type | None, int] = {Boolean: 1, Integer: _LONG, Decimal: 6, TopicMap: 7}
"""The protocol's numbers for the types of values: all numbers are of 64 bits, and a value for each topic is a list."""


def describe_configs(gateway: Gateway, caller: Caller, body: Body) -> Body:
    """Describe topics' settings by Kafka's names, and brokers' settings by their own."""
    results = []
    for resource in body["resources"]:
        kind, name = resource["resource_type"], resource["resource_name"]
        known = gateway.catalogue.lists.get(name)
        error, configs = ErrorCode.NONE, []
        if kind == _BROKER:
            configs = _described(_of_node(gateway, name), body.get("include_documentation", False))
        elif kind != _TOPIC:
            error = ErrorCode.INVALID_REQUEST
        elif not caller.may(PRODUCE, name):
            error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif known is None:
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        else:
            of_topic = _of_topic(gateway, name, {where.broker_id for where in known.partitions})
            configs = _described(of_topic, body.get("include_documentation", False))
        wanted = resource.get("configuration_keys")
        results.append(
            {
                "error_code": error,
                "resource_type": kind,
                "resource_name": name,
                "configs": [config for config in configs if wanted is None or config["name"] in wanted],
            }
        )
    return {"results": results}


def refuse_configs(_gateway: Gateway, _caller: Caller, body: Body) -> Body:
    """Refuse AlterConfigs: settings are in the brokers' files."""
    text = "settings are in the brokers' files here"
    return {
        "responses": [
            {
                "error_code": ErrorCode.INVALID_REQUEST,
                "error_message": text,
                "resource_type": resource["resource_type"],
                "resource_name": resource["resource_name"],
            }
            for resource in body["resources"]
        ]
    }


def unmet_config(gateway: Gateway, topic: str, configs: Collection[Body]) -> str:
    """Say which setting a topic that is to be created cannot have; "" if all brokers apply what is asked for."""
    by_broker = _of_topic(gateway, topic, gateway.catalogue.brokers) if configs else {}
    for config in configs:
        name, wanted = config["name"], config["value"]
        applied = {settings.get(name) for settings in by_broker.values()}
        if applied <= {wanted}:
            continue
        known = " or ".join(sorted(value or "an unknown value" for value in applied))
        return f"a topic cannot be created with {name}={wanted}: the brokers apply {known}"
    return ""


def _of_topic(gateway: Gateway, topic: str, broker_ids: Collection[int]) -> dict[int, Mapping[str, str | None]]:
    """Return the settings that each broker applies to a topic; None where a broker does not publish its own."""
    configs = _configs_of(gateway, broker_ids)
    return {broker_id: _applied(gateway, topic, configs.get(broker_id)) for broker_id in sorted(broker_ids)}


def _applied(gateway: Gateway, topic: str, config: BrokerConfig | None) -> dict[str, str | None]:
    most_bytes = gateway.config.max_message_size
    if config is None:
        return {**dict.fromkeys(_APPLIED), **_FIXED, "max.message.bytes": str(most_bytes)}
    log = LogSettings.of(config, topic)
    applied = {name: round(value(config, log)) for name, value in _APPLIED.items()}
    applied["max.message.bytes"] = min(applied["max.message.bytes"], most_bytes)
    return {**{name: str(value) for name, value in applied.items()}, **_FIXED}


def _of_node(gateway: Gateway, node_id: str) -> dict[int, Mapping[str, str | None]]:
    """Return the settings of the broker that has a node id, of the brokers of the gateway that has it, or of all."""
    brokers = gateway.catalogue.brokers
    leaders = {broker_id: gateway.claims.leader(broker_id) for broker_id in brokers}
    served = [
        broker_id
        for broker_id, leader in leaders.items()
        if leader is not None and node_id in {str(leader.node_id), str(leader.of_gateway.node_id)}
    ]
    shown = [item for item in BrokerConfig.settings() if not _is_hidden(item.kind)]
    return {
        broker_id: {**{item.key: item.kind.write(getattr(config, item.name)) for item in shown}, **_FIXED_OF_BROKERS}
        for broker_id, config in sorted(_configs_of(gateway, served or brokers).items())
    }


def _is_hidden(kind: object) -> bool:
    """Say whether clients are not shown a setting: files of a broker's machine, and ZooKeeper's address."""
    return isinstance(kind, (Directory, File)) or kind is ZK_CONNECT


def _configs_of(gateway: Gateway, broker_ids: Collection[int]) -> dict[int, BrokerConfig]:
    """Return the settings of those brokers that publish them; names that this version does not know are left out."""
    known = {item.key for item in BrokerConfig.settings()}
    configs = {}
    for broker_id, settings in gateway.catalogue.settings.items():
        if broker_id in broker_ids:
            try:
                configs[broker_id] = BrokerConfig.from_properties(
                    {key: value for key, value in settings.items() if key in known}
                )
            except ConfigError as error:
                logger.warning("the settings of broker %d are not told: %s", broker_id, error)
    return configs


def _described(by_broker: Mapping[int, Mapping[str, str | None]], is_documented: bool) -> list[Body]:
    """Return settings as clients are told them.

    Where brokers differ, the value is that of the first broker that tells one, and the synonyms have that of each.
    """
    known = {item.key: item for item in BrokerConfig.settings()}
    described = []
    for name in sorted({name for settings in by_broker.values() for name in settings}):
        values = {broker_id: settings[name] for broker_id, settings in by_broker.items()}
        source = _DEFAULT if name in _FIXED or name in _FIXED_OF_BROKERS else _FROM_FILE
        differ = len(set(values.values())) > 1
        own_name = _SET_BY.get(name, name)
        item = known.get(own_name)
        described.append(
            {
                "name": name,
                "value": next((value for value in values.values() if value is not None), None),
                "read_only": True,
                "config_source": source,
                "synonyms": [
                    {"name": f"{name} of broker {broker_id}", "value": value, "source": source}
                    for broker_id, value in values.items()
                    if differ
                ],
                "config_type": _LONG if name in _APPLIED else _TYPES.get(type(item.kind) if item else None, _STRING),
                "documentation": f"{own_name} of the brokers: {item.doc}"
                if item is not None and is_documented
                else None,
            }
        )
    return described
