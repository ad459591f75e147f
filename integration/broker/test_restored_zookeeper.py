"""ZooKeeper is put back to an earlier copy, of when a replica was in sync that has not everything by now."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from integration.broker.test_replicas import ID, SESSION_MS, Replicas, Sending, numbers, read
from integration.cli.calling import output, run
from tests.support.waiting import eventually
from zk.connecting import connect
from zk.errors import ZkError
from zk.local_zookeeper import LocalZooKeeper

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kafka2011.local_cluster import LocalBroker


def test_nobody_leads_before_an_operator_has_chosen(tmp_path: Path, new_broker: Callable[..., LocalBroker]) -> None:
    """The one with everything lives on; the tool names it, and nothing that was confirmed is lost."""
    data, copy = tmp_path / "zookeeper", tmp_path / "copy"
    with LocalZooKeeper(data_dir=data) as zookeeper, connect(zookeeper.connect_string) as client:
        replicas = Replicas(2, new_broker, tmp_path, zookeeper.connect_string, client, 1, 1000, SESSION_MS, {})
        replicas.start("ab")
        with Sending(replicas.zk_connect) as sending:
            sending.await_more()
            eventually(lambda: replicas.registry.read().floor, what="the readable floor is noted")
            zookeeper.pause()
            shutil.copytree(data, copy)
            zookeeper.resume()
            replicas["b"].kill()
            replicas.await_in_sync("a")
            sending.await_more()
        zookeeper.kill()
        shutil.rmtree(data)
        shutil.copytree(copy, data)
        zookeeper.start()

        def troubles() -> dict[str, str]:
            try:
                members = replicas.registry.read().members
            except ZkError:  # not connected yet
                return {}
            return {name: member.trouble for name, member in members.items()}

        eventually(lambda: troubles().get("a"), what="a says that it has seen a newer state")
        replicas["b"].launch()
        eventually(lambda: troubles().get("b"), what="b hears that from a")
        assert "ZooKeeper has gone back" in troubles()["b"]
        assert replicas.registry.read().leader is None
        options = ("--zookeeper", replicas.zk_connect)
        asked = run("replicas", "elect", ID, "b", *options)
        assert (asked.returncode, "elect a, which has most, with --accept-loss" in asked.stderr) == (2, True)
        assert "ZooKeeper has gone back" in run("doctor", "--seconds", 0, *options).stdout
        output("replicas", "elect", ID, "a", "--accept-loss", *options)
        replicas.await_leader("a")
        replicas.await_in_sync("ab")
        eventually(lambda: not any(troubles().values()), what="no trouble any more")
        assert set(sending.confirmed) <= set(numbers(read(replicas["a"])))
        replicas.await_equal("ab")
