"""Replicas of 0.2.0 and of this release, in one broker id: rolled forth and back, nothing confirmed is lost."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from integration.broker.test_replicas import Sending, numbers, read
from kafka2011.local_cluster import LocalBroker
from kafka2011.replica.known_file import KnownFile
from kafka2011.replica.state import ReplicaState
from tests.support.waiting import eventually
from zk.brokers import BrokerRegistry
from zk.connecting import connect
from zk.local_zookeeper import LocalZooKeeper
from zk.ports import free_port
from zk.replicas import ReplicaRegistry

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parent.parent
RELEASE, COMMIT = "0.2.0", "c0a9a56"
ID = 3
_NEW = (sys.executable, "-m", "kafka2011")

pytestmark = pytest.mark.timeout(600)


class Rolled(NamedTuple):
    """One replica as either release runs it, on one disk at one port."""

    old: LocalBroker
    new: LocalBroker

    @property
    def running(self) -> LocalBroker:
        return self.old if self.old.running else self.new


@pytest.fixture(scope="module")
def old_program(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """Return what runs the command line of the former release."""
    tree = tmp_path_factory.mktemp(RELEASE)
    archive = subprocess.run(["git", "archive", COMMIT], cwd=ROOT, check=False, capture_output=True)
    if archive.returncode:
        pytest.skip(f"there is no commit {COMMIT} of {RELEASE} here: {archive.stderr.decode()}")
    subprocess.run(["tar", "x", "-C", str(tree)], input=archive.stdout, check=True)
    environment = ("env", "PYTHONSAFEPATH=1", f"PYTHONPATH={tree}")
    where = [*environment, sys.executable, "-c", "import kafka2011, zk; print(kafka2011.__file__, zk.__file__)"]
    said = subprocess.run(where, check=True, capture_output=True, text=True).stdout
    assert all(path.startswith(f"{tree}{os.sep}") for path in said.split()), said
    return (*environment, sys.executable, "-m", "kafka2011")


@pytest.mark.parametrize("order", ["ab", "ba"])
@pytest.mark.parametrize("end", ["stop", "kill"])
def test_nothing_is_lost_while_replicas_are_rolled(
    old_program: tuple[str, ...], tmp_path: Path, order: str, end: str
) -> None:
    """Each is ended and started as the other release, until all are new, and then until all are old again."""
    with LocalZooKeeper(data_dir=tmp_path / "zookeeper") as zookeeper, connect(zookeeper.connect_string) as client:
        settings = {
            "zk.connect": zookeeper.connect_string,
            "zk.sessiontimeout.ms": "2000",
            "replica.lag.time.max.ms": "1000",
            "replica.address.gap.ms": "100",
            "log.file.size": "200000",
        }
        replicas: dict[str, Rolled] = {}
        for name in "ab":
            own = {**settings, "replica.name": name, "port": str(free_port())}
            replicas[name] = Rolled(*(LocalBroker(ID, tmp_path / name, own, it) for it in (old_program, _NEW)))
        registry = ReplicaRegistry(client, ID)
        replicas["a"].old.log_dir.mkdir(parents=True)
        begun = KnownFile(replicas["a"].old.log_dir).load_or_begin("a").replica
        registry.begin(ReplicaState.first(begun).text)

        def state() -> ReplicaState:
            text = registry.read().state
            assert text is not None
            return ReplicaState.of(text, "the test's")

        def await_well() -> None:
            eventually(lambda: {it.name for it in state().in_sync} == {"a", "b"}, what="both in sync")
            eventually(lambda: ID in BrokerRegistry(client).brokers(), what="a registered leader")

        try:
            for each in replicas.values():
                each.old.launch()
            await_well()
            with Sending(zookeeper.connect_string) as sending:
                for release, name in itertools.product(("new", "old"), order):
                    sending.await_more()
                    ended = replicas[name].running
                    if end == "kill":
                        ended.kill()
                    else:
                        ended.stop()
                    getattr(replicas[name], release).launch()
                    await_well()
                    sending.await_more()
            _compare(replicas, lambda: BrokerRegistry(client).brokers()[ID].port, sending.confirmed)
        finally:
            for each in replicas.values():
                for process in each:
                    process.stop()


def _compare(replicas: dict[str, Rolled], leader_port: Callable[[], int], confirmed: list[int]) -> None:
    """See that all that was confirmed is there, and that both have the same bytes."""
    port = leader_port()
    leader = next(each.running for each in replicas.values() if each.running.port == port)
    assert set(confirmed) <= set(numbers(read(leader)))

    def logs(name: str) -> dict[str, bytes]:
        directory = replicas[name].running.log_dir
        return {str(path.relative_to(directory)): path.read_bytes() for path in sorted(directory.glob("*/*.kafka"))}

    eventually(lambda: logs("a") == logs("b"), what="the same bytes at both")
