"""ActiveMQ: a queue in KahaDB for each topic."""

from __future__ import annotations

import re
import socket
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from paper_benchmarks.measuring.errors import BenchmarkError
from paper_benchmarks.systems.local_server import (
    HOST,
    LocalServer,
    Process,
    own_directory,
    program,
    running,
    what_is_missing,
)
from paper_benchmarks.systems.system import Kind, Line, System, Way
from zk.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_HOME = Path("/usr/share/activemq")
_JAR = _HOME / "bin" / "activemq.jar"
_TIMEOUT_S = 30.0
_HEAP = "1G"
_QUERY_TIMEOUT_S = 60.0
_CONFIGURATION = """\
<beans xmlns="http://www.springframework.org/schema/beans" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
 xsi:schemaLocation="http://www.springframework.org/schema/beans
  http://www.springframework.org/schema/beans/spring-beans-2.0.xsd
  http://activemq.apache.org/schema/core http://activemq.apache.org/schema/core/activemq-core.xsd">
 <broker xmlns="http://activemq.apache.org/schema/core" brokerName="measured" dataDirectory="{base}/data"
   useJmx="true" advisorySupport="false" schedulerSupport="false">
  <managementContext>
   <managementContext createConnector="true" connectorHost="{host}" connectorPort="{jmx}" rmiServerPort="{rmi}"/>
  </managementContext>
  <persistenceAdapter>
   <kahaDB directory="{base}/data/kahadb" journalDiskSyncStrategy="periodic"/>
  </persistenceAdapter>
  <systemUsage>
   <systemUsage>
    <memoryUsage><memoryUsage percentOfJvmHeap="70"/></memoryUsage>
    <storeUsage><storeUsage limit="100 gb"/></storeUsage>
    <tempUsage><tempUsage limit="50 gb"/></tempUsage>
   </systemUsage>
  </systemUsage>
  <transportConnectors>
   <transportConnector name="stomp" uri="stomp+nio://{host}:{stomp}"/>
  </transportConnectors>
 </broker>
</beans>
"""
_LOGGING = """\
log4j.rootLogger=WARN, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d %-5p %m%n
"""


class ActiveMqServer(LocalServer):
    """A broker that speaks STOMP, and JMX for counting."""

    def __init__(self, version: str, port: int, process: Process, base: Path, settings: Mapping[str, str], jmx: int):
        super().__init__("activemq", version, port, process, base / "data", settings)
        self._jmx = jmx
        self._base = base

    def count(self, topic: str) -> int:
        """Ask for the queue's length by the broker's own tool: a second of another Java."""
        url = f"service:jmx:rmi:///jndi/rmi://{self.host}:{self._jmx}/jmxrmi"
        options = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", f"-Dactivemq.base={self._base}"]
        query = ["query", "--jmxurl", url, f"-QQueue={topic}", "--view", "QueueSize"]
        done = subprocess.run(  # noqa: S603 (the program that is measured)
            [_java(), *options, f"-Dactivemq.home={_HOME}", "-jar", str(_JAR), *query],
            capture_output=True,
            text=True,
            timeout=_QUERY_TIMEOUT_S,
            check=False,
        )
        return queue_size(done.stdout, topic)


def queue_size(output: str, topic: str) -> int:
    """Read what the tool says of a queue. Raises BenchmarkError when that is something else."""
    if (found := re.search(r"^QueueSize = (\d+)$", output, re.MULTILINE)) is None:
        raise BenchmarkError(f"ActiveMQ does not say how long {topic} is: {output.strip()[-500:]}")
    return int(found[1])


def _java() -> str:
    java = program("java")
    assert java is not None
    return java


def _version(port: int) -> str:
    """Begin a connection: the server names itself in its answer."""
    with socket.create_connection((HOST, port), _TIMEOUT_S) as connection, connection.makefile("rb") as lines:
        connection.sendall(b"CONNECT\naccept-version:1.1\nhost:localhost\n\n\x00")
        for line in lines:
            if line.startswith(b"server:ActiveMQ/"):
                return line.decode().strip().partition("/")[2]
    raise EOFError("ActiveMQ ended the connection")


@contextmanager
def _start(directory: Path) -> Iterator[System]:
    stomp, jmx, rmi = free_port(), free_port(), free_port()
    with own_directory(directory) as base:
        conf = base / "conf"
        conf.mkdir()
        (conf / "activemq.xml").write_text(
            _CONFIGURATION.format(base=base, host=HOST, stomp=stomp, jmx=jmx, rmi=rmi),
            encoding="utf-8",
        )
        (conf / "log4j.properties").write_text(_LOGGING, encoding="utf-8")
        command = [
            _java(),
            f"-Xms{_HEAP}",
            f"-Xmx{_HEAP}",
            *("--add-opens", "java.base/java.lang=ALL-UNNAMED", "--add-opens", "java.base/java.util=ALL-UNNAMED"),
            f"-Djava.rmi.server.hostname={HOST}",
            f"-Djava.io.tmpdir={base}",
            f"-Dlog4j.configuration=file:{conf}/log4j.properties",
            f"-Dactivemq.home={_HOME}",
            f"-Dactivemq.base={base}",
            f"-Dactivemq.conf={conf}",
            f"-Dactivemq.data={base}/data",
            *("-jar", str(_JAR), "start", f"xbean:file:{conf}/activemq.xml"),
        ]
        settings = {
            "delivery": "persistent:true, without receipts",
            "acknowledgements": "ack:auto, activemq.prefetchSize 1000",
            "journalDiskSyncStrategy": "periodic",
            "heap": f"{_HEAP}, 70% of it for messages",
            "durability": "written to the journal of KahaDB, which is synced once a second",
        }
        with running(command, base) as process:
            version = process.await_up(lambda: _version(stomp))
            yield ActiveMqServer(version, stomp, process, base, settings, jmx)


KIND = Kind(
    name="activemq",
    title="ActiveMQ",
    driver="paper_benchmarks.clients.activemq",
    lines=(
        Line(Way.SEND_EACH, "stomp", 8_000, title="stomp.py"),
        Line(Way.SEND_BYTES, "raw", 8_000),
        Line(Way.READ_EACH, "stomp", 8_000, title="stomp.py"),
        Line(Way.READ_BYTES, "raw", 8_000),
    ),
    start=_start,
    emptied=True,
    missing=lambda: what_is_missing(_JAR if program("java") else None, "activemq", "stomp"),
)
