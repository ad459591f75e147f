"""A real load balancer in a process of its own: Debian's haproxy with the configuration of examples/haproxy.cfg."""

from __future__ import annotations

import os
import platform
import shutil
import socket
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from integration.debian.fetching import fetch
from tests.support.waiting import eventually
from zk.child import ChildProcess
from zk.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafka2011.local_cluster import LocalCluster

ROOT = Path(__file__).parents[2]
CONFIGURATION = ROOT / "examples" / "haproxy.cfg"
FETCHED = ROOT / "build" / "haproxy"


def find_haproxy() -> list[str]:
    """Return how to call haproxy, fetched from Debian's archive where it is not installed. Raises LookupError."""
    installed = shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin")
    if installed is not None:
        return [installed]
    program = FETCHED / "usr" / "sbin" / "haproxy"
    if not program.exists():
        fetch(platform.freedesktop_os_release().get("VERSION_CODENAME", ""), "complete", "haproxy", FETCHED)
    libraries = ":".join(map(str, FETCHED.glob("usr/lib/*-linux-gnu")))
    return ["env", f"LD_LIBRARY_PATH={libraries}", str(program)]


@contextmanager
def balancer(cluster: LocalCluster, directory: Path) -> Iterator[int]:
    """Run one before the three brokers of a cluster, and give its port. Raises LookupError."""
    port = free_port()
    addresses = {
        f"BROKER_{number}": f"{each.host}:{each.port}" for number, each in enumerate(cluster.brokers.values(), 1)
    }
    environ = {**os.environ, **addresses, "BALANCER": f"127.0.0.1:{port}"}
    output = directory / "haproxy.log"
    with ChildProcess([*find_haproxy(), "-db", "-f", str(CONFIGURATION)], output, env=environ) as process:

        def listens() -> bool:
            assert process.running, output.read_text()
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", port)) == 0

        eventually(listens, what="haproxy")
        yield port
