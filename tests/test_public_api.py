"""What `import kafka2011` gives, and what it costs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import kafka2011

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


def test_star_import_gives_all() -> None:
    """`from kafka2011 import *` is for a session at the prompt."""
    assert run("from kafka2011 import *; print(SyncProducer.__name__, LATEST)").split() == ["SyncProducer", "-1"]


def test_clients_load_neither_gevent_nor_pyspark() -> None:
    """Spark executors and plain programs pay only for what they use, and nothing is monkey-patched."""
    clients = [name for name in kafka2011.__all__ if name != "LocalCluster"]
    loaded = run(
        f"import sys, socket; from kafka2011 import {', '.join(clients)}\n"
        "import kafka2011.connection, kafka2011.producer.sync_producer, kafka2011.consumer.simple_consumer\n"
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
        "import kafka2011.message, kafka2011.protocol, kafka2011.broker.handlers, kafka2011.broker.log_manager\n"
        "print(*(name for name in ('gevent', 'kazoo', 'zk.client') if name in sys.modules))"
    )
    assert run(code).strip() == ""
