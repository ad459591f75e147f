"""A real ZooKeeper server on this machine, from jars that PySpark or Debian ships."""

from __future__ import annotations

import importlib.util
import json
import logging
import os
import shutil
import socket
import ssl
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

from zk.child import ChildProcess
from zk.closing import Closing
from zk.errors import LocalZooKeeperError
from zk.four_letters import ask
from zk.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Sequence

logger = logging.getLogger(__name__)

_MAIN_CLASS = "org.apache.zookeeper.server.ZooKeeperServerMain"
# Only what the server loads: all of PySpark's 250 jars would slow its start.
_PYSPARK_JARS = (
    "zookeeper-[0-9]*",
    "zookeeper-jute-*",
    "slf4j-api-*",
    "log4j-api-[0-9]*",
    "log4j-core-*",
    "log4j-slf4j2-impl-*",
    "netty-buffer-*",
    "netty-codec-[0-9]*",
    "netty-codec-base-*",
    "netty-common-*",
    "netty-handler-[0-9]*",
    "netty-resolver-[0-9]*",
    "netty-transport-[0-9]*",
    "netty-transport-classes-epoll-*",
    "netty-transport-native-unix-common-*",
    "snappy-java-*",
    "metrics-core-*",
)
_DEBIAN_DIRECTORY = Path("/usr/share/java")
_DEBIAN_JARS = (
    *("zookeeper", "zookeeper-jute", "slf4j-api", "slf4j-simple", "snappy-java", "metrics-core"),
    *("netty-buffer", "netty-codec", "netty-common", "netty-handler", "netty-resolver", "netty-transport"),
    *("netty-transport-native-epoll", "netty-transport-native-unix-common"),  # with TLS it listens through netty
)
_JVM_OPTIONS = (
    "-Xms16m",
    "-Xmx128m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Djava.awt.headless=true",
    "-Dzookeeper.jmx.log4j.disable=true",
    "-Dzookeeper.preAllocSize=1024",  # KiB; by default a transaction log begins at 64 MiB
    # Where it logs by slf4j-simple, as from Debian's jars; log4j has a file.
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd HH:mm:ss,SSS",
    "-Dorg.slf4j.simpleLogger.log.org.apache.zookeeper.server.ServerCnxn=off",
)
_LOGGING = """\
status = error
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{ISO8601} %-5p %c{1}: %m%n
# A probe that comes before the database is open makes it log a harmless error.
logger.connection.name = org.apache.zookeeper.server.ServerCnxn
logger.connection.level = fatal
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
"""
_SETTINGS = """\
tickTime=500
minSessionTimeout=1000
maxSessionTimeout=60000
maxClientCnxns=0
admin.enableServer=false
4lw.commands.whitelist=conf,srvr,ruok,stat,mntr,cons
autopurge.snapRetainCount=3
autopurge.purgeInterval=1
"""
_TLS_SETTINGS = """\
serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory
ssl.keyStore.type=PEM
ssl.trustStore.type=PEM
"""
_READY_TIMEOUT_S = 30.0
_PROBE_INTERVAL_S = 0.05
_PROBE_TIMEOUT_S = 2.0
_PORT_TRIES = 5
_LOG_TAIL_BYTES = 2000
_ALL_ADDRESSES = "0.0.0.0"  # noqa: S104 (only who asks for it listens there)
_JARS_VARIABLE = "ZOOKEEPER_JARS"
JVM_OPTIONS_VARIABLE = "ZOOKEEPER_JVM_OPTIONS"
"""The environment variable with further options for the JVM of a local ZooKeeper, separated by spaces."""
_PORT_TAKEN = "Address already in use"


class ServerTls(NamedTuple):
    """What a server that takes TLS alone needs: PEM files, the first of a certificate behind its key."""

    key_and_certificate: Path
    ca: Path
    wants_certificates: bool = False
    """Whether clients must have certificates that `ca` signed."""

    def settings(self) -> str:
        """Return the lines for zoo.cfg."""
        return (
            f"{_TLS_SETTINGS}ssl.keyStore.location={_java_text(self.key_and_certificate)}\n"
            f"ssl.trustStore.location={_java_text(self.ca)}\n"
            f"ssl.clientAuth={'need' if self.wants_certificates else 'none'}\n"
        )

    def quorum_settings(self) -> str:
        """Return the lines for zoo.cfg of a server of several, which meet one another by TLS too."""
        stores = {"keyStore": self.key_and_certificate, "trustStore": self.ca}
        lines = ["sslQuorum=true", "ssl.quorum.clientAuth=need"]
        for store, path in stores.items():
            lines += [f"ssl.quorum.{store}.type=PEM", f"ssl.quorum.{store}.location={_java_text(path)}"]
        return "\n".join(lines) + "\n"


class LocalZooKeeper(Closing):
    """One standalone ZooKeeper server in a child process, which dies with this one. A context manager.

    Port 0 means a free one, which is kept when the server is stopped and started again. Without `data_dir` the data
    is in a temporary directory, is not forced to disk, and is removed by `close` (or the end of the `with` block);
    with one it stays. Sessions may be as short as one second. Listens on `host` only, and with `tls` takes TLS alone.

    Raises LocalZooKeeperError when it does not start: because the port is taken, or with the end of the server's log.
    """

    def __init__(
        self,
        port: int = 0,
        data_dir: Path | str | None = None,
        host: str = "127.0.0.1",
        tls: ServerTls | None = None,
    ) -> None:
        self.host = host
        self._tls = tls
        self._chosen_port = port
        self._port = port
        self._given_dir = None if data_dir is None else Path(data_dir).absolute()
        self._temporary_dir: tempfile.TemporaryDirectory[str] | None = None
        self._child: ChildProcess | None = None

    @property
    def port(self) -> int:
        """The port that clients connect to. Raises LocalZooKeeperError before one was chosen."""
        if not self._port:
            raise LocalZooKeeperError("the local ZooKeeper was not started, so it has no port yet")
        return self._port

    @property
    def connect_string(self) -> str:
        """What to give as zk.connect, on this machine."""
        return f"{'127.0.0.1' if self.host == _ALL_ADDRESSES else self.host}:{self.port}"

    @property
    def running(self) -> bool:
        """Whether the server's process is alive (paused or not)."""
        return self._child is not None and self._child.running

    @property
    def pid(self) -> int:
        """The server's process id. Raises LocalZooKeeperError when it was never started."""
        return self._started_child().pid

    @property
    def log_path(self) -> Path:
        """The server's log: warnings and errors."""
        return self._data_dir() / "zookeeper.log"

    def start(self) -> None:
        """Start the server and wait until it answers, unless it runs."""
        if self.running:
            return
        tries = 1 if self._port else _PORT_TRIES
        for left in reversed(range(tries)):
            self._port = self._port or free_port(self.host)
            try:
                self._start_on_port()
            except _PortTakenError:
                if not left:
                    raise
                self._port = self._chosen_port
            else:
                return

    def stop(self) -> None:
        """Stop the server in order; its port and data stay for another `start`. Nothing when it does not run."""
        if self._child is not None:
            self._child.stop()

    def kill(self) -> None:
        """End the server at once, as kill -9 does; its port and data stay for another `start`."""
        if self._child is not None:
            self._child.kill()

    def pause(self) -> None:
        """Stop the server's process where it is (SIGSTOP): connections stay open, nobody answers."""
        self._started_child().pause()

    def resume(self) -> None:
        """Let a paused server go on (SIGCONT)."""
        self._started_child().resume()

    def close(self) -> None:
        """Stop the server and remove its data, if that is temporary."""
        self.stop()
        if self._temporary_dir is not None:
            self._temporary_dir.cleanup()
            self._temporary_dir = None

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def _data_dir(self) -> Path:
        if self._given_dir is not None:
            return self._given_dir
        if self._temporary_dir is None:
            self._temporary_dir = tempfile.TemporaryDirectory(prefix="zookeeper-", ignore_cleanup_errors=True)
        return Path(self._temporary_dir.name)

    def _started_child(self) -> ChildProcess:
        if self._child is None:
            raise LocalZooKeeperError("the local ZooKeeper was not started")
        return self._child

    def _start_on_port(self) -> None:
        directory = self._data_dir()
        directory.mkdir(parents=True, exist_ok=True)
        data = directory / "data"
        settings = directory / "zoo.cfg"
        port = "clientPort" if self._tls is None else "secureClientPort"
        settings.write_text(
            f"{_SETTINGS}dataDir={_java_text(data)}\n{port}Address={self.host}\n{port}={self._port}\n"
            f"{'' if self._tls is None else self._tls.settings()}"
        )
        # Nobody will read temporary data after a crash.
        options = [] if self._given_dir else ["-Dzookeeper.forceSync=no"]
        log_begin = self.log_path.stat().st_size if self.log_path.exists() else 0
        self._child = ChildProcess(server_command(_MAIN_CLASS, settings, options), self.log_path)
        self._child.start()
        try:
            self._await_ready(self._child, data, log_begin)
        except BaseException:
            self._child.stop()
            raise

    def _await_ready(self, child: ChildProcess, data: Path, log_begin: int) -> None:
        deadline = time.monotonic() + _READY_TIMEOUT_S
        while True:
            status = child.poll()
            if status is not None:
                log = self._log_since(log_begin)
                if _PORT_TAKEN in log:
                    raise _PortTakenError(f"ZooKeeper cannot listen on {self.connect_string}: the port is taken")
                raise LocalZooKeeperError(
                    f"ZooKeeper on {self.connect_string} ended with status {status}; end of {self.log_path}:\n{log}"
                )
            if self._serves(data):
                return
            if time.monotonic() > deadline:
                log = self._log_since(log_begin)
                raise LocalZooKeeperError(
                    f"ZooKeeper on {self.connect_string} did not answer within {_READY_TIMEOUT_S:.0f} s;"
                    f" end of {self.log_path}:\n{log}"
                )
            time.sleep(_PROBE_INTERVAL_S)

    def _serves(self, data: Path) -> bool:
        """Ask the server for its settings: True once it serves requests, and is the one with this data directory.

        Another ZooKeeper on the same port would answer any other command just as well. One that wants certificates
        has none of ours to look at: there, that it listens must do.
        """
        with suppress(OSError):
            if self._tls is not None and self._tls.wants_certificates:
                socket.create_connection((self.host, self.port), _PROBE_TIMEOUT_S).close()
                return True
            return f"dataDir={data}/" in ask(self.host, self.port, b"conf", _PROBE_TIMEOUT_S, self._trust())
        return False

    def _trust(self) -> ssl.SSLContext | None:
        """Return how to trust the server that this one starts; its certificate need not name the address."""
        if self._tls is None:
            return None
        context = ssl.create_default_context(cafile=str(self._tls.ca))
        context.check_hostname = False
        return context

    def _log_since(self, begin: int) -> str:
        with self.log_path.open("rb") as log:
            log.seek(begin)
            return log.read()[-_LOG_TAIL_BYTES:].decode("utf-8", "replace").strip()


class _PortTakenError(LocalZooKeeperError):
    """Somebody else listens on the port."""


def server_command(main_class: str, settings: Path, options: Sequence[str] = ()) -> list[str]:
    """Return the command of a ZooKeeper server; how it logs is written into a file beside its settings.

    `options` are further ones of Java, as are those in ZOOKEEPER_JVM_OPTIONS. Raises LocalZooKeeperError when there is
    no Java, or no ZooKeeper.
    """
    java, class_path = find_java(), find_jars()
    logging_settings = settings.with_name("log4j2.properties")
    logging_settings.write_text(_LOGGING)
    logging_option = f"-Dlog4j2.configurationFile={logging_settings}"
    given = os.environ.get(JVM_OPTIONS_VARIABLE, "").split()
    return [java, *_JVM_OPTIONS, *given, logging_option, *options, "-cp", class_path, main_class, str(settings)]


def find_java() -> str:
    """Find the Java command, in JAVA_HOME or on the path. Raises LocalZooKeeperError."""
    home = os.environ.get("JAVA_HOME")
    if home:
        java = Path(home, "bin", "java")
        if java.exists():
            return str(java)
    on_path = shutil.which("java")
    if on_path is None:
        raise LocalZooKeeperError(
            "a local ZooKeeper needs Java 17 or later: install it (Debian: apt-get install default-jre-headless)"
            " or set JAVA_HOME"
        )
    return on_path


def find_jars() -> str:
    """Find ZooKeeper's jars, those in ZOOKEEPER_JARS, PySpark's or Debian's, as a class path.

    Raises LocalZooKeeperError.
    """
    given = os.environ.get(_JARS_VARIABLE)
    if given:
        _class_path(Path(given), ["zookeeper-*"])
        return f"{given}/*"
    directory = _pyspark_jars()
    if directory is not None:
        return _class_path(directory, _PYSPARK_JARS)
    if (_DEBIAN_DIRECTORY / "zookeeper.jar").exists():
        return _class_path(_DEBIAN_DIRECTORY, _DEBIAN_JARS)
    raise LocalZooKeeperError(
        "a local ZooKeeper runs from Debian's jars or PySpark's: apt-get install libzookeeper-java, or pip install"
        " pyspark, which is larger; or give zk.connect of a ZooKeeper that runs elsewhere"
    )


def _pyspark_jars() -> Path | None:
    spec = importlib.util.find_spec("pyspark")
    return None if spec is None else Path(next(iter(spec.submodule_search_locations or ())), "jars")


def _class_path(directory: Path, patterns: Sequence[str]) -> str:
    jars: list[str] = []
    for pattern in patterns:
        jars_of_pattern = sorted(str(jar) for jar in directory.glob(f"{pattern}.jar"))
        if not jars_of_pattern:
            raise LocalZooKeeperError(f"no {pattern}.jar in {directory}, where ZooKeeper's others are")
        jars += jars_of_pattern
    return os.pathsep.join(jars)


def _java_text(path: Path) -> str:
    """Escape a path for a Java properties file, whose escapes are those of JSON and whose bytes are Latin-1."""
    return json.dumps(str(path))[1:-1]
