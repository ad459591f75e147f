"""Settings of topics and brokers, as brokers publish them: clients are told what applies, and cannot change it."""

from __future__ import annotations

import uuid
from types import SimpleNamespace
from typing import Any

import pytest

from kafka2011.config import BrokerConfig
from kafka2011.gateway.protocol.errors import ErrorCode
from kafka2011.gateway.protocol.fields import Api
from kafka2011.gateway.protocol.frames import write_response
from kafka2011.gateway.requests.context import Caller
from kafka2011.gateway.requests.dispatch import HANDLERS
from kafka2011.gateway.topic_changes import DONE
from tests.planted.patches import Defect, read_defects
from tests.support.noticing import assert_noticed
from zk.cluster import TopicPartition
from zk.gateways import GatewayAddress, PartitionList

TOPIC, BROKER = 2, 4
DEFAULTS = {
    "cleanup.policy": "delete",
    "flush.messages": "500",
    "flush.ms": "3000",
    "max.message.bytes": "900000",
    "message.timestamp.type": "CreateTime",
    "min.insync.replicas": "1",
    "retention.bytes": "-1",
    "retention.ms": "604800000",
    "segment.bytes": "1073741824",
    "segment.ms": "604800000",
}
OF_ORDERS = {
    "topic.log.retention.hours": "orders:0.5",
    "topic.log.retention.size": "orders:1000",
    "topic.log.file.size": "orders:2000",
    "topic.log.roll.hours": "orders:1",
    "topic.flush.intervals.ms": "orders:70",
    "min.insync.replicas": "2",
    "max.message.size": "800",
}


def published(**settings: str) -> dict[str, str]:
    """Return what a broker publishes that has these settings, and a file that no client is to know of."""
    given = {key.replace("_", "."): value for key, value in settings.items()}
    config = BrokerConfig.from_properties(
        {"brokerid": 1, "log.dir": "/logs", "zk.connect": "secret:1", "allow.file": "/allow", **given}
    )
    return {item.key: item.kind.write(getattr(config, item.name)) for item in config.settings()}


class World:
    """A gateway in front of brokers 1 and 2, which both have topic `views`; broker 1 alone has `orders`."""

    def __init__(self) -> None:
        both = TopicPartition("views", 2, 0), TopicPartition("views", 1, 0)
        of_one = (TopicPartition("orders", 1, 0),)
        lists = {name: PartitionList(name, uuid.uuid4(), at, 0) for name, at in (("views", both), ("orders", of_one))}
        self.settings = {1: published(), 2: published()}
        self.leaders = {1: GatewayAddress(8, "here", 1, None, 5), 2: GatewayAddress(9, "here", 1, None, 5)}
        self.created: list[str] = []
        self.gateway: Any = SimpleNamespace(
            catalogue=SimpleNamespace(lists=lists, brokers={1: None, 2: None}, settings=self.settings),
            claims=SimpleNamespace(leader=self.leaders.get),
            config=SimpleNamespace(max_message_size=900_000),
            topic_changes=SimpleNamespace(create=self.create),
        )

    def create(self, topic: str, *_: object, **_more: object) -> tuple[ErrorCode, str]:
        self.created.append(topic)
        return DONE

    def ask(self, api: Api, body: dict[str, Any], version: int) -> Any:
        answer = HANDLERS[api](self.gateway, Caller("me", "here", False, None, version=version), body)
        assert write_response(api, version, 7, answer)
        return answer

    def described(
        self, kind: int, name: str, wanted: list[str] | None = None, *, is_documented: bool = False
    ) -> list[dict[str, Any]]:
        resource = {"resource_type": kind, "resource_name": name, "configuration_keys": wanted}
        body = {"resources": [resource], "include_documentation": is_documented}
        [result] = self.ask(Api.DESCRIBE_CONFIGS, body, 4)["results"]
        assert result["error_code"] == ErrorCode.NONE
        configs: list[dict[str, Any]] = result["configs"]
        return configs

    def values(self, kind: int, name: str) -> dict[str, str | None]:
        return {config["name"]: config["value"] for config in self.described(kind, name)}

    def ask_to_create(self, topic: str = "new", **configs: str) -> tuple[ErrorCode, str | None]:
        given = [{"name": name.replace("_", "."), "value": value} for name, value in configs.items()]
        asked = {"name": topic, "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": given}
        [answer] = self.ask(Api.CREATE_TOPICS, {"topics": [asked], "validate_only": False}, 5)["topics"]
        return answer["error_code"], answer["error_message"]


@pytest.fixture
def world() -> World:
    return World()


def test_a_topic_is_described_by_what_its_brokers_apply(world: World) -> None:
    assert world.values(TOPIC, "views") == DEFAULTS
    assert all(config["read_only"] for config in world.described(TOPIC, "views"))


def test_a_topic_with_settings_of_its_own_is_described_by_these(world: World) -> None:
    world.settings[1] = published(**OF_ORDERS)
    assert world.values(TOPIC, "orders") == DEFAULTS | {
        "flush.ms": "70",
        "max.message.bytes": "800",
        "min.insync.replicas": "2",
        "retention.bytes": "1000",
        "retention.ms": "1800000",
        "segment.bytes": "2000",
        "segment.ms": "3600000",
    }


def test_only_what_is_asked_for_is_described(world: World) -> None:
    assert [config["name"] for config in world.described(TOPIC, "views", ["retention.ms", "x"])] == ["retention.ms"]


def test_where_brokers_differ_the_value_of_each_is_told(world: World) -> None:
    world.settings[2] = published(log_retention_hours="1")
    differing = {config["name"]: config["synonyms"] for config in world.described(TOPIC, "views") if config["synonyms"]}
    assert differing == {
        "retention.ms": [
            {"name": "retention.ms of broker 1", "value": "604800000", "source": 4},
            {"name": "retention.ms of broker 2", "value": "3600000", "source": 4},
        ]
    }


def test_a_broker_that_publishes_nothing_is_not_guessed_at(world: World) -> None:
    """Kafka 0.7.2 publishes none: a setting then has no value, but clients find its name."""
    del world.settings[1]
    known = ("cleanup.policy", "message.timestamp.type", "max.message.bytes")
    assert world.values(TOPIC, "orders") == {name: DEFAULTS[name] if name in known else None for name in DEFAULTS}
    assert world.values(TOPIC, "views") == DEFAULTS
    [retention] = world.described(TOPIC, "views", ["retention.ms"])
    assert [each["value"] for each in retention["synonyms"]] == [None, "604800000"]
    del world.settings[2]
    assert world.values(BROKER, "8") == {}


@pytest.mark.parametrize("settings", [{}, {"brokerid": "x"}])
def test_settings_that_cannot_be_read_are_those_of_a_broker_that_publishes_nothing(
    world: World, settings: dict[str, str]
) -> None:
    world.settings[1] = settings
    assert world.values(TOPIC, "orders")["retention.ms"] is None


def test_a_setting_of_a_newer_broker_is_left_out(world: World) -> None:
    world.settings[1]["log.of.tomorrow"] = "1"
    assert world.values(TOPIC, "orders") == DEFAULTS


def test_a_broker_is_described_by_its_own_settings(world: World) -> None:
    """Paths and ZooKeeper's address are not told. A gateway's own node id is for all of its brokers, and "" for all."""
    world.settings[2] = published(log_retention_hours="1")
    of_one, of_other = world.values(BROKER, "8"), world.values(BROKER, "9")
    assert (of_one["log.retention.hours"], of_other["log.retention.hours"]) == ("168", "1")
    assert not {"log.dir", "zk.connect", "allow.file", "tls.key"} & of_one.keys()
    assert not any(config["synonyms"] for config in world.described(BROKER, "8"))
    for name in ("5", ""):
        [hours] = world.described(BROKER, name, ["log.retention.hours"])
        assert {each["name"]: each["value"] for each in hours["synonyms"]} == {
            "log.retention.hours of broker 1": "168",
            "log.retention.hours of broker 2": "1",
        }


def test_a_broker_tells_how_many_copies_of_a_partition_clients_see(world: World) -> None:
    [copies] = world.described(BROKER, "5", ["default.replication.factor"])
    assert (copies["value"], copies["config_source"], copies["synonyms"]) == ("1", 5, [])


def test_each_setting_has_a_type_and_on_demand_its_documentation(world: World) -> None:
    names = [
        "brokerid",
        "cleanup.policy",
        "enable.zookeeper",
        "log.retention.hours",
        "retention.ms",
        "topic.log.roll.hours",
    ]
    for kind, of in ((TOPIC, "views"), (BROKER, "8")):
        assert all(config["documentation"] is None for config in world.described(kind, of))
    described = [
        config
        for kind, of in ((TOPIC, "views"), (BROKER, "8"))
        for config in world.described(kind, of, names, is_documented=True)
    ]
    assert {config["name"]: config["config_type"] for config in described} == {
        "brokerid": 5,
        "cleanup.policy": 2,
        "enable.zookeeper": 1,
        "log.retention.hours": 6,
        "retention.ms": 5,
        "topic.log.roll.hours": 7,
    }
    texts = {config["name"]: config["documentation"] for config in described}
    assert texts["retention.ms"] == texts["log.retention.hours"]
    assert texts["retention.ms"].startswith("log.retention.hours of the brokers: Segments last written")
    assert texts["cleanup.policy"] is None


def test_a_topic_may_be_created_with_what_applies(world: World) -> None:
    configs = {name.replace(".", "_"): value for name, value in DEFAULTS.items()}
    assert world.ask_to_create(**configs) == (ErrorCode.NONE, None)
    assert world.created == ["new"]


@pytest.mark.parametrize(
    ("configs", "text"),
    [
        ({"retention_ms": "-1"}, "retention.ms=-1: the brokers apply 604800000"),
        ({"cleanup_policy": "compact"}, "cleanup.policy=compact: the brokers apply delete"),
        ({"retention_ms": "604800000", "max_message_bytes": "1"}, "max.message.bytes=1: the brokers apply 900000"),
        ({"compression_type": "lz4"}, "compression.type=lz4: the brokers apply an unknown value"),
    ],
)
def test_a_topic_is_not_created_with_another_setting(world: World, configs: dict[str, str], text: str) -> None:
    error, message = world.ask_to_create(**configs)
    assert error is ErrorCode.INVALID_CONFIG
    assert text in (message or "")
    assert world.created == []


def test_a_topic_is_not_created_with_what_only_one_broker_applies(world: World) -> None:
    world.settings[2] = published(log_retention_hours="1")
    assert world.ask_to_create(retention_ms="3600000")[0] is ErrorCode.INVALID_CONFIG
    del world.settings[2]
    error, text = world.ask_to_create(retention_ms="604800000")
    assert error is ErrorCode.INVALID_CONFIG
    assert "apply 604800000 or an unknown value" in (text or "")
    assert world.ask_to_create("created.with.its.own.settings")[0] is ErrorCode.NONE


def test_of_a_topic_that_exists_the_settings_do_not_matter(world: World) -> None:
    """Applications create their topics at each start, and take TOPIC_ALREADY_EXISTS for success."""
    world.ask_to_create("views", retention_ms="-1")
    assert world.created == ["views"]


@pytest.mark.parametrize("defect", read_defects("gateway_configs").values(), ids=lambda defect: defect.name)
def test_a_defect_is_noticed(defect: Defect, request: pytest.FixtureRequest) -> None:
    assert_noticed(defect, globals()[defect.shows["noticed_by"]], request)
