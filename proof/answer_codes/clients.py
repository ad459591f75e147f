"""The clients of the table, and how their drivers are built and run.

A driver is run with the addresses of the gateway, one of three ways, a topic and a group:
- `produce` sends "one" and "two", each until it is stored or given up, with a producer of repeats that are recognized;
- `consume` subscribes in the group and reads until it has read "last";
- `commit` does the same and commits after each message.

It prints `sent VALUE` and `read VALUE`, and `told ERROR` for each error that its client gives the application. Its
status is 0 when it has come to the end.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
BUILT = HERE.parents[1] / "build" / "answer_codes"
BUILD_S = 600
SLF4J = "1.7.36"
_POM = """\
<project><modelVersion>4.0.0</modelVersion><groupId>drive</groupId><artifactId>drive</artifactId><version>1</version>
<dependencies><dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-clients</artifactId>
<version>{version}</version></dependency><dependency><groupId>org.slf4j</groupId><artifactId>slf4j-nop</artifactId>
<version>{slf4j}</version></dependency></dependencies></project>
"""


class Client(NamedTuple):
    """A client by the name in the table, what must be there to build its driver, and its folder in `BUILT`."""

    name: str
    kind: str
    folder: str
    version: str = ""
    module: str = ""

    def command(self) -> list[str]:
        """Return what runs the driver, before its arguments."""
        folder = BUILT / self.folder
        if self.kind == "java":
            flags = ["-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]
            return ["java", *flags, "-cp", f"{folder}/jars/*:{folder}/out", "Drive"]
        if self.kind == "node":
            return ["node", str(folder / "drive.js")]
        if self.kind == "go":
            return [str(folder / "drive")]
        return [sys.executable, str(HERE / "drive.py"), self.folder]

    def missing(self) -> str:
        """Return the tool that is needed and not there, or an empty text."""
        needed = {"java": ("mvn", "javac"), "node": ("npm", "node"), "go": ("go",)}.get(self.kind, ())
        return next((tool for tool in needed if shutil.which(tool) is None), "")

    def build(self) -> None:
        """Fetch the client and build its driver, unless that was done."""
        folder = BUILT / self.folder
        folder.mkdir(parents=True, exist_ok=True)
        if self.kind == "java" and not (folder / "out" / "Drive.class").exists():
            (folder / "pom.xml").write_text(_POM.format(version=self.version, slf4j=SLF4J), "utf-8")
            _run(folder, "mvn", "-q", "dependency:copy-dependencies", "-DoutputDirectory=jars")
            _run(folder, "javac", "-cp", "jars/*", "-d", "out", str(HERE / "Drive.java"))
        if self.kind == "node":
            if not (folder / "node_modules").exists():
                _run(folder, "npm", "install", "--no-save", "--prefix", ".", f"{self.module}@{self.version}")
            shutil.copy(HERE / "drive.js", folder)
        if self.kind == "go" and not (folder / "drive").exists():
            shutil.copy(HERE / self.folder / "main.go", folder)
            _run(folder, "go", "mod", "init", "drive")
            _run(folder, "go", "get", f"{self.module}@v{self.version}")
            _run(folder, "go", "mod", "tidy")
            _run(folder, "go", "build", "-o", "drive", ".")


def _run(folder: Path, *command: str) -> None:
    subprocess.run(command, cwd=folder, check=True, timeout=BUILD_S, env=os.environ | {"GOFLAGS": "-mod=mod"})


CLIENTS = (
    Client("kafka-clients 4", "java", "java4", "4.1.0"),
    Client("kafka-clients 2", "java", "java2", "2.8.2"),
    Client("librdkafka", "python", "librdkafka"),
    Client("kafka-python", "python", "kafka-python"),
    Client("aiokafka", "python", "aiokafka"),
    Client("franz-go", "go", "franz", "1.22.3", "github.com/twmb/franz-go"),
    Client("Sarama", "go", "sarama", "1.61.1", "github.com/IBM/sarama"),
    Client("KafkaJS", "node", "js", "2.2.4", "kafkajs"),
)


def jars_of_java() -> Path | None:
    """Return where the jars of the newest kafka-clients are, fetched if need be; None without a JDK or Maven."""
    java = next(client for client in CLIENTS if client.kind == "java")
    if java.missing():
        return None
    java.build()
    return BUILT / java.folder / "jars"
