"""What importing the package costs, and what the local server says when something is missing."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import zk
from zk import local_zookeeper as local
from zk.errors import LocalZooKeeperError

if TYPE_CHECKING:
    from pathlib import Path

EVERY_MODULE = (
    "zk.brokers, zk.child, zk.client, zk.clock, zk.cluster, zk.connecting, zk.consumers, zk.ephemeral, zk.errors,"
    " zk.forks, zk.local_zookeeper, zk.nodes, zk.offsets, zk.owners, zk.paths, zk.ports,"
    " zk.schemas, zk.sessions, zk.tree, zk.watchdog"
)


def modules_after(statement: str) -> set[str]:
    script = f"import sys; {statement}; print(*{{name.split('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    return set(done.stdout.split())


def test_no_module_imports_gevent_pyspark_or_kafka2011() -> None:
    """Clients run without either, and the coordination layer knows nothing of what is built on it."""
    assert not modules_after(f"import {EVERY_MODULE}") & {"gevent", "pyspark", "kafka2011"}


def test_importing_the_package_imports_not_even_kazoo() -> None:
    """Names are imported when they are first used."""
    assert not modules_after("import zk") & {"kazoo", "subprocess"}
    assert "kazoo" in modules_after("from zk import connect")


def test_every_public_name_is_there() -> None:
    """What __all__ promises can be had, and nothing else."""
    for name in zk.__all__:
        assert getattr(zk, name).__name__ == name
    with pytest.raises(AttributeError, match="nonsense"):
        _ = zk.nonsense


def test_without_jars_the_error_names_both_ways_to_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A user who has neither PySpark nor Debian's package is told what to install."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(local, "_DEBIAN_DIRECTORY", tmp_path)
    with pytest.raises(LocalZooKeeperError, match=r"apt-get install libzookeeper-java, or pip install pyspark"):
        local.find_jars()
    (tmp_path / "zookeeper.jar").touch()
    with pytest.raises(LocalZooKeeperError, match=r"no zookeeper-jute\.jar in "):
        local.find_jars()


def test_an_environment_variable_adds_options_of_the_jvm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """They come after the defaults, so that they win, and before the class."""
    monkeypatch.setattr(local, "find_java", lambda: "java")
    monkeypatch.setattr(local, "find_jars", lambda: "jars")
    before = local.server_command("Main", tmp_path / "zoo.cfg")
    monkeypatch.setenv("ZOOKEEPER_JVM_OPTIONS", "-Xmx1g  -Dname=value")
    command = local.server_command("Main", tmp_path / "zoo.cfg")
    assert [word for word in command if word not in before] == ["-Xmx1g", "-Dname=value"]
    assert command.index("-Xmx128m") < command.index("-Xmx1g") < command.index("Main")


def test_without_java_the_error_names_the_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user without Java is told which one to install."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(LocalZooKeeperError, match="Java 17"):
        local.find_java()


def test_java_home_comes_before_the_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """JAVA_HOME is the user's choice; one without a java is passed over."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setattr("shutil.which", lambda name: "/elsewhere/java")
    assert local.find_java() == "/elsewhere/java"
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").touch()
    assert local.find_java() == f"{tmp_path}/bin/java"
