"""What `import kafka2011` gives, and what it costs."""

from __future__ import annotations

import importlib
import importlib.metadata
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

import kafka2011
from kafka2011.config.later_names import LATER_CLASSES
from kafka2011.consumer.topic_count import TopicCount

if TYPE_CHECKING:
    from collections.abc import Callable

CHECKOUT = Path(__file__).parents[1]


def run(code: str) -> str:
    """Run Python code in a process of its own and return what it printed."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=CHECKOUT,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", kafka2011.__all__)
def test_every_public_name_is_there(name: str) -> None:
    """Each name in `__all__` loads, and is what its home calls by that name."""
    value = getattr(kafka2011, name)
    assert value is not None
    assert name in dir(kafka2011)
    home = getattr(value, "__module__", None)
    if home is not None:
        assert home.startswith(("kafka2011.", "zk."))
        assert value.__name__ == name


def test_every_public_name_may_be_the_first_that_is_imported() -> None:
    """No module needs another one to be there before it."""
    code = """
import sys
import kafka2011
for name in kafka2011.__all__:
    for module in [module for module in sys.modules if module.partition(".")[0] in {"kafka2011", "zk"}]:
        del sys.modules[module]
    exec(f"from kafka2011 import {name}")
"""
    run(code)


def test_all_names_are_sorted_and_have_a_home() -> None:
    """`__all__` and the table of homes say the same, so that neither can be forgotten."""
    assert sorted(kafka2011.__all__) == sorted(kafka2011._HOME_OF)
    assert len(set(kafka2011.__all__)) == len(kafka2011.__all__)


def test_every_error_that_clients_meet_is_public() -> None:
    """Whoever catches an error by name finds it beside the client that raises it."""
    wanted = {
        "KafkaError",
        "BrokerError",
        "BrokerConnectionError",
        "ConfigError",
        "InvalidMessageError",
        "InvalidMessageSizeError",
        "InvalidTopicError",
        "MessageSizeTooLargeError",
        "OffsetOutOfRangeError",
        "ProtocolError",
        "UnknownError",
        "WrongPartitionError",
    }
    assert wanted <= set(kafka2011.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    """A module that loads on demand still says what it does not have."""
    with pytest.raises(AttributeError, match="Producerr"):
        _ = kafka2011.Producerr
    with pytest.raises(ImportError, match="Producerr"):
        exec("from kafka2011 import Producerr")


@pytest.mark.parametrize(("later", "here"), LATER_CLASSES.items())
def test_classes_of_later_clients_lead_to_ours(later: str, here: str) -> None:
    """Whoever imports what other clients call it is told the name here, which there is."""
    with pytest.raises(
        ImportError, match=f"{later} is a class of clients of later Kafka, here it is kafka2011.{here} "
    ):
        exec(f"from kafka2011 import {later}")
    home, _, name = f"kafka2011.{here}".rpartition(".")
    assert isinstance(getattr(importlib.import_module(home), name), type)
    assert not hasattr(kafka2011, "__wrapped__")  # as doctest asks of every module


def test_star_import_gives_all() -> None:
    """`from kafka2011 import *` is for a session at the prompt."""
    assert run("from kafka2011 import *; print(SyncProducer.__name__, LATEST)").split() == ["SyncProducer", "-1"]


def test_clients_load_neither_gevent_nor_pyspark() -> None:
    """Spark executors and plain programs pay only for what they use, and nothing is monkey-patched."""
    clients = [name for name in kafka2011.__all__ if name != "LocalCluster"]
    loaded = run(
        f"import sys, socket; from kafka2011 import {', '.join(clients)}\n"
        "import kafka2011.wire.connection, kafka2011.producer.sync_producer, kafka2011.consumer.simple_consumer\n"
        "print(*(name for name in ('gevent', 'pyspark', 'kafka2011.broker.server') if name in sys.modules))\n"
        "print(socket.socket.__module__)"
    ).splitlines()
    assert loaded == ["", "socket"]


def test_importing_the_package_loads_nothing_of_it() -> None:
    """A name is loaded when it is first used."""
    code = "import sys, kafka2011; print(*(name for name in sys.modules if name.startswith('kafka2011.')))"
    assert run(code).strip() == ""


def test_modules_without_sockets_load_none() -> None:
    """Bytes, logs and handlers work without sockets, an event loop or ZooKeeper."""
    code = (
        "import sys\n"
        "import kafka2011.message.message_set, kafka2011.wire.protocol\n"
        "import kafka2011.broker.requests.handlers, kafka2011.log.log_manager\n"
        "print(*(name for name in ('gevent', 'kazoo', 'zk.client') if name in sys.modules))"
    )
    assert run(code).strip() == ""


def test_version_is_the_installed_one() -> None:
    """As other packages have it."""
    assert kafka2011.__version__ == importlib.metadata.version("kafka2011")
    assert "__version__" in dir(kafka2011)


WRONG: list[tuple[Callable[[], object], str]] = [
    (lambda: kafka2011.Producer(cast("Any", "localhost:2181")), "settings of the producer are a dict"),
    (lambda: kafka2011.ConsumerConnector(cast("Any", "localhost:2181")), "settings of the consumer are a dict"),
    (lambda: kafka2011.SimpleConsumer("h", 1, cast("Any", "x")), "settings of the simple consumer are a dict"),
    (lambda: kafka2011.SyncProducer("h", 1).send(cast("Any", 5), b"x"), "a topic is text, not int"),
    (lambda: kafka2011.SyncProducer("h", 1).send("t", cast("Any", {"a": 1})), "a payload is bytes, not dict"),
    (lambda: kafka2011.SimpleConsumer("h", 1).fetch(cast("Any", b"t"), 0, 0), "a topic is text, not bytes"),
    (lambda: kafka2011.LocalCluster(cast("Any", "3")), "brokers is how many there are, not str"),
    (lambda: kafka2011.LocalCluster(1, properties=cast("Any", ["a"])), "properties are a dict"),
    (lambda: kafka2011.Whitelist(cast("Any", 5)), "a topic filter is a regex as text, not int"),
    (lambda: kafka2011.MessageSet(cast("Any", "x")), "payloads are a list of bytes, not str"),
    (lambda: kafka2011.MessageSet(cast("Any", b"x")), "payloads are a list of bytes, not bytes"),
    (lambda: kafka2011.MessageSet(cast("Any", [b"x", "y"])), "a payload is bytes, not str"),
    (
        lambda: TopicCount.static(cast("Any", ["views"])),
        "a subscription is a dict, topic to number",
    ),
    (lambda: TopicCount.filtered(cast("Any", "views.*"), 1), "a filter is a Whitelist or a Blacklist, not str"),
    (lambda: kafka2011.Admin(cast("Any", 5)), "zk_connect is text"),
]


@pytest.mark.parametrize(("call", "words"), WRONG)
def test_wrong_types_are_type_errors_in_words(call: Callable[[], object], words: str) -> None:
    """What is no settings, no topic, no filter says what it should be, before anything is connected."""
    with pytest.raises(TypeError, match=words):
        call()


def test_reprs_show_state() -> None:
    """At a prompt one sees what a client talks to, and whether it does."""
    assert repr(kafka2011.SimpleConsumer("h", 1)) == "<SimpleConsumer of h:1, not connected>"
    assert "127.0.0.1:1" in repr(kafka2011.SyncProducer("127.0.0.1", 1))
    cluster = kafka2011.LocalCluster(2)
    assert repr(cluster) == f"<LocalCluster in {cluster.directory}, 0 of 2 brokers running>"
    cluster.close()


def test_both_clients_count_alike() -> None:
    """`counts()` gives numbers by name at a producer as at a consumer; the attributes stay."""
    with kafka2011.Producer({"broker.list": "0:127.0.0.1:1"}) as producer:
        counts: dict[str, int] = producer.counts()
        assert counts["messages_sent"] == producer.counts.messages_sent == 0
        assert all(isinstance(number, int) for number in counts.values())
