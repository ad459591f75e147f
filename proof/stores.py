"""Stores that proofs keep tables in: a directory, an HDFS of a NameNode and two DataNodes, and a server of S3.

HDFS is one jar of Maven Central, Hadoop's own minicluster, which PySpark's jars of the same version complete; the Ivy
among those fetches it. The server of S3 is versitygw, compiled by `go install`: it keeps objects as files, and has
conditional writes. Both stay in build/.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pyspark
import pytest

from tests.support.waiting import eventually
from zk.child import ChildProcess
from zk.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

BUILD = Path(__file__).parents[1] / "build" / "stores"
JARS = Path(pyspark.__file__).parent / "jars"
VERSITYGW = "github.com/versity/versitygw/cmd/versitygw@v1.8.0"
START_S = 60
FETCH_S = 900
DATA_NODES = 2
KEYS = {
    "AWS_REGION": "us-east-1",
    "AWS_ACCESS_KEY_ID": "somebody",
    "AWS_SECRET_ACCESS_KEY": "something",
    "AWS_EC2_METADATA_DISABLED": "true",
}

_IVY = """<ivy-module version="2.0"><info organisation="kafka2011" module="hdfs"/>
<configurations><conf name="default"/></configurations>
<dependencies><dependency org="org.apache.hadoop" name="hadoop-client-minicluster" rev="{}" conf="default-&gt;master"/>
</dependencies></ivy-module>"""
_IVY_SETTINGS = """<ivysettings><settings defaultResolver="central"/>
<resolvers><ibiblio name="central" m2compatible="true"/></resolvers></ivysettings>"""
_JVM = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "--add-opens=java.base/java.lang=ALL-UNNAMED"]


class Store(Protocol):
    """A place for a warehouse, and the processes that serve it."""

    kind: str
    servers: dict[str, ChildProcess]

    def warehouse(self, name: str) -> str:
        """Return where a warehouse of this name is."""

    def heal(self) -> None:
        """Start what was killed, let go on what was paused, and wait until the store takes files again."""


class Directory:
    """A directory of this machine."""

    kind = "directory"

    def __init__(self, root: Path) -> None:
        self._root = root
        self.servers: dict[str, ChildProcess] = {}

    def warehouse(self, name: str) -> str:
        return str(self._root / name)

    def heal(self) -> None:
        """Nothing was broken."""


class Hdfs:
    """An HDFS, on ports that stay when its processes come back."""

    kind = "hdfs"

    def __init__(self, root: Path) -> None:
        self._root = root
        self.address = f"127.0.0.1:{free_port()}"
        self._classpath = ":".join([str(_minicluster()), *_spark_jars()])
        configuration = self._configure("namenode", {"dfs.namenode.name.dir": f"file://{root}/name"})
        self._java("namenode.format", configuration, "namenode.NameNode", "-format", "-nonInteractive")
        self.name_node = self._child("namenode", configuration, "namenode.NameNode")
        self.data_nodes = []
        for number in range(DATA_NODES):
            name = f"datanode{number}"
            configuration = self._configure(name, {"dfs.datanode.data.dir": f"file://{root}/{name}"})
            self.data_nodes.append(self._child(name, configuration, "datanode.DataNode"))
        named = {f"datanode{number}": each for number, each in enumerate(self.data_nodes)}
        self.servers: dict[str, ChildProcess] = {"namenode": self.name_node, **named}

    def warehouse(self, name: str) -> str:
        return f"hdfs://{self.address}/{name}"

    def heal(self) -> None:
        for each in self.servers.values():
            each.resume()
            each.start()
        eventually(lambda: _is_heard(self.address), START_S, what="an answer of the NameNode")
        eventually(self._takes_files, START_S, what="writing to HDFS")

    def _takes_files(self) -> bool:
        from kafka2011.warehouse.table.locations import files_of

        path = self.warehouse("probe")
        with suppress(OSError):
            files_of(path).write(path, str(time.time()).encode())
            return True
        return False

    def _configure(self, name: str, more: dict[str, str]) -> Path:
        settings = {
            "fs.defaultFS": f"hdfs://{self.address}",
            "hadoop.tmp.dir": f"{self._root}/{name}.tmp",
            "dfs.replication": str(DATA_NODES),
            "dfs.namenode.http-address": "127.0.0.1:0",
            "dfs.datanode.address": "127.0.0.1:0",
            "dfs.datanode.http.address": "127.0.0.1:0",
            "dfs.datanode.ipc.address": "127.0.0.1:0",
            "dfs.permissions.enabled": "false",
            "dfs.namenode.safemode.extension": "0",
            "dfs.namenode.datanode.registration.ip-hostname-check": "false",
            "dfs.heartbeat.interval": "1",
            **more,
        }
        directory = self._root / f"{name}.conf"
        directory.mkdir(parents=True)
        every = settings.items()
        text = "".join(f"<property><name>{key}</name><value>{value}</value></property>" for key, value in every)
        for file in ("core-site.xml", "hdfs-site.xml"):
            (directory / file).write_text(f"<configuration>{text}</configuration>")
        return directory

    def _command(self, configuration: Path, program: str, *arguments: str) -> list[str]:
        classpath = f"{configuration}:{self._classpath}"
        return ["java", *_JVM, "-cp", classpath, f"org.apache.hadoop.hdfs.server.{program}", *arguments]

    def _java(self, name: str, configuration: Path, program: str, *arguments: str) -> None:
        with ChildProcess(self._command(configuration, program, *arguments), self._root / f"{name}.log") as child:
            assert child.wait(START_S) == 0, (self._root / f"{name}.log").read_text()[-3000:]

    def _child(self, name: str, configuration: Path, program: str) -> ChildProcess:
        return ChildProcess(self._command(configuration, program), self._root / f"{name}.log")


class S3:
    """A server of S3, whose objects are files, on a port that stays when it comes back."""

    kind = "s3"

    def __init__(self, root: Path) -> None:
        self.address = f"127.0.0.1:{free_port()}"
        for name in ("objects/lake", "sidecar"):
            (root / name).mkdir(parents=True)
        keys = ["--access", KEYS["AWS_ACCESS_KEY_ID"], "--secret", KEYS["AWS_SECRET_ACCESS_KEY"]]
        posix = ["posix", "--sidecar", str(root / "sidecar"), str(root / "objects")]
        command = [str(_versitygw()), "--port", self.address, *keys, "--quiet", *posix]
        self.servers = {"server": ChildProcess(command, root / "server.log")}

    def warehouse(self, name: str) -> str:
        return f"s3://lake/{name}"

    def heal(self) -> None:
        for each in self.servers.values():
            each.resume()
            each.start()
        eventually(lambda: _is_heard(self.address), START_S, what="an answer of S3")


def _is_heard(address: str) -> bool:
    host, _, port = address.partition(":")
    with suppress(OSError), socket.create_connection((host, int(port)), 1):
        return True
    return False


@contextmanager
def opened(kind: str, root: Path) -> Iterator[Store]:
    """Start a store of a kind, and end it. Skips the test, saying why, where it cannot be fetched."""
    with ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        for name, value in KEYS.items():  # for every kind: Spark's workers have the environment that its JVM began with
            patch.setenv(name, value)
        store: Store
        if kind == "directory":
            store = Directory(root)
        elif kind == "hdfs":
            store = Hdfs(root)
        else:
            store = s3 = S3(root)
            patch.setenv("AWS_ENDPOINT_URL", f"http://{s3.address}")
        for each in store.servers.values():
            stack.enter_context(each)
        store.heal()
        yield store


@cache
def _minicluster() -> Path:
    """Return the jar with NameNode and DataNode, of the version that PySpark's own jars have."""
    [ivy] = JARS.glob("ivy-*.jar")
    [client] = JARS.glob("hadoop-client-api-*.jar")
    version = client.stem.removeprefix("hadoop-client-api-")
    jar = BUILD / f"hadoop-client-minicluster-{version}.jar"
    if not jar.exists():
        BUILD.mkdir(parents=True, exist_ok=True)
        (BUILD / "ivy.xml").write_text(_IVY.format(version))
        (BUILD / "ivysettings.xml").write_text(_IVY_SETTINGS)
        settings: list[str | Path] = [
            "-settings",
            BUILD / "ivysettings.xml",
            "-cache",
            BUILD / "ivy",
            "-ivy",
            BUILD / "ivy.xml",
        ]
        _fetch("java", "-jar", ivy, *settings, "-retrieve", f"{BUILD}/[artifact]-[revision].[ext]")
    return jar


def _spark_jars() -> list[str]:
    """Return those of PySpark's jars that Hadoop's servers need: its clients' code, and what writes logs."""
    names = ("hadoop-client-*", "slf4j-api-*", "jcl-over-slf4j-*", "log4j-*")
    return [str(each) for name in names for each in sorted(JARS.glob(f"{name}.jar"))]


@cache
def _versitygw() -> Path:
    program = BUILD / "versitygw"
    if not program.exists():
        if shutil.which("go") is None:
            pytest.skip("a server of S3 is compiled with Go, which is not installed")
        BUILD.mkdir(parents=True, exist_ok=True)
        _fetch("go", "install", VERSITYGW, GOBIN=str(BUILD))
    return program


def _fetch(*command: str | Path, **environment: str) -> None:
    done = subprocess.run(
        ["nice", *map(str, command)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=FETCH_S,
        check=False,
    )
    if done.returncode:
        pytest.skip(f"{command[0]} could not fetch what this needs: {(done.stdout + done.stderr)[-500:]}")
