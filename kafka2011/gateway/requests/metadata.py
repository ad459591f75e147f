"""Metadata and DescribeCluster: which topics there are, and which gateway serves their partitions."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

from kafka2011.broker.security.access import CONSUME, PRODUCE
from kafka2011.errors import KafkaError
from kafka2011.gateway.protocol.errors import ErrorCode
from kafka2011.message.topic import validate_topic

if TYPE_CHECKING:
    from kafka2011.gateway.requests.context import Body, Caller, Gateway
    from zk.gateways import GatewayAddress


def metadata(gateway: Gateway, caller: Caller, body: Body) -> Body:
    """Describe the topics that are asked for, all if none is named; one that does not exist may be created."""
    catalogue = gateway.catalogue
    asked = body["topics"]
    if asked is None or (caller.version == 0 and not asked):
        topics = [_topic(gateway, caller, name) for name in sorted(catalogue.lists) if may_see(caller, name)]
    else:
        topics = []
        for topic in asked:
            name = topic.get("name") or catalogue.topic_of(topic.get("topic_id", b""))
            if name is None:
                topics.append({"error_code": ErrorCode.UNKNOWN_TOPIC_ID, "topic_id": topic["topic_id"]})
            else:
                may_create = body.get("allow_auto_topic_creation", True)
                topics.append(_asked_topic(gateway, caller, name, may_create=may_create))
    brokers = _brokers(gateway, caller)
    return {
        "brokers": brokers,
        "cluster_id": catalogue.cluster_id,
        "controller_id": gateway.address.node_id,
        "topics": topics,
    }


def describe_cluster(gateway: Gateway, caller: Caller, _body: Body) -> Body:
    """Describe the cluster: its gateways."""
    brokers = _brokers(gateway, caller)
    return {
        "cluster_id": gateway.catalogue.cluster_id,
        "controller_id": gateway.address.node_id,
        "brokers": [
            {"broker_id": broker["node_id"], "host": broker["host"], "port": broker["port"]} for broker in brokers
        ],
    }


def _brokers(gateway: Gateway, caller: Caller) -> list[Body]:
    """Return the nodes: the gateways that serve a broker, this one, and each broker at its gateway."""
    served = map(gateway.claims.leader, gateway.catalogue.brokers)
    leaders = {each for each in served if each is not None}
    nodes = {gateway.address} | {each.of_gateway for each in leaders}
    if not caller.takes_one_node_per_address:
        nodes |= leaders
    brokers = []
    for each in sorted(nodes, key=attrgetter("node_id")):
        host, port = gateway.address_for(caller, each)
        brokers.append({"node_id": each.node_id, "host": host, "port": port})
    return brokers


def may_see(caller: Caller, topic: str) -> bool:
    """Say whether a caller may know of a topic."""
    return caller.may(CONSUME, topic) or caller.may(PRODUCE, topic)


def _asked_topic(gateway: Gateway, caller: Caller, name: str, *, may_create: bool) -> Body:
    try:
        validate_topic(name)
    except KafkaError:
        return {"error_code": ErrorCode.INVALID_TOPIC_EXCEPTION, "name": name}
    if not may_see(caller, name):
        return {"error_code": ErrorCode.TOPIC_AUTHORIZATION_FAILED, "name": name}
    if name not in gateway.catalogue.lists and may_create and gateway.config.auto_create_topics:
        if not caller.may(PRODUCE, name):
            return {"error_code": ErrorCode.TOPIC_AUTHORIZATION_FAILED, "name": name}
        error, _ = gateway.topic_changes.create(name, None)
        if error:
            is_name = error is not ErrorCode.INVALID_TOPIC_EXCEPTION
            return {"error_code": ErrorCode.LEADER_NOT_AVAILABLE if is_name else error, "name": name}
    return _topic(gateway, caller, name)


def _node_id(gateway: Gateway, caller: Caller, leader: GatewayAddress | None) -> int:
    node = leader or gateway.address
    return (node.of_gateway if caller.takes_one_node_per_address else node).node_id


def _topic(gateway: Gateway, caller: Caller, name: str) -> Body:
    catalogue = gateway.catalogue
    known = catalogue.lists.get(name)
    if known is None:
        return {"error_code": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "name": name}
    partitions = []
    for number, where in enumerate(known.partitions):
        leader = gateway.claims.leader(where.broker_id) if catalogue.is_live(where) else None
        node_id = _node_id(gateway, caller, leader)
        partitions.append(
            {
                "error_code": ErrorCode.NONE if leader is not None else ErrorCode.LEADER_NOT_AVAILABLE,
                "partition_index": number,
                "leader_id": -1 if leader is None else node_id,
                "leader_epoch": 0,
                "replica_nodes": [node_id],
                "isr_nodes": [node_id],
                "offline_replicas": [node_id] if leader is None else [],
            }
        )
    return {"name": name, "topic_id": known.topic_id.bytes, "partitions": partitions}
