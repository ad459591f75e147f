"""Who reads the network of a closed cluster, on all ports of all its processes, finds nothing of what it is about."""

from __future__ import annotations

import secrets
import socket
import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from integration.chaos.ensemble import Ensemble
from integration.chaos.links import Links
from kafka2011 import ConsumerConnector, LocalCluster, Producer
from kafka2011.local_security import secure
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

MARK = secrets.token_hex(4)
"""So that what others do on this machine meanwhile is not found."""
TOPICS, GROUPS = [f"topic-{number}-{MARK}" for number in range(3)], [f"group-{number}-{MARK}" for number in range(3)]
MEMBERS, PAYLOADS = [f"member-{number}-{MARK}" for number in range(3)], [f"said-{n}-{MARK}" for n in range(3)]
PLANTED = {*TOPICS, *GROUPS, *MEMBERS, *PAYLOADS}
_ALL = 3
"""Every kind of frame."""


class Listener:
    """Takes all that passes over the loopback, in a thread; a context manager."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ALL))
        self._socket.bind(("lo", 0))
        self._socket.settimeout(0.2)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.taken = bytearray()

    def _run(self) -> None:
        while not self._over.is_set():
            try:
                self.taken += self._socket.recv(70_000)
            except TimeoutError:
                continue

    def __enter__(self) -> Listener:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(20)
        self._socket.close()


def use(zk_connect: str) -> None:
    """Have messages pass, and offsets be committed."""
    for topic, group, member, payload in zip(TOPICS, GROUPS, MEMBERS, PAYLOADS, strict=True):
        with Producer({"zk.connect": zk_connect, "confirm": True}) as producer:
            producer.send(topic, payload.encode()).result()
        settings = {"zk.connect": zk_connect, "groupid": group, "consumerid": member, "autooffset.reset": "smallest"}
        with ConsumerConnector(settings) as consumer:
            [stream] = consumer.create_message_streams({topic: 1})[topic]
            assert next(stream).payload == payload.encode()
            consumer.commit_offsets()


@pytest.mark.parametrize("is_secure", [False, True])
def test_nothing_is_read_off_the_wires_of_a_closed_cluster(tmp_path: Path, is_secure: bool) -> None:
    """Clients, brokers, and the servers of ZooKeeper among themselves; of an open one everything is."""
    try:
        listener = Listener()
    except PermissionError:
        pytest.skip("only root may listen")
    with ExitStack() as stack:
        links = stack.enter_context(Links())
        local = secure(tmp_path / "security", ["127.0.0.1"]) if is_secure else None
        ensemble = stack.enter_context(
            Ensemble(
                tmp_path / "ensemble",
                links,
                tls=None if local is None else local.zookeeper,
                security="" if local is None else str(local.security),
            )
        )
        zk_connect = ensemble.connect_for("all")
        stack.enter_context(listener)
        stack.enter_context(
            LocalCluster(
                2,
                zk_connect=zk_connect,
                directory=tmp_path / "brokers",
                properties={} if local is None else dict(local.properties),
            )
        )
        use(zk_connect)
        eventually(lambda: len(listener.taken) > 100_000)
    found = {name for name in PLANTED if name.encode() in listener.taken}
    assert found == (set() if is_secure else PLANTED)
