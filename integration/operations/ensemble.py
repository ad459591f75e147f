"""ZooKeeper as docs/how-to/operations.md sets it up: three servers, each on a machine of its own."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Self

from integration.operations.machine import Machine, blocks_of
from tests.support.waiting import eventually
from zk.four_letters import mode_of
from zk.local_zookeeper import server_command
from zk.ports import free_port

if TYPE_CHECKING:
    from types import TracebackType

SERVERS = (1, 2, 3)
_MAIN_CLASS = "org.apache.zookeeper.server.quorum.QuorumPeerMain"


class Ensemble:
    """Does the page's section on ZooKeeper on three machines; a context manager."""

    def __init__(self) -> None:
        self._ports = {n: [free_port("127.0.0.1") for _ in range(3)] for n in SERVERS}
        self._stack = ExitStack()

    @property
    def zk_connect(self) -> str:
        """The addresses of all three."""
        return ",".join(f"127.0.0.1:{client}" for client, _, _ in self._ports.values())

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            for n in SERVERS:
                self._start(n, stack)
            eventually(lambda: sorted(self.modes()) == ["follower", "follower", "leader"], what="a quorum of three")
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def modes(self) -> list[str]:
        """Say what each server is that answers."""
        return [mode for client, _, _ in self._ports.values() if (mode := mode_of("127.0.0.1", client, 2))]

    def _start(self, n: int, stack: ExitStack) -> None:
        client = self._ports[n][0]
        replaced = {
            "clientPort=2181": f"clientPort={client}\nclientPortAddress=127.0.0.1",
            "echo 1 >": f"echo {n} >",
            **{f"zk-{k}:2888:3888": f"127.0.0.1:{self._ports[k][1]}:{self._ports[k][2]}" for k in SERVERS},
        }
        [block] = blocks_of("ZooKeeper")
        assert all(old in block for old in replaced)
        machine = Machine(replaced)
        conf, data = machine.path("/etc/zookeeper/conf"), machine.path("/var/lib/zookeeper")
        conf.mkdir(parents=True)
        data.mkdir(parents=True)
        (data / "myid").symlink_to(conf / "myid")  # as in Debian's package
        command = server_command(_MAIN_CLASS, conf / "zoo.cfg", ["-Dzookeeper.forceSync=no"])
        machine.services.others["zookeeper"] = command
        stack.enter_context(machine).run(block)
