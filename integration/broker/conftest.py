"""Fixtures: brokers in processes of their own, and ways to talk to them and look into them."""

from __future__ import annotations

import json
import re
import signal
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kafka2011.certificates import Authority
from kafka2011.consumer.simple_consumer import SimpleConsumer
from kafka2011.local_cluster import LocalBroker
from kafka2011.wire.connection import BrokerConnection
from kafka2011.wire.protocol import LATEST
from tests.support.waiting import eventually
from zk.connecting import connect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafka2011.message.message_set import Message
    from zk.client import ZkClient

HOST = "127.0.0.1"
SESSION_TIMEOUT_MS = 2000
_COUNTS = re.compile(rb"counts (\{.*\})$", re.MULTILINE)


@pytest.fixture
def new_broker(tmp_path: Path) -> Iterator[Callable[..., LocalBroker]]:
    """Make a broker, not yet started, with settings by 0.7's names; what runs at the end of the test is stopped.

    Without zk_connect it does without ZooKeeper. `program` names a script that runs the command line its own way.
    """
    with ExitStack() as stack:

        def make(
            properties: dict[str, object] | None = None,
            *,
            broker_id: int = 0,
            zk_connect: str | None = None,
            directory: Path | None = None,
            program: str | None = None,
        ) -> LocalBroker:
            settings = {"enable.zookeeper": "false"}
            if zk_connect is not None:
                settings = {"zk.connect": zk_connect, "zk.sessiontimeout.ms": str(SESSION_TIMEOUT_MS)}
            settings |= {key: str(value) for key, value in (properties or {}).items()}
            command = [sys.executable, *(["-m", "kafka2011"] if program is None else [str(_PROGRAMS / program)])]
            broker = LocalBroker(broker_id, directory or tmp_path / f"broker-{broker_id}", settings, command)
            stack.callback(broker.stop)
            return broker

        yield make


_PROGRAMS = Path(__file__).with_name("programs")


@pytest.fixture
def broker(new_broker: Callable[..., LocalBroker]) -> LocalBroker:
    """Start a broker without ZooKeeper that flushes every message."""
    broker = new_broker({"log.flush.interval": 1})
    broker.start()
    return broker


@pytest.fixture
def open_connection() -> Iterator[Callable[[LocalBroker], BrokerConnection]]:
    """Open a connection that sends bytes as they are and reads frames."""
    with ExitStack() as stack:

        def make(broker: LocalBroker) -> BrokerConnection:
            connection = stack.enter_context(BrokerConnection(HOST, broker.port))
            connection.open()
            return connection

        yield make


@pytest.fixture
def open_consumer() -> Iterator[Callable[[LocalBroker], SimpleConsumer]]:
    """Open a SimpleConsumer."""
    with ExitStack() as stack:
        yield lambda broker: stack.enter_context(SimpleConsumer(HOST, broker.port))


@pytest.fixture
def read_all(open_consumer: Callable[[LocalBroker], SimpleConsumer]) -> Callable[..., list[Message]]:
    """Read a partition from an offset to its end."""

    def read(broker: LocalBroker, topic: str, partition: int = 0, offset: int = 0) -> list[Message]:
        consumer = open_consumer(broker)
        messages: list[Message] = []
        while True:
            fetched = list(consumer.fetch(topic, partition, offset))
            if not fetched:
                return messages
            messages += fetched
            offset = fetched[-1].next_offset

    return read


@pytest.fixture
def await_end(open_consumer: Callable[[LocalBroker], SimpleConsumer]) -> Callable[..., None]:
    """Wait until the flushed end of a partition is at an offset."""

    def wait(broker: LocalBroker, topic: str, end_offset: int, partition: int = 0) -> None:
        consumer = open_consumer(broker)
        eventually(lambda: consumer.get_offsets_before(topic, partition, LATEST) == [end_offset])

    return wait


@pytest.fixture
def counts_of() -> Callable[[LocalBroker], dict[str, int]]:
    """Ask a broker for its counts (SIGUSR1)."""

    def ask(broker: LocalBroker) -> dict[str, int]:
        seen = len(_COUNTS.findall(broker.output()))
        broker.process.send_signal(signal.SIGUSR1)
        eventually(lambda: len(_COUNTS.findall(broker.output())) > seen)
        counts: dict[str, int] = json.loads(_COUNTS.findall(broker.output())[-1])
        return counts

    return ask


@pytest.fixture
def deleted_files_of() -> Callable[[LocalBroker], list[str]]:
    """List the files that a broker holds open although they were deleted."""

    def look(broker: LocalBroker) -> list[str]:
        found = []
        for link in Path(f"/proc/{broker.process.pid}/fd").iterdir():
            try:
                target = str(link.readlink())
            except FileNotFoundError:  # closed meanwhile
                continue
            if target.endswith(" (deleted)"):
                found.append(target)
        return found

    return look


@pytest.fixture
def peak_bytes_of() -> Callable[[LocalBroker], int]:
    """Tell the most memory that a broker ever had."""

    def look(broker: LocalBroker) -> int:
        status = Path(f"/proc/{broker.process.pid}/status").read_text()
        match = re.search(r"VmHWM:\s*(\d+) kB", status)
        assert match is not None
        return int(match[1]) * 1024

    return look


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Make an authority."""
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def by_tls(authority: Authority) -> dict[str, object]:
    """Return what makes a broker listen by TLS alone, and flush every message."""
    issued = authority.issue("broker", [HOST])
    return {
        "tls.only": "true",
        "tls.certificate": issued.certificate,
        "tls.key": issued.key,
        "tls.ca": authority.ca,
        "log.flush.interval": 1,
    }


@pytest.fixture
def security_of(authority: Authority, tmp_path: Path) -> Callable[..., str]:
    """Return a security file of whoever it names, or of nobody."""

    def of(name: str = "", lines: str = "") -> str:
        shown = ""
        if name:
            issued = authority.issue(name)
            shown = f'certificate = "{issued.certificate}"\nkey = "{issued.key}"\n'
        path = tmp_path / f"security-{name}.toml"
        path.write_text(f'{lines}\n[brokers]\ntls = true\nca = "{authority.ca}"\n{shown}')
        return str(path)

    return of


@pytest.fixture
def zk_client(zk_connect: str) -> Iterator[ZkClient]:
    """Connect to the test's chroot."""
    with connect(zk_connect, SESSION_TIMEOUT_MS, connection_timeout_ms=20_000) as client:
        yield client
