"""Stands in for systemd: starts, stops and restarts what units say, for the `systemctl` of a test's PATH."""

from __future__ import annotations

import configparser
import json
import os
import shlex
import socket
import sys
import threading
import time
from typing import TYPE_CHECKING, Self

from zk.child import ChildProcess, stop_all

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path
    from types import TracebackType

START_TIMEOUT_S = 90.0
_LOOK_S = 0.1

_SYSTEMCTL = """#!{python}
import json, socket, sys
with socket.socket(socket.AF_UNIX) as manager:
    manager.connect({address!r})
    manager.sendall(json.dumps(sys.argv[1:]).encode() + b"\\n")
    with manager.makefile() as answers:
        error = json.loads(answers.readline())
sys.exit(error)
"""


class ServiceManager:
    """Runs instances of the units in a folder, each in a process that does not outlive this one; a context manager.

    `directory` should have a short path: it holds sockets. `rewritten` is applied to the text of units. `others` holds
    the commands of units that are not in the folder.
    """

    def __init__(
        self,
        directory: Path,
        units: Path,
        rewritten: Callable[[str], str],
        environ: Mapping[str, str],
    ) -> None:
        self.running: dict[str, ChildProcess] = {}
        self.others: dict[str, list[str]] = {}
        self._directory = directory
        self._units = units
        self._rewritten = rewritten
        self._environ = environ
        self._listener = socket.socket(socket.AF_UNIX)
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Self:
        address = self._directory / "systemctl.sock"
        self._listener.bind(str(address))
        self._listener.listen()
        program = self._directory / "systemctl"
        program.write_text(_SYSTEMCTL.format(python=sys.executable, address=str(address)))
        program.chmod(0o755)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join(START_TIMEOUT_S)
        self._listener.close()
        stop_all(self.running.values())

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            with client, client.makefile("rw") as both:
                try:
                    error = self._do(*json.loads(both.readline()))
                except Exception as failure:  # noqa: BLE001 - the command that asked says it
                    error = f"systemctl: {failure!r}"
                both.write(json.dumps(error) + "\n")

    def _do(self, verb: str, *words: str) -> str | None:
        names = [word for word in words if not word.startswith("-")]
        for name in names:
            if verb in {"stop", "restart"} or (verb == "disable" and "--now" in words):
                self.running.pop(name).stop() if name in self.running else None
            if verb in {"start", "restart"} or (verb == "enable" and "--now" in words):
                self._start(name)
        return None if verb in {"start", "stop", "restart", "enable", "disable"} else f"systemctl: no {verb} here"

    def _start(self, name: str) -> None:
        environ = dict(self._environ)
        command = self.others.get(name)
        notified = None
        if command is None:
            service = self._service(name)
            command = shlex.split(service["ExecStart"])
            environ |= dict([service["Environment"].split("=", 1)] if "Environment" in service else [])
            if "StateDirectory" in service:
                os.makedirs(self._rewritten(f"/var/lib/{service['StateDirectory']}"), exist_ok=True)  # noqa: PTH103
            if service.get("Type") == "notify":
                notified = self._directory / f"{len(os.listdir(self._directory))}.sock"  # noqa: PTH208
                environ["NOTIFY_SOCKET"] = str(notified)
        child = ChildProcess(command, self._directory / f"{name}.log", env=environ)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as waiting:
            if notified:
                waiting.bind(str(notified))
                waiting.settimeout(_LOOK_S)
            child.start()
            self.running[name] = child
            deadline_s = time.monotonic() + START_TIMEOUT_S
            while notified and not _told(waiting):
                if child.poll() is not None or time.monotonic() > deadline_s:
                    raise RuntimeError(f"{name} did not become ready: {child.log_path.read_text()[-3000:]}")

    def _service(self, name: str) -> Mapping[str, str]:
        """Return what a unit says of its service, for an instance where the name has an @."""
        template, at, instance = name.removesuffix(".service").partition("@")
        text = (self._units / f"{template}{at}.service").read_text(encoding="utf-8")
        parser = configparser.RawConfigParser(strict=False)  # a list may be given in several lines
        parser.optionxform = str  # type: ignore[assignment,method-assign]
        parser.read_string(self._rewritten(text.replace("%i", instance)))
        return parser["Service"]


def _told(waiting: socket.socket) -> bool:
    try:
        return b"READY=1" in waiting.recv(4096)
    except TimeoutError:
        return False
