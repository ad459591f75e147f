"""Frames and what answers them, without a cluster."""

from __future__ import annotations

import struct
from collections import Counter
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest

from kafka2011.errors import ProtocolError
from kafka2011.gateway.protocol.errors import ErrorCode
from kafka2011.gateway.protocol.fields import Api
from kafka2011.gateway.requests.context import Caller
from kafka2011.gateway.requests.dispatch import HANDLERS, OFFERED, begin
from tests.planted.patches import Defect, read_defects
from tests.planted.planting import planted
from zk.cluster import TopicPartition
from zk.gateways import GatewayAddress, PartitionList


def gateway() -> Any:
    address = GatewayAddress(3, "here", 9092, 9093)
    return SimpleNamespace(counts=Counter(), address=address, group_claims=SimpleNamespace(find=lambda _group: address))


def caller(*, is_secured: bool = False) -> Caller:
    return Caller("anonymous", "127.0.0.1:1", is_secured, None)


def frame(api: int, version: int, body: bytes = b"", correlation_id: int = 7) -> bytes:
    return struct.pack(">hhih", api, version, correlation_id, -1) + body


def answer(request: bytes) -> bytes:
    parts = begin(gateway(), caller(), request)(lambda: None)
    assert parts is not None
    return b"".join(map(bytes, parts))


def test_versions_are_those_that_are_handled() -> None:
    data = answer(frame(Api.API_VERSIONS, 0))
    size, correlation_id, error, count = struct.unpack_from(">iihi", data)
    told = [struct.unpack_from(">hhh", data, 14 + 6 * at) for at in range(count)]
    assert (size, correlation_id, error) == (len(data) - 4, 7, ErrorCode.NONE)
    known = {api: versions for api, versions in OFFERED.items() if api is not Api.PLACES}  # that gateways ask another
    assert told == [(api, versions.start, versions.stop - 1) for api, versions in known.items()]


def test_an_unknown_version_of_api_versions_is_answered() -> None:
    data = answer(frame(Api.API_VERSIONS, 99))
    assert struct.unpack_from(">ih", data, 4) == (7, ErrorCode.UNSUPPORTED_VERSION)


@pytest.mark.parametrize(("api", "version"), [(Api.PRODUCE, 2), (Api.FETCH, 19), (17, 0), (68, 0), (-1, 0)])
def test_what_is_not_offered_ends_the_connection(api: int, version: int) -> None:
    """17 is SASL's handshake, 68 a heartbeat of KIP-848's groups."""
    with pytest.raises(ProtocolError):
        begin(gateway(), caller(), frame(api, version))


@pytest.mark.parametrize(("api", "hint"), [(17, "SASL"), (36, "SASL"), (68, "group.protocol=classic")])
def test_who_runs_the_gateway_is_told_what_a_client_is_set_to(api: int, hint: str) -> None:
    with pytest.raises(ProtocolError, match=hint):
        begin(gateway(), caller(), frame(api, 0))


@pytest.mark.parametrize("size", [0, 1, 7, 9, 11])
def test_a_request_that_ends_too_early_ends_the_connection(size: int) -> None:
    with pytest.raises(ProtocolError):
        begin(gateway(), caller(), frame(Api.METADATA, 1, b"\0\0\0\1\0\5views")[:size])


def test_a_producer_of_transactions_is_told_that_there_are_none() -> None:
    data = answer(frame(Api.INIT_PRODUCER_ID, 0, b"\0\1t\0\0\0\1"))
    assert struct.unpack_from(">ih", data, 8) == (0, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    data = answer(frame(Api.FIND_COORDINATOR, 1, b"\0\1t\1"))
    assert struct.unpack_from(">ih", data, 8) == (0, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)


def test_producer_ids_are_random_and_an_epoch_is_raised() -> None:
    ids = set()
    for _ in range(100):
        _, error, producer_id, epoch = struct.unpack_from(
            ">ihqh", answer(frame(Api.INIT_PRODUCER_ID, 0, b"\xff\xff\0\0\0\1")), 8
        )
        assert (error, epoch) == (ErrorCode.NONE, 0)
        assert 0 <= producer_id < 2**62
        ids.add(producer_id)
    assert len(ids) == 100


def test_clients_over_tls_are_sent_to_the_port_with_tls() -> None:
    here = gateway()
    for is_secured, port in ((False, 9092), (True, 9093)):
        parts = begin(_with_address(here), caller(is_secured=is_secured), frame(Api.FIND_COORDINATOR, 0, b"\0\1g"))(
            lambda: None
        )
        assert parts is not None
        assert b"".join(map(bytes, parts)).endswith(b"\0\4here" + struct.pack(">i", port))


def test_the_cluster_is_described_for_java() -> None:
    """Java's AdminClient sends DescribeCluster before anything else."""
    here = _with_address(gateway())
    here.catalogue = SimpleNamespace(brokers={1: None}, cluster_id="c")
    here.claims = SimpleNamespace(leader=lambda broker_id: here.address)
    parts = begin(here, caller(), frame(Api.DESCRIBE_CLUSTER, 0, b"\0\0\0"))(lambda: None)
    assert parts is not None
    broker = struct.pack(">i", 3) + b"\5here" + struct.pack(">i", 9092) + b"\0\0"
    assert b"\2c" + struct.pack(">i", 3) + b"\2" + broker in b"".join(map(bytes, parts))


@pytest.mark.parametrize(
    ("software", "nodes"),
    [
        (("apache-kafka-java", "4.1.0"), {3, 4, 5}),
        (("librdkafka", "2.4.0"), {3, 4, 5}),
        (("librdkafka", "2.3.0"), {3}),
        (("confluent-kafka-python", "2.0.2-rdkafka-2.0.2"), {3}),
    ],
)
def test_each_broker_is_a_node_but_for_old_librdkafka(software: tuple[str, str], nodes: set[int]) -> None:
    """It takes nodes of one address for one, and goes back and forth between them."""
    name, version = software
    assert_sees(nodes, {"client_software_name": name, "client_software_version": version})


def test_a_client_that_does_not_name_itself_sees_gateways_only() -> None:
    """KafkaJS sends what is for nodes of one address over one connection: a fetch from one waits for the others."""
    assert_sees({3}, {})


def assert_sees(nodes: set[int], names: dict[str, str]) -> None:
    """Check which nodes a client sees whose ApiVersions request has these names."""
    here = _with_address(gateway())
    address = here.address
    here.claims = SimpleNamespace(leader=lambda n: address._replace(node_id=3 + n, gateway_id=address.node_id))
    known = PartitionList("t", uuid4(), (TopicPartition("t", 1, 0), TopicPartition("t", 2, 0)), 0)
    here.catalogue = SimpleNamespace(brokers={1: None, 2: None}, lists={"t": known}, cluster_id="c", is_live=bool)
    who = caller()
    HANDLERS[Api.API_VERSIONS](here, who, names)
    told = HANDLERS[Api.METADATA](here, who, {"topics": None})
    assert {broker["node_id"] for broker in told["brokers"]} == nodes
    assert {each["leader_id"] for each in told["topics"][0]["partitions"]} == (nodes - {3} or {3})


def test_a_created_topic_has_a_list_of_settings() -> None:
    """Java's client fails if it is null."""
    here = gateway()
    here.topic_changes = SimpleNamespace(create=lambda *_, **__: (ErrorCode.NONE, ""))
    here.catalogue = SimpleNamespace(lists={"t": PartitionList("t", uuid4(), (TopicPartition("t", 1, 0),), 0)})
    empty = b"\1"
    assert created(here, b"\1").endswith(b"\0" + struct.pack(">ih", 1, 1) + empty + b"\0\0")


def test_a_topic_that_is_to_be_compacted_is_refused() -> None:
    here = gateway()
    here.topic_changes = SimpleNamespace()
    here.catalogue = SimpleNamespace(lists={}, brokers={1: None}, settings={})
    here.config = SimpleNamespace(max_message_size=1)
    settings = b"\2" + b"\x0fcleanup.policy" + b"\x0fcompact,delete" + b"\0"
    assert struct.pack(">h", ErrorCode.INVALID_CONFIG) in created(here, settings)


def created(here: Any, settings: bytes) -> bytes:
    """Return the answer to a CreateTopics request for topic `t` with one partition."""
    topic = b"\2t" + struct.pack(">ih", 1, 1) + b"\1" + settings + b"\0"
    parts = begin(
        here, caller(), frame(Api.CREATE_TOPICS, 5, b"\0\2" + topic + struct.pack(">i?", 1000, False) + b"\0")
    )(lambda: None)
    assert parts is not None
    return b"".join(map(bytes, parts))


@pytest.mark.parametrize("defect", read_defects("gateway_answers").values(), ids=lambda defect: defect.name)
def test_each_defect_is_noticed(defect: Defect) -> None:
    with planted(defect), pytest.raises((AssertionError, AttributeError, KeyError)):
        globals()[defect.shows["noticed_by"]]()


def _with_address(here: Any) -> Any:
    from kafka2011.gateway.requests.context import Gateway

    here.address_for = lambda caller, other=None: Gateway.address_for(here, caller, other)
    return here
