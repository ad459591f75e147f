"""The processes of brokers on this machine, by the ports that they listen at, and the processor time that they take."""

from __future__ import annotations

import re
import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from kafka2011.cli.session import open_session
from zk.brokers import BrokerRegistry

if TYPE_CHECKING:
    from collections.abc import Collection

_PROC = Path("/proc")
_LISTENS = "0A"
_SOCKET = re.compile(r"socket:\[(\d+)\]")


class LocalBrokers:
    """The brokers that are registered now. `pids` is empty unless all of them are found on this machine."""

    def __init__(self, zk_connect: str) -> None:
        with open_session(zk_connect) as client:
            brokers = BrokerRegistry(client, as_registered=True).brokers().values()
        ports = {broker.port for broker in brokers if _is_here(broker.host)}
        pids = _pids(ports) if len(ports) == len(brokers) else {}
        self.pids = frozenset(pids.values()) if len(pids) == len(brokers) else frozenset()

    def cpu_s(self) -> float | None:
        """Return the processor time of all of them, user and system; None where it is not known of one."""
        try:
            return sum(_process_cpu_s(pid) for pid in self.pids) if self.pids else None
        except OSError:  # it has ended
            return None


def _process_cpu_s(pid: int) -> float:
    return time.clock_gettime(~pid << 3 | 2)  # as clock_getcpuclockid(3) makes the number


def _is_here(host: str) -> bool:
    """Say whether a name stands for an address of this machine: others cannot be bound."""
    with suppress(OSError), socket.socket() as tried:
        tried.bind((host, 0))
        return True
    return False


def _pids(ports: Collection[int]) -> dict[int, int]:
    """Return by port which processes listen, as far as they may be looked at."""
    port_by_inode = {}
    for name in ("tcp", "tcp6"):
        with suppress(OSError):
            for line in (_PROC / "net" / name).read_text().splitlines()[1:]:
                fields = line.split()
                port = int(fields[1].rpartition(":")[2], 16)
                if fields[3] == _LISTENS and port in ports:
                    port_by_inode[fields[9]] = port
    pids = {}
    for process in _PROC.glob("[0-9]*/fd"):
        with suppress(OSError):  # another user's, or it has ended
            for opened in process.iterdir():
                with suppress(OSError):
                    found = _SOCKET.fullmatch(str(opened.readlink()))
                    if found and found[1] in port_by_inode:
                        pids[port_by_inode[found[1]]] = int(process.parent.name)
    return pids
