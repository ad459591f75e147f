"""The cluster that the tests beside this file run on: the containers of docker-compose.yml."""

from __future__ import annotations

import ipaddress
import os
import secrets
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from testcontainers.compose import DockerCompose

from integration.debian.fetching import fetch
from tests.support.waiting import eventually
from zk.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).parents[2]
COMPOSE = ROOT / "scripts" / "compose.sh"
FETCHED = ROOT / "build" / "compose-v2"
WATCHED = ("producer", "reports-1", "reports-2")
REPLICATED = ("replicated-a", "replicated-b", "replicated-c")
SECURE = ("secure-zookeeper", "secure-broker-1", "secure-broker-2")
HEALTHY_TIMEOUT_S = 180.0
COMMAND_TIMEOUT_S = 90.0


def run_here(arguments: Sequence[str], zk_connect: str, lines: bytes = b"") -> str:
    """Run `kafka2011` on this host, and return what it printed."""
    environ = {**os.environ, "KAFKA2011_ZK_CONNECT": zk_connect}
    return _run([sys.executable, "-m", "kafka2011", *arguments], lines, environ)


def why_no_docker() -> str | None:
    """Return why containers cannot be started here; None when they can."""
    try:
        answer = subprocess.run(["docker", "info"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"docker info: {error}"
    return None if answer.returncode == 0 else f"docker info: {(answer.stderr or answer.stdout).strip()}"


def find_compose(major: int) -> str:
    """Return the program that is Compose of a version, 1 or 2. Raises LookupError where there is none.

    Version 2 is fetched from Debian's archive, into build/, where it is not installed.
    """
    fetched = FETCHED / "usr" / "libexec" / "docker" / "cli-plugins" / "docker-compose"
    candidates = ["docker-compose", str(fetched)]
    plugin = subprocess.run(
        [
            "docker",
            "info",
            "--format",
            '{{ range .ClientInfo.Plugins }}{{ if eq .Name "compose" }}{{ .Path }}{{ end }}{{ end }}',
        ],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    if plugin.returncode == 0 and plugin.stdout.strip():
        candidates.insert(0, plugin.stdout.strip())
    for candidate in candidates:
        if _version_of(candidate).startswith(f"{major}."):
            return candidate
    if major == 1:
        raise LookupError("docker-compose 1.29.2 is not installed")
    fetch("trixie", "download", "docker-compose", FETCHED)
    if not _version_of(str(fetched)).startswith(f"{major}."):
        raise LookupError(f"{fetched} does not run here")
    return str(fetched)


def _version_of(program: str) -> str:
    """Ask a program for its version of Compose; "" where it cannot be run."""
    with suppress(OSError):
        command = [program, "version", "--short"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
        if done.returncode == 0:
            return done.stdout.strip()
    return ""


class ComposeCluster:
    """The containers of docker-compose.yml, in a project and on ports of their own."""

    def __init__(self, major: int) -> None:
        self._resources = ExitStack()
        self._project = f"kafka2011-test-{secrets.token_hex(4)}"
        self._environ = self._resources.enter_context(pytest.MonkeyPatch.context())
        self.host = host_address()
        ports: list[int] = []
        while len(ports) < 18:
            port = free_port(self.host)
            if port not in ports:
                ports.append(port)
        self.zookeeper_ports = ports[:3]
        for number, port in enumerate(self.zookeeper_ports, 1):
            self._environ.setenv(f"ZOOKEEPER_{number}_PORT", str(port))
        for number, port in enumerate(ports[3:7], 1):
            self._environ.setenv(f"BROKER_{number}_PORT", str(port))
        self.balancer_port = ports[7]
        self._environ.setenv("BALANCER_PORT", str(self.balancer_port))
        self.reports_port = ports[8]
        self._environ.setenv("REPORTS_PORT", str(self.reports_port))
        self._environ.setenv("OFFLINE_BROKER_PORT", str(ports[9]))
        self.secure_zookeeper_port = ports[10]
        self._environ.setenv("SECURE_ZOOKEEPER_PORT", str(ports[10]))
        self._environ.setenv("SECURE_BROKER_1_PORT", str(ports[11]))
        self._environ.setenv("SECURE_BROKER_2_PORT", str(ports[12]))
        self.ui_port = ports[13]
        self._environ.setenv("UI_PORT", str(self.ui_port))
        self.gateway_port = ports[14]
        self._environ.setenv("GATEWAY_PORT", str(self.gateway_port))
        for name, port in zip("ABC", ports[15:], strict=True):
            self._environ.setenv(f"REPLICATED_{name}_PORT", str(port))
        self._environ.setenv("COMPOSE_PROJECT_NAME", self._project)
        self._environ.setenv("HOST_ADDRESS", self.host)
        self._environ.setenv("KAFKA_IMAGE", os.environ.get("KAFKA_IMAGE", "kafka2011:test"))
        self._environ.setenv("KAFKA_SPARK_IMAGE", "kafka2011-spark:test")
        self._environ.setenv("COMPOSE", find_compose(major))
        _run([str(ROOT / "scripts" / "images.sh")], timeout_s=540)
        self._waits = major > 1  # for health, with --wait
        self._services = [f"{name}-{number}" for name in ("zookeeper", "broker") for number in (1, 2, 3)]
        self._compose = DockerCompose(
            ROOT,
            docker_command_path=str(COMPOSE),
            wait=self._waits,
            services=self._services,
        )
        self.broker_ids = (1, 2, 3)

    @property
    def zk_connect(self) -> str:
        return ",".join(f"{self.host}:{port}" for port in self.zookeeper_ports)

    def start(self) -> None:
        self._compose.start()
        self._await_health()

    def use_names(self) -> None:
        """Have brokers register their names in the network from the next start on, as they do by default."""
        self._environ.delenv("HOST_ADDRESS")
        self.host = "127.0.0.1"

    def stop(self) -> None:
        self._compose.stop(down=False)
        codes = {name: code for name, code in self._inspect("{{ .State.ExitCode }}").items() if "broker" in name}
        assert set(codes.values()) == {"0"}, f"exit status of the brokers: {codes}"
        self._down()

    def close(self) -> None:
        with self._resources:
            self._down("--volumes", "--timeout", "5")

    def add_broker(self) -> int:
        self._run_compose("up", "-d", "broker-4")
        self._await_health()
        self._services.append("broker-4")
        return 4

    def watch(self) -> None:
        """Start what the profile `demo` adds, and wait until all of it is healthy."""
        self._run_compose("--profile", "demo", "up", "-d", *(["--wait"] if self._waits else []))
        if not self._waits:
            self._await_health()

    def end_watch(self) -> None:
        """Take away what `watch` started."""
        self._run_compose("--profile", "demo", "rm", "--stop", "--force", *WATCHED)

    def add_ui(self) -> None:
        """Start what the profile `ui` adds, and wait until it is healthy."""
        self._run_compose("--profile", "ui", "up", "-d", "--no-build", "ui")
        self._await_health()

    def end_ui(self) -> None:
        """Take away what `add_ui` started."""
        self._run_compose("--profile", "ui", "rm", "--stop", "--force", "ui")

    def add_gateway(self) -> None:
        """Start what the profile `gateway` adds, and wait until it is healthy."""
        self._run_compose("--profile", "gateway", "up", "-d", "--no-build", "gateway")
        self._await_health()

    def end_gateway(self) -> None:
        """Take away what `add_gateway` started, but for its volume."""
        self._run_compose("--profile", "gateway", "rm", "--stop", "--force", "gateway")

    def add_balancer(self) -> None:
        """Start the load balancer before the first three brokers."""
        _run([str(ROOT / "scripts" / "images.sh"), "balancer"], timeout_s=540)
        self._run_compose("up", "-d", "--no-deps", "balancer")
        self._await_health()
        self._services.append("balancer")

    def add_secure(self) -> None:
        """Start what the profile `secure` adds, and wait until all of it is healthy."""
        self._run_compose("--profile", "secure", "up", "-d", "--no-build", *SECURE)
        self._await_health("certificates")

    def end_secure(self) -> None:
        """Take away what `add_secure` started, but for its volumes."""
        self._run_compose("--profile", "secure", "rm", "--stop", "--force", "secure-certificates", *SECURE)

    def secure_run(self, arguments: Sequence[str], lines: bytes = b"") -> str:
        """Run `kafka2011` beside the secure brokers, and return what it printed."""
        return self._run_compose("run", "--rm", "-T", "secure-cli", *arguments, lines=lines)

    def write_rules(self, text: str) -> None:
        """Have the secure brokers find this in their allow file."""
        arguments = ["run", "--rm", "-T", "--entrypoint", "sh", "secure-certificates", "-c"]
        self._run_compose(*arguments, "cat >/etc/kafka2011/allow.toml", lines=text.encode())

    def files_of(self, service: str, directory: str, into: Path) -> None:
        """Copy a directory of a service's container to this machine."""
        [name] = self._inspect("", service)
        docker("cp", f"{name.removeprefix('/')}:{directory}/.", str(into))

    def add_replicated(self) -> None:
        """Start what the profile `replicated` adds, and wait until all of it is healthy."""
        self._run_compose("--profile", "replicated", "up", "-d", "--no-build", *REPLICATED)
        self._await_health("init")

    def end_replicated(self) -> None:
        """Take away what `add_replicated` started, but for its volumes."""
        self._run_compose("--profile", "replicated", "rm", "--stop", "--force", "replicated-init", *REPLICATED)

    def replicated_run(self, arguments: Sequence[str], lines: bytes = b"") -> str:
        """Run `kafka2011` beside the replicas, and return what it printed."""
        return self._run_compose("run", "--rm", "-T", "replicated-cli", *arguments, lines=lines)

    def lose_replica_a(self) -> None:
        """End it with kill -9, and remove what is on its disk."""
        self._run_compose("kill", "replicated-a")
        wipe = 'rm -r "$KAFKA2011_LOG_DIR"'
        self._run_compose("run", "--rm", "-T", "--no-deps", "--entrypoint", "sh", "replicated-init", "-c", wipe)

    def start_replica_a(self) -> None:
        """Have it back."""
        self._run_compose("start", "replicated-a")

    def add_pipeline(self, build_timeout_s: float) -> None:
        """Start what the profile `pipeline` adds; its image, with Spark, is built first."""
        _run([str(ROOT / "scripts" / "images.sh"), "spark"], timeout_s=build_timeout_s)
        self._run_compose("--profile", "pipeline", "up", "-d", "--no-build")

    def run_in(self, service: str, arguments: Sequence[str]) -> str:
        """Run `kafka2011` in the container of a service, and return what it printed."""
        return self._run_compose("exec", "-T", service, "kafka2011", *arguments)

    def kill_broker(self, broker_id: int) -> None:
        # Its parent, the container's first process, ends with it; from inside, that one itself cannot be killed.
        command = "kill -9 $(cat /proc/1/task/1/children)"
        subprocess.run(
            [str(COMPOSE), "exec", "-T", f"broker-{broker_id}", "sh", "-c", command], capture_output=True, check=False
        )

    def revive_broker(self, broker_id: int) -> None:
        """Wait until the restart policy has started the broker again, once."""
        name = f"broker-{broker_id}"
        eventually(lambda: [*self._inspect("{{ .RestartCount }}", name).values()] != ["0"], what=f"a restart of {name}")
        [count] = self._inspect("{{ .RestartCount }}", name).values()
        assert count == "1", f"broker {broker_id} was started again {count} times"
        self._await_health()

    def stop_zookeeper(self, number: int) -> None:
        self._run_compose("stop", f"zookeeper-{number}")

    def start_zookeeper(self, number: int) -> None:
        self._run_compose("start", f"zookeeper-{number}")
        self._await_health()

    def run(self, arguments: Sequence[str], lines: bytes = b"") -> str:
        return self._run_compose("run", "--rm", "-T", "cli", *arguments, lines=lines)

    def output_of(self, broker_id: int) -> str:
        [text] = [docker("logs", name) for name in self._inspect("", f"broker-{broker_id}")]
        return text

    def _down(self, *options: str) -> None:
        names = ("balancer", "demo", "gateway", "grow", "pipeline", "replicated", "secure", "tools", "ui")
        profiles = [word for name in names for word in ("--profile", name)]
        self._run_compose(*profiles, "down", *options)

    def _run_compose(self, *arguments: str, lines: bytes = b"") -> str:
        return _run([str(COMPOSE), *arguments], lines, cwd=ROOT)

    def _inspect(self, wanted: str, service: str = "") -> dict[str, str]:
        """Return something of every container, or of one service's, by name."""
        filters = ["--filter", f"label=com.docker.compose.project={self._project}"]
        if service:
            filters += ["--filter", f"label=com.docker.compose.service={service}"]
        ids = docker("ps", "--all", "--quiet", *filters).split()
        lines = docker("inspect", "--format", f"{{{{ .Name }}}} {wanted}", *ids).splitlines()
        return {name: rest for name, _, rest in (line.partition(" ") for line in lines)}

    def _await_health(self, ends: str = "nothing") -> None:
        """Wait until all containers are healthy; one with `ends` in its name has ended well."""
        deadline_s = time.monotonic() + HEALTHY_TIMEOUT_S
        while bad := {
            name: found
            for name, found in self._health().items()
            if found != "running healthy" and not (ends in name and found == "exited ")
        }:
            if time.monotonic() > deadline_s:
                logs = "\n".join(docker("logs", "--tail", "20", name) for name in bad)
                raise TimeoutError(f"not healthy after {HEALTHY_TIMEOUT_S:g} s: {bad}\n{logs}")
            time.sleep(0.2)

    def _health(self) -> dict[str, str]:
        return self._inspect("{{ .State.Status }} {{ with .State.Health }}{{ .Status }}{{ end }}")


def docker(*arguments: str) -> str:
    """Run a docker command and return what it printed, errors included."""
    return _run(["docker", *arguments], merge=True)


def host_address() -> str:
    """Find an address of this host that containers reach too: its own on their bridge, else that on the network."""
    subnet = docker("network", "inspect", "bridge", "--format", "{{ (index .IPAM.Config 0).Subnet }}").strip()
    address = str(next(ipaddress.ip_network(subnet).hosts()))
    with socket.socket() as probe:
        try:
            probe.bind((address, 0))
        except OSError:  # the bridge is in a virtual machine
            pass
        else:
            return address
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # sends nothing
        return str(probe.getsockname()[0])


def _run(
    command: Sequence[str],
    lines: bytes = b"",
    environ: dict[str, str] | None = None,
    *,
    cwd: Path | None = None,
    merge: bool = False,
    timeout_s: float = COMMAND_TIMEOUT_S,
) -> str:
    errors = subprocess.STDOUT if merge else subprocess.PIPE
    done = subprocess.run(
        command,
        input=lines,
        stdout=subprocess.PIPE,
        stderr=errors,
        env=environ,
        cwd=cwd,
        timeout=timeout_s,
        check=False,
    )
    said = done.stdout if merge else done.stderr
    assert done.returncode == 0, f"{' '.join(command)} ended with {done.returncode}: {said.decode(errors='replace')}"
    return done.stdout.decode()
