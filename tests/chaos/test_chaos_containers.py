"""Containers as processes of a run: what docker and Compose are told, by programs that stand in for them."""

from __future__ import annotations

import json
import os
import signal
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import psutil
import pytest

from integration.chaos.containers import ContainerProcess, Project, peers_of, project_name
from integration.chaos.sampler import Sampler
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from integration.chaos.cluster import Cluster

DOCKER = """\
#!/bin/sh
echo "docker $*" >>"$CALLS"
case "$1 $2" in
"ps "*) wc -l <"$CALLS" ;;
"start --attach") echo $$ >"$CALLS.pid" && echo "it is ready" && exec sleep 120 ;;
"inspect "*) cat "$CALLS.state" ;;
"pause "*) [ -e "$CALLS.tried" ] || { touch "$CALLS.tried" && echo "unable to freeze" >&2 && exit 1; } ;;
"kill --signal=9") kill -9 "$(cat "$CALLS.pid")" ;;
esac
"""
COMPOSE = """\
#!/bin/sh
echo "compose $COMPOSE_PROJECT_NAME ${BROKER_1_PORT:-} $*" >>"$CALLS"
"""


class Calls:
    """What the programs were called with."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()

    def __iter__(self) -> Iterator[str]:
        yield from self.path.read_text().splitlines()

    def of(self, word: str) -> list[str]:
        """Return the calls that contain a word."""
        return [call for call in self if word in call]


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Calls:
    """Put both programs in the way of the real ones."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name, text in (("docker", DOCKER), ("compose", COMPOSE)):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("COMPOSE", str(programs / "compose"))
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    return Calls(tmp_path / "calls")


def test_a_container_is_made_anew_only_when_something_about_it_changed(tmp_path: Path, calls: Calls) -> None:
    """A broker that is only started again keeps its container; other settings or another port need another one."""
    project = Project(tmp_path)
    first = project.container("broker-1", {"command": ["broker"]}, {"BROKER_1_PORT": "15001"})
    assert project.container("broker-1", {"command": ["broker"]}, {"BROKER_1_PORT": "15001"}) == first
    assert len(calls.of(" up ")) == 1
    assert calls.of(" up ")[0].startswith(f"compose {project_name(tmp_path)} 15001 ")
    other = project.container("broker-1", {"command": ["broker", "--override"]}, {"BROKER_1_PORT": "15001"})
    assert calls.of(f"rm --force {first}")
    moved = project.container("broker-1", {"command": ["broker", "--override"]}, {"BROKER_1_PORT": "15002"})
    assert calls.of(f"rm --force {other}")
    assert len({first, other, moved}) == 3
    described = json.loads((tmp_path / "compose.json").read_text())
    assert described == {"services": {"broker-1": {"command": ["broker", "--override"]}}}


def test_signals_go_to_the_container(tmp_path: Path, calls: Calls) -> None:
    """What would reach only docker's own process is said to the container, and again when it was too busy for it."""
    state = tmp_path / "calls.state"
    state.write_text("running 4711\n")
    process = ContainerProcess(Project(tmp_path), "broker-1", {}, {}, tmp_path / "broker.log")
    process.pause()
    assert not list(calls)  # it does not run
    process.start()
    try:
        eventually(lambda: b"ready" in process.log_path.read_bytes())
        process.resume()  # it is not paused
        process.pause()
        state.write_text("paused 4711\n")
        process.resume()
        process.send_signal(signal.SIGTERM)
    finally:
        process.kill()
    assert not process.running
    words = [call.split()[1] for call in calls if process.container in call.split()[-1:]]
    assert [word for word in words if word != "inspect"] == ["start", "pause", "pause", "unpause", "kill", "kill"]
    assert calls.of("kill --signal=15")
    assert calls.of("kill --signal=9")


def test_a_container_that_ends_while_it_is_looked_at() -> None:
    """What it needs is left out, and the sampler goes on: a container's process is looked up each time."""

    class Ending:
        running = True
        found = 0

        @property
        def pid(self) -> int:
            self.found += 1
            if self.found > 1:
                raise psutil.NoSuchProcess(os.getpid())
            return os.getpid()

    broker = SimpleNamespace(name="broker-0", process=Ending())
    cluster = SimpleNamespace(ensemble=SimpleNamespace(servers={}), brokers={0: broker}, clients=[])
    sampler = Sampler(cast("Cluster", cluster))
    sampler.take()
    sampler.take()
    assert [sample.pid for sample in sampler.samples] == [os.getpid()]


def test_servers_reach_one_another_over_the_host(tmp_path: Path) -> None:
    """A server listens under its own name, and finds each of the others at the host, on ports of its own."""
    found = peers_of(2, "172.17.0.1", {1: (15001, 15002), 3: (15003, 15004)}).split()
    assert found == [
        "server.1=172.17.0.1:15001:15002;2181",
        "server.2=zookeeper-2:2888:3888;2181",
        "server.3=172.17.0.1:15003:15004;2181",
    ]


def test_each_directory_has_a_project_of_its_own(tmp_path: Path) -> None:
    """Two runs at once never share containers; the same one finds what it left."""
    assert project_name(tmp_path / "1") != project_name(tmp_path / "2")
    assert project_name(tmp_path / "1") == project_name(tmp_path / "2" / ".." / "1")
