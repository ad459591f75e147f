"""The units of examples/systemd under systemd itself, in a container: what they allow is enough to serve clients."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from integration.compose.clusters import docker, host_address, why_no_docker
from integration.gateway.today import idempotent_producer, read_partition
from tests.support.waiting import eventually
from zk.local_zookeeper import LocalZooKeeper

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parent.parent
MIRROR = os.environ.get("DEBIAN_MIRROR", "http://deb.debian.org/debian")
PACKAGES = "ca-certificates,dbus,python3,python3-venv,systemd-sysv"
IMAGE = "kafka2011:proof"
SYSTEM = "kafka2011-systemd:proof"
BUILD_TIMEOUT_S = 1500
RESTART_TIMEOUT_S = 60.0
"""Units wait ten seconds before they start again what has failed."""
UNITS = ("kafka2011-broker@1", "kafka2011-gateway")
FILES = {
    "/etc/kafka2011/broker-1.properties": (
        "brokerid=1\nhostname=127.0.0.1\nlog.dir=/var/lib/kafka2011/broker-1\nzk.connect={zk_connect}\n"
    ),
    "/etc/kafka2011/gateway.properties": (
        "directory=/var/lib/kafka2011/gateway\nbind.address=0.0.0.0\nadvertised.host={address}\nzk.connect={zk_connect}\n"
    ),
    # A container may not have users of its own.
    "/etc/systemd/system/service.d/container.conf": "[Service]\nPrivateUsers=no\n",
}

pytestmark = pytest.mark.timeout(BUILD_TIMEOUT_S + 300)


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Build the image of brokers and tools, and a Debian with systemd; skip where that cannot be."""
    reason = why_no_docker()
    if reason is not None:
        pytest.skip(reason)
    if os.geteuid() != 0 or shutil.which("debootstrap") is None:
        pytest.skip("making a Debian system needs root, and debootstrap: apt-get install debootstrap")
    build = [str(ROOT / "scripts" / "images.sh")]
    subprocess.run(build, env={**os.environ, "KAFKA_IMAGE": IMAGE}, timeout=BUILD_TIMEOUT_S, check=True)
    root = tmp_path_factory.mktemp("systemd") / "root"
    bootstrap = ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", "bookworm", str(root), MIRROR]
    subprocess.run(bootstrap, timeout=BUILD_TIMEOUT_S, check=True)
    archive = root.with_suffix(".tar")
    pack = ["tar", "--create", "--one-file-system", f"--file={archive}", f"--directory={root}", "."]
    subprocess.run(pack, timeout=BUILD_TIMEOUT_S, check=True)
    shutil.rmtree(root)
    docker("import", str(archive), SYSTEM)
    archive.unlink()
    yield
    docker("image", "rm", SYSTEM, IMAGE)


@pytest.fixture
def machine(images: None, tmp_path: Path) -> Iterator[str]:
    """Start systemd in a container with the program, its user and the units; give the container's name."""
    options = ["--cap-add=SYS_ADMIN", "--security-opt=seccomp=unconfined", "--security-opt=apparmor=unconfined"]
    options += ["--cgroupns=host", "--volume=/sys/fs/cgroup:/sys/fs/cgroup:rw", "--stop-signal=SIGRTMIN+3"]
    options += [f"--tmpfs={path}" for path in ("/run", "/run/lock", "/tmp")]
    made, program = docker("create", *options, SYSTEM, "/sbin/init").strip(), docker("create", IMAGE).strip()
    try:
        docker("cp", f"{program}:/opt/kafka2011", str(tmp_path / "kafka2011"))
        docker("cp", str(tmp_path / "kafka2011"), f"{made}:/opt/kafka2011")
        docker("cp", f"{ROOT}/examples/systemd/.", f"{made}:/etc/systemd/system")
        docker("start", made)
        eventually(lambda: "running" in inside(made, "systemctl is-system-running || true"), what="systemd")
        inside(made, "ln -s /usr/bin/python3 /usr/local/bin; useradd --system --user-group kafka2011")
        yield made
    finally:
        docker("rm", "--force", "--volumes", made, program)


def inside(machine: str, command: str) -> str:
    return docker("exec", machine, "sh", "-c", command)


def is_active(machine: str, unit: str) -> bool:
    return inside(machine, f"systemctl is-active {unit} || true").strip() == "active"


def test_a_broker_and_a_gateway_serve_clients_under_their_units(machine: str) -> None:
    """Restarted after kill -9 they go on, and they stop in order."""
    [address] = docker("inspect", "--format", "{{ .NetworkSettings.IPAddress }}", machine).split()
    servers = f"{address}:9092"
    with LocalZooKeeper(host=host_address()) as zookeeper:
        for path, text in FILES.items():
            written = text.format(address=address, zk_connect=f"{host_address()}:{zookeeper.port}")
            inside(machine, f"mkdir -p {Path(path).parent} && printf '{written}' >{path}")
        inside(machine, f"systemctl daemon-reload && systemctl enable --now {' '.join(UNITS)}")
        producer = idempotent_producer(servers)
        producer.produce("views", "one", partition=0)
        assert producer.flush(60) == 0
        for unit in UNITS:
            inside(machine, f"systemctl kill --signal=KILL {unit}")
            eventually(lambda unit=unit: not is_active(machine, unit), what=f"the end of {unit}")  # type: ignore[misc]
        for unit in UNITS:
            eventually(lambda unit=unit: is_active(machine, unit), RESTART_TIMEOUT_S, what=unit)  # type: ignore[misc]
        producer.produce("views", "two", partition=0)
        assert producer.flush(60) == 0
        assert read_partition(servers, "views", 0) == [(0, b"one"), (1, b"two")]
        for unit in reversed(UNITS):
            assert inside(machine, f"systemctl show --property=NRestarts {unit}").strip() == "NRestarts=1"
            inside(machine, f"systemctl stop {unit}")
            assert inside(machine, f"systemctl show --property=Result {unit}").strip() == "Result=success"
