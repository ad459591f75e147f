"""Settings: names, defaults, sources, and what is refused."""

from __future__ import annotations

import dataclasses
import logging
import pickle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka2011.config import (
    BrokerConfig,
    ConsumerConfig,
    ProducerConfig,
    Settings,
    SimpleConsumerConfig,
    SyncProducerConfig,
)
from kafka2011.config.later_names import LATER_NAMES
from kafka2011.errors import ConfigError
from kafka2011.message.compression import Codec
from zk.cluster import Broker

if TYPE_CHECKING:
    from collections.abc import Mapping

BROKER: dict[str, object] = {"brokerid": 1, "log.dir": "/logs", "zk.connect": "zk:2181"}
PRODUCER: dict[str, object] = {"zk.connect": "zk:2181"}
CONSUMER: dict[str, object] = {"zk.connect": "zk:2181", "groupid": "g"}

COMPONENTS: list[tuple[type[Settings], dict[str, object]]] = [
    (BrokerConfig, BROKER),
    (ProducerConfig, PRODUCER),
    (ConsumerConfig, CONSUMER),
    (SyncProducerConfig, {}),
    (SimpleConsumerConfig, {}),
]

# Kafka 0.7.2's own defaults, from its documentation; what it leaves open or derives is tested by itself.
DEFAULTS_OF_07: list[tuple[type[Settings], dict[str, object], dict[str, object]]] = [
    (
        BrokerConfig,
        BROKER,
        {
            "port": 6667,
            "num.partitions": 1,
            "log.file.size": 1073741824,
            "log.roll.hours": 168,
            "log.retention.hours": 168,
            "log.retention.size": -1,
            "log.cleanup.interval.mins": 10,
            "log.flush.interval": 500,
            "log.default.flush.scheduler.interval.ms": 3000,
            "log.default.flush.interval.ms": 3000,
            "max.message.size": 1000000,
            "max.socket.request.bytes": 104857600,
            "socket.receive.buffer": 102400,
            "max.topic.name.length": 255,
            "enable.zookeeper": True,
            "zk.sessiontimeout.ms": 6000,
            "zk.connectiontimeout.ms": 6000,
            "topic.partition.count.map": {},
            "topic.log.file.size": {},
            "topic.log.roll.hours": {},
            "topic.log.retention.hours": {},
            "topic.log.retention.size": {},
            "topic.flush.intervals.ms": {},
        },
    ),
    (
        ProducerConfig,
        PRODUCER,
        {
            "producer.type": "sync",
            "compression.codec": Codec.NONE,
            "compressed.topics": (),
            "buffer.size": 102400,
            "connect.timeout.ms": 5000,
            "socket.timeout.ms": 30000,
            "reconnect.interval": 30000,
            "reconnect.time.interval.ms": 10000000,
            "max.message.size": 1000000,
            "queue.time": 5000,
            "queue.size": 10000,
            "batch.size": 200,
            "num.retries": 0,
            "zk.read.num.retries": 3,
            "zk.sessiontimeout.ms": 6000,
            "zk.connectiontimeout.ms": 6000,
        },
    ),
    (
        ConsumerConfig,
        CONSUMER,
        {
            "socket.timeout.ms": 30000,
            "socket.buffersize": 65536,
            "fetch.size": 1048576,
            "fetcher.backoff.ms": 1000,
            "autocommit.enable": True,
            "autocommit.interval.ms": 10000,
            "queuedchunks.max": 10,
            "rebalance.retries.max": 4,
            "rebalance.backoff.ms": 2000,
            "autooffset.reset": "smallest",
            "consumer.timeout.ms": -1,
            "shallowiterator.enable": False,
            "zk.sessiontimeout.ms": 6000,
            "zk.connectiontimeout.ms": 6000,
            "zk.synctime.ms": 2000,
        },
    ),
]


def value_of(config: Settings, key: str) -> object:
    [name] = [item.name for item in config.settings() if item.key == key]
    return getattr(config, name)


def broker(**fields: Any) -> BrokerConfig:
    return BrokerConfig(**{"brokerid": 1, "log_dir": "/logs", "zk_connect": "zk:2181", **fields})


@pytest.mark.parametrize(("component", "given", "defaults"), DEFAULTS_OF_07)
def test_defaults_are_those_of_07(
    component: type[Settings], given: Mapping[str, object], defaults: dict[str, object]
) -> None:
    """What is not given has the value that Kafka 0.7 gives it."""
    config = component.from_properties(given)
    assert {key: value_of(config, key) for key in defaults} == defaults


def test_defaults_of_our_own() -> None:
    """Settings that 0.7 lacks, and the one default that differs from its own."""
    config = broker()
    assert (config.bind_address, config.hostname, config.join_topics) == ("127.0.0.1", "127.0.0.1", False)
    assert config.queued_max_bytes == 256 * 1024 * 1024
    producer = ProducerConfig(zk_connect="zk:2181")
    assert producer.queue_enqueue_timeout_ms == -1
    assert (producer.confirm, producer.confirm_timeout_ms) == (False, 30000)


@pytest.mark.parametrize(("component", "given"), COMPONENTS)
def test_field_names_follow_the_keys(component: type[Settings], given: object) -> None:
    """A field is its key with dots as underscores and camelCase in snake_case; every setting says what it does."""
    for item in component.settings():
        snake = "".join(f"_{char.lower()}" if char.isupper() else char for char in item.key.replace(".", "_"))
        assert item.name == snake
        assert item.variable == f"KAFKA2011_{snake.upper()}"
        assert item.doc.endswith(".")


@pytest.mark.parametrize(("component", "given"), COMPONENTS)
def test_settings_can_be_pickled(component: type[Settings], given: Mapping[str, object]) -> None:
    """Derived values included."""
    config = component.from_properties(given)
    assert pickle.loads(pickle.dumps(config)) == config


def test_values_are_text_or_python_s_own() -> None:
    """A properties file's text and a dict's Python values come to the same."""
    as_text = {
        "port": " 0 ",
        "log.retention.hours": "0.5",
        "enable.zookeeper": "true",
        "topic.log.file.size": "a:1000, b:2000",
        "topic.log.roll.hours": "a:0.25",
        "log.dir": "/var/logs",
    }
    as_values = {
        "port": 0,
        "log.retention.hours": 0.5,
        "enable.zookeeper": True,
        "topic.log.file.size": {"a": 1000, "b": 2000},
        "topic.log.roll.hours": {"a": 0.25},
        "log.dir": Path("/var/logs"),
    }
    config = BrokerConfig.from_properties({**BROKER, **as_text})
    assert config == BrokerConfig.from_properties({**BROKER, **as_values})
    assert config.topic_log_file_size == {"a": 1000, "b": 2000}
    assert config.log_dir == Path("/var/logs")
    assert BrokerConfig.from_properties({**BROKER, "hostname": None}).hostname == "127.0.0.1"


@pytest.mark.parametrize(
    ("key", "bad"),
    [
        ("port", "x"),
        ("port", "-1"),
        ("port", "65536"),
        ("port", "1_000"),
        ("port", True),
        ("port", 1.5),
        ("num.partitions", 0),
        ("num.partitions", 2**31),
        ("log.retention.hours", "0"),
        ("log.retention.hours", "nan"),
        pytest.param("log.retention.hours", float("nan"), id="log.retention.hours-not a number"),
        ("log.retention.hours", "inf"),
        ("log.retention.hours", True),
        ("log.retention.size", -2),
        ("enable.zookeeper", "yes"),
        ("enable.zookeeper", 1),
        ("hostname", "a:b"),
        ("hostname", 5),
        ("bind.address", "a b"),
        ("bind.address", ""),
        ("bind.address", " "),
        ("bind.address", "*"),
        ("bind.address", "::"),
        ("bind.address", "0"),
        ("bind.address", "0.0.0.00"),
        ("bind.address", "0x0"),
        ("bind.address", "0x0.0.0.0"),
        ("bind.address", "127.1"),
        ("bind.address", "1.2.3.4.5"),
        ("bind.address", "1.2.3.256"),
        ("hostname", ""),
        ("hostname", "0"),
        ("log.dir", " "),
        ("log.dir", 5),
        ("zk.connect", "a:1,,b"),
        ("zk.connect", "a b"),
        ("topic.log.file.size", "a"),
        ("topic.log.file.size", "a:x"),
        ("topic.log.file.size", "a:1,a:2"),
        ("topic.log.file.size", "a/b:1"),
        ("topic.log.file.size", {1: 2}),
        ("topic.log.file.size", [1]),
    ],
)
def test_bad_broker_values_are_refused_by_name(key: str, bad: object) -> None:
    """A bad value is a ConfigError with its source and key, however it comes, constructor included."""
    with pytest.raises(ConfigError, match=rf"^server.properties: {key}: "):
        BrokerConfig.from_properties({**BROKER, key: bad}, "server.properties")
    with pytest.raises(ConfigError, match=rf"^{key}: "):
        broker(**{key.replace(".", "_"): bad})


@pytest.mark.parametrize(
    ("key", "bad"),
    [
        ("producer.type", "fast"),
        ("compression.codec", 3),
        ("compression.codec", True),
        ("compression.codec", "lz4"),
        ("compressed.topics", "a/b"),
        ("compressed.topics", 5),
        ("partitioner.class", "kafka.producer.DefaultPartitioner"),
        ("broker.list", "0:host"),
        ("broker.list", "x:host:1"),
        ("broker.list", "0:host:0"),
        ("broker.list", "0::1"),
        ("broker.list", "0:a:1,0:b:2"),
        ("broker.list", 7),
    ],
)
def test_bad_producer_values_are_refused_by_name(key: str, bad: object) -> None:
    """The producer's own kinds of value are checked like the broker's."""
    with pytest.raises(ConfigError, match=rf"^{key}: "):
        ProducerConfig.from_properties({key: bad})


def test_codecs_have_numbers_and_names() -> None:
    """compression.codec takes 0.7's number, or the codec's name."""
    for text in ("1", "gzip", "GZIP", 1, Codec.GZIP):
        assert ProducerConfig.from_properties({**PRODUCER, "compression.codec": text}).compression_codec is Codec.GZIP


def test_broker_list_and_topics_are_read() -> None:
    """broker.list gives addresses, compressed.topics names."""
    config = ProducerConfig.of({"broker.list": "0:a:1, 2:b:3", "compressed.topics": "x,y"})
    assert config.broker_list == (Broker(0, "a", 1), Broker(2, "b", 3))
    assert config.compressed_topics == ("x", "y")
    assert ProducerConfig.of({"broker.list": [(0, "a", 1)]}).broker_list == (Broker(0, "a", 1),)


@pytest.mark.parametrize(
    ("component", "given", "words"),
    [
        (BrokerConfig, {"log.dir": "/logs", "zk.connect": "zk"}, "brokerid must be given"),
        (BrokerConfig, {"brokerid": 1, "zk.connect": "zk"}, "log.dir must be given"),
        (BrokerConfig, {"brokerid": 1, "log.dir": "/logs"}, "zk.connect must be given"),
        (BrokerConfig, {**BROKER, "bind.address": "0.0.0.0"}, "hostname must be given"),
        (BrokerConfig, {**BROKER, "bind.address": "::1"}, "bind.address: '::1' has a ':'.* IPv4 address"),
        (BrokerConfig, {**BROKER, "bind.address": "0.0.0.0", "hostname": "0.0.0.0"}, "clients cannot connect to"),
        (BrokerConfig, {**BROKER, "queued.max.bytes": 1000}, "queued.max.bytes .1000. is less than"),
        (ProducerConfig, {}, "zk.connect or broker.list must be given"),
        (ProducerConfig, {**PRODUCER, "broker.list": "0:a:1"}, "exclude one another"),
        (ProducerConfig, {"broker.list": "0:a:1", "partitioner.class": "a:B"}, "partitioner.class needs zk.connect"),
        (ProducerConfig, {**PRODUCER, "queue.size": 10}, "batch.size .200. is more than queue.size .10."),
        (ConsumerConfig, {"zk.connect": "zk"}, "groupid must be given"),
        (ConsumerConfig, {"groupid": "g"}, "zk.connect must be given"),
        (ConsumerConfig, {**CONSUMER, "groupid": " "}, "groupid must not be empty"),
        (ConsumerConfig, {**CONSUMER, "groupid": "a/b"}, "groupid: 'a/b' is not"),
    ],
)
def test_settings_are_checked_against_one_another(
    component: type[Settings], given: Mapping[str, object], words: str
) -> None:
    """Missing settings and ones that exclude one another are named."""
    with pytest.raises(ConfigError, match=words):
        component.from_properties(given)


def test_values_that_default_to_other_settings() -> None:
    """A derived default follows the setting it comes from, and gives way to a value of its own."""
    assert broker(zk_sessiontimeout_ms=2000).zk_connectiontimeout_ms == 2000
    assert broker(zk_sessiontimeout_ms=2000, zk_connectiontimeout_ms=7).zk_connectiontimeout_ms == 7
    assert broker(log_default_flush_scheduler_interval_ms=50).log_default_flush_interval_ms == 50
    assert broker(bind_address="10.0.0.1").hostname == "10.0.0.1"
    assert broker(bind_address="0.0.0.0", hostname="broker1").hostname == "broker1"
    for name in ("localhost", "broker_1", "b-1.example.org", "1.example", "7f"):
        assert broker(bind_address=name).hostname == name
    assert broker(max_socket_request_bytes=2**30).queued_max_bytes == 2**30
    assert ConsumerConfig.of({**CONSUMER, "zk.synctime.ms": 70}).rebalance_backoff_ms == 70


def test_lists_of_servers_may_have_blanks() -> None:
    """After commas, as many write them."""
    assert broker(zk_connect=" a:1, b:2 ,c:3/kafka ").zk_connect == "a:1,b:2,c:3/kafka"
    assert ProducerConfig.from_properties({"broker.list": "0:a:1, 1:b:2"}).broker_list[1].host == "b"


def test_without_zookeeper_a_broker_needs_no_zk_connect() -> None:
    """enable.zookeeper=false makes a broker that stands alone."""
    assert BrokerConfig(brokerid=0, log_dir=Path("/logs"), enable_zookeeper=False, port=0).zk_connect == ""


def test_unknown_keys_suggest_the_nearest() -> None:
    """A misspelt key is refused with its source and the key that was probably meant."""
    with pytest.raises(
        ConfigError, match=r"^here: unknown setting 'log.retention.hour' .*did you mean 'log.retention.hours'"
    ):
        BrokerConfig.from_properties({**BROKER, "log.retention.hour": 1}, "here")
    with pytest.raises(ConfigError, match=r"did you mean 'queue.enqueueTimeout.ms'"):
        ProducerConfig.of({**PRODUCER, "queue.enqueuetimeout.ms": 1})
    for misspelt in ("log_retention_hours", "LOG.RETENTION.HOURS"):
        with pytest.raises(ConfigError, match=r"did you mean 'log.retention.hours'"):
            BrokerConfig.of({**BROKER, misspelt: 1})
    with pytest.raises(ConfigError, match=r"unknown setting 'xyzzy' of the broker$"):
        BrokerConfig.of({**BROKER, "xyzzy": 1})


@pytest.mark.parametrize(
    ("component", "key", "words"),
    [
        (ProducerConfig, "bootstrap.servers", "here it is 'zk.connect' or 'broker.list'"),
        (ConsumerConfig, "bootstrap.servers", "here it is 'zk.connect'"),
        (ConsumerConfig, "group.id", "here it is 'groupid'"),
        (ConsumerConfig, "auto.offset.reset", "here it is 'autooffset.reset'"),
        (ProducerConfig, "acks", "here it is 'confirm'"),
        (ProducerConfig, "linger.ms", "here it is 'queue.time'"),
        (ProducerConfig, "transactional.id", "there is no such thing here"),
        (BrokerConfig, "log.dirs", "here it is 'log.dir'"),
        (BrokerConfig, "log.segment.bytes", "here it is 'log.file.size'"),
        (BrokerConfig, "default.replication.factor", "there is no such thing here"),
    ],
)
def test_names_of_later_kafka_lead_to_ours(component: type[Settings], key: str, words: str) -> None:
    """Whoever brings settings of Kafka 0.8 or later is told what they are called here."""
    with pytest.raises(
        ConfigError,
        match=f"unknown setting '{key}' of the {component.COMPONENT}: (a name of Kafka 0.8 or later, )?{words}"
        r".* \(docs/explanation/coming-from-later-kafka.md\)$",
    ):
        component.from_properties({key: "x"})


def test_later_names_lead_to_settings_that_there_are() -> None:
    """No hint names what does not exist, and none is needed for what does."""
    ours = {item.key for component, _ in COMPONENTS for item in component.settings()}
    assert {name for names in LATER_NAMES.values() for name in names} <= ours
    assert not ours & LATER_NAMES.keys()


@pytest.mark.parametrize("wrong", ["localhost:2181", 5, [("zk.connect", "x")]])
def test_what_is_no_dict_is_a_type_error(wrong: Any) -> None:
    """A client that is given an address instead of settings says what it wants."""
    with pytest.raises(TypeError, match=r"settings of the producer are a dict with dotted keys or ProducerConfig, not"):
        ProducerConfig.of(wrong)


def test_keys_of_07_without_meaning_are_accepted_with_one_line(caplog: pytest.LogCaptureFixture) -> None:
    """zk.synctime.ms and its like do no harm, but are not taken in silence."""
    with caplog.at_level(logging.WARNING):
        BrokerConfig.from_properties({**BROKER, "zk.synctime.ms": 8, "monitoring.period.secs": 1})
    [record] = caplog.records
    assert "zk.synctime.ms" in record.getMessage()
    assert "monitoring.period.secs" in record.getMessage()


def test_of_takes_settings_as_they_are() -> None:
    """Clients take a dict or the dataclass, one that knows more than they need too, but not another component's."""
    config = ProducerConfig.of(PRODUCER)
    assert ProducerConfig.of(config) is config
    assert SyncProducerConfig.of(config) is config
    assert SyncProducerConfig.of(None) == SyncProducerConfig()
    with pytest.raises(ConfigError, match="settings of the broker, not of the producer"):
        ProducerConfig.of(broker())  # type: ignore[arg-type]


def test_settings_do_not_change() -> None:
    """Settings are frozen, and a changed copy is checked like the original."""
    config = broker()
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.port = 1  # type: ignore[misc]
    with pytest.raises(ConfigError, match="port"):
        dataclasses.replace(config, port=-5)


def test_sources_in_order(tmp_path: Path) -> None:
    """An override beats the environment, which beats the file, which beats the default."""
    file = tmp_path / "server.properties"
    file.write_text(
        "# a broker\nbrokerid=1\nport = 1\nlog.dir: /f\nzk.connect=zk:2181\nlog.file.size=1\n\\u0070ort=2\n"
    )
    environ = {"KAFKA2011_LOG_FILE_SIZE": "2", "KAFKA2011_LOG_FLUSH_INTERVAL": "2", "PATH": "/bin"}
    config = BrokerConfig.from_sources(file, environ, ["log.flush.interval=3", "topic.log.file.size=a:1"])
    assert (config.port, config.log_file_size, config.log_flush_interval) == (2, 2, 3)
    assert config.num_partitions == 1
    assert config.topic_log_file_size == {"a": 1}


def test_errors_name_the_source(tmp_path: Path) -> None:
    """A file, a variable or an override that is wrong is named as such."""
    file = tmp_path / "server.properties"
    file.write_text("port=x\n")
    with pytest.raises(ConfigError, match=rf"^{file}: port: 'x' is not a whole number"):
        BrokerConfig.from_sources(file)
    file.write_text("prot=1\n")
    with pytest.raises(ConfigError, match=rf"^{file}: unknown setting 'prot' of the broker: did you mean 'port'"):
        BrokerConfig.from_sources(file)
    file.write_text("port=\\u00zz\n")
    with pytest.raises(ConfigError, match=rf"^{file} is not a properties file"):
        BrokerConfig.from_sources(file)
    with pytest.raises(ConfigError, match=r"^cannot read the settings in .*/missing: No such file"):
        BrokerConfig.from_sources(tmp_path / "missing")
    with pytest.raises(ConfigError, match=r"^environment variable KAFKA2011_PORT: port: "):
        BrokerConfig.from_sources(environ={"KAFKA2011_PORT": "x"})
    with pytest.raises(ConfigError, match=r"^--override port=x: port: "):
        BrokerConfig.from_sources(overrides=["port=x"])
    with pytest.raises(ConfigError, match=r"^--override 'port' is not key=value"):
        BrokerConfig.from_sources(overrides=["port"])


def test_environment_of_several_components(caplog: pytest.LogCaptureFixture) -> None:
    """Variables of other components are no mistake; misspelt ones and ignored ones are noticed."""
    environ = {
        "KAFKA2011_BROKERID": "5",
        "KAFKA2011_LOG_DIR": "/logs",
        "KAFKA2011_ZK_CONNECT": "zk",
        "KAFKA2011_GROUPID": "g",
        "KAFKA2011_QUEUE_ENQUEUE_TIMEOUT_MS": "0",
        "KAFKA2011_MONITORING_PERIOD_SECS": "8",
        "KAFKA2011_PURE": "1",  # not of a component
    }
    with caplog.at_level(logging.WARNING):
        assert BrokerConfig.from_sources(environ=environ).brokerid == 5
    assert "monitoring.period.secs" in caplog.text
    assert ProducerConfig.from_sources(environ=environ).queue_enqueue_timeout_ms == 0
    assert ConsumerConfig.from_sources(environ=environ).groupid == "g"
    with pytest.raises(
        ConfigError,
        match="unknown setting in the environment variable KAFKA2011_GROUP_ID: did you mean KAFKA2011_GROUPID",
    ):
        BrokerConfig.from_sources(environ={**environ, "KAFKA2011_GROUP_ID": "g"})


@given(st.dictionaries(st.text(max_size=20), st.one_of(st.text(max_size=20), st.integers(), st.floats(), st.none())))
def test_garbage_is_refused_with_one_error(properties: dict[str, object]) -> None:
    """Whatever a dict holds, the only error is ConfigError."""
    keys = [item.key for item in BrokerConfig.settings()]
    for key, value in properties.items():
        try:
            BrokerConfig.from_properties({**BROKER, keys[len(key) % len(keys)]: value})
            BrokerConfig.from_properties({**BROKER, key: value})
        except ConfigError:
            pass


def test_a_bad_value_is_one_error() -> None:
    """Not two tracebacks, of which the first is of no use."""
    with pytest.raises(ConfigError) as caught:
        ProducerConfig.of({**PRODUCER, "batch.size": "many"})
    assert caught.value.__suppress_context__
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("127.0.0.1:6667", "'127.0.0.1:6667' is not id:host:port: write 0:127.0.0.1:6667 if that broker's id is 0"),
        ("0:a:1,b", "'b' is not id:host:port"),
    ],
)
def test_a_broker_list_of_later_clients_is_named_as_it_was_given(given: str, words: str) -> None:
    """Whoever leaves the id out learns what is missing."""
    with pytest.raises(ConfigError, match=f"^broker.list: {words}$"):
        ProducerConfig.of({"broker.list": given})
