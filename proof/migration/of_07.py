"""Brokers and clients of Apache Kafka 0.7.2 in processes of their own, from a build that the user names.

The environment variable KAFKA_07_CLASSPATH has its class path, as Java takes it: the jars that bin/kafka-run-class.sh
puts together, kafka-0.7.2.jar, scala-library, zkclient, zookeeper, log4j, jopt-simple and snappy-java.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.waiting import eventually
from zk.brokers import BrokerRegistry
from zk.child import ChildProcess

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zk.client import ZkClient

VARIABLE = "KAFKA_07_CLASSPATH"
STOP_S = 60.0
START_S = 60.0
_PROGRAM = Path(__file__).with_name("Of07.java")
_JVM = (
    *("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
    *("--add-opens", "java.base/java.lang=ALL-UNNAMED"),  # for snappy-java of that time
)
_LOGGING = """\
log4j.rootLogger=INFO, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d %p %m (%c)%n
"""


def missing() -> str:
    """Say what there is not, of what Kafka 0.7.2 needs; an empty text if all is there."""
    if VARIABLE not in os.environ:
        return f"{VARIABLE} names no build of Kafka 0.7.2"
    return "" if shutil.which("java") else "there is no java"


class ProcessOf07:
    """A process of Kafka 0.7.2, whose output is in `log`."""

    def __init__(self, directory: Path, name: str, *command: object) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "log4j.properties").write_text(_LOGGING, "utf-8")
        logging = f"-Dlog4j.configuration={(directory / 'log4j.properties').as_uri()}"
        whole = ["java", *_JVM, logging, "-cp", os.environ[VARIABLE], *map(str, command)]
        self.name = name
        self.log = directory / f"{name}.log"
        self.process = ChildProcess(whole, self.log, stop_timeout_s=STOP_S)

    def start(self) -> None:
        """Start it."""
        self.process.start()

    def stop(self) -> None:
        """End it in order."""
        self.process.stop()


class BrokerOf07(ProcessOf07):
    """A broker with the settings and the directory that one of this project has, too."""

    def __init__(self, broker_id: int, directory: Path, properties: Mapping[str, str]) -> None:
        self.broker_id = broker_id
        self.log_dir = directory / "logs"
        directory.mkdir(parents=True, exist_ok=True)
        given = {**properties, "brokerid": broker_id, "log.dir": self.log_dir}
        path = directory / "server.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in given.items()), "utf-8")
        super().__init__(directory, "of-07", "kafka.Kafka", path)

    def start_registered(self, client: ZkClient) -> None:
        """Start it and wait until it is registered."""
        before = BrokerRegistry(client).brokers().get(self.broker_id)
        self.start()
        eventually(lambda: self._is_registered(client, before), START_S, what=f"broker {self.broker_id} registers")

    def _is_registered(self, client: ZkClient, before: object) -> bool:
        assert self.process.running, self.log.read_text("utf-8")[-2000:]
        return BrokerRegistry(client).brokers().get(self.broker_id) not in {None, before}


class MemberOf07(ProcessOf07):
    """A member of a group, whose file is one of group_member.py. `settings` are further ones of 0.7.2's consumer."""

    def __init__(self, directory: Path, name: str, zk_connect: str, topics: str, group: str, *settings: str) -> None:
        self.path = directory / f"{name}.txt"
        super().__init__(directory, name, _PROGRAM, "member", self.path, zk_connect, topics, group, *settings)
        self.start()


class ProducerOf07(ProcessOf07):
    """A producer whose values begin with its name. `settings` are those of 0.7.2's producer."""

    def __init__(self, directory: Path, name: str, zk_connect: str, topic: str, settings: Mapping[str, str]) -> None:
        self._path = directory / f"{name}.txt"
        given = [f"{key}={value}" for key, value in settings.items()]
        super().__init__(directory, name, _PROGRAM, "producer", self._path, zk_connect, topic, f"{name}-", *given)
        self.start()

    def values(self, what: bytes = b"sent") -> set[bytes]:
        """Return the values for which its `send` returned, or failed."""
        data = self._path.read_bytes() if self._path.exists() else b""
        lines = data[: data.rfind(b"\n") + 1].splitlines()
        return {value for word, value in (line.split(b" ", 1) for line in lines) if word == what}


def send_keys(directory: Path, zk_connect: str, topic: str, count: int) -> None:
    """Send the values 0 to `count` - 1, each with itself as its key, by a producer of Kafka 0.7.2."""
    sender = ProcessOf07(directory, "keys", _PROGRAM, "keys", directory / "keys.txt", zk_connect, topic, count)
    sender.start()
    assert sender.process.wait(START_S) == 0, sender.log.read_text("utf-8")[-2000:]
