"""Links between processes of one machine: proxies on loopback that can be frozen, cut, slowed or black-holed.

Each direction fails by itself:

    frozen  nothing arrives, and nothing is lost: what was sent arrives once the link is open again
    slow    everything arrives late
    hole    what is sent is lost, and the connections that lost something end when the link is open again
    cut     connections are reset, and new ones are refused (both ways at once)

All links of a run are served by one process of their own, `proxies`: whatever else a run does would hold them up.
"""

from __future__ import annotations

import enum
import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Self

ROOT = Path(__file__).parents[2]
_END_TIMEOUT_S = 30.0


class Mode(enum.StrEnum):
    """What a link does with what is sent over it."""

    OPEN = "open"
    FROZEN = "frozen"
    SLOW = "slow"
    HOLE = "hole"
    CUT = "cut"


class Way(enum.StrEnum):
    """A direction: from the one that connects to the one that listens, or back."""

    FORTH = "forth"
    BACK = "back"


class Link:
    """One address that stands for another; made by `Links.add`."""

    def __init__(self, name: str, target: tuple[str, int], links: Links, host: str, port: int) -> None:
        self.name = name
        self.target = target
        self.host = host
        self.port = port
        self._links = links

    @property
    def address(self) -> str:
        """Where to connect, as host:port."""
        return f"{self.host}:{self.port}"

    def turn(self, mode: Mode, ways: tuple[Way, ...] = tuple(Way), *, only_pid: int | None = None) -> None:
        """Have the link do this in some directions from now on, to all or to one process; returns once it does."""
        self._links.ask(do="turn", name=self.name, mode=mode, ways=ways, only_pid=only_pid)


class Links:
    """All links of a run; a context manager, which ends them."""

    def __init__(self) -> None:
        self.every: dict[str, Link] = {}
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None

    def add(self, name: str, target: tuple[str, int], *, host: str = "127.0.0.1", port: int = 0) -> Link:
        """Make a link to a target, or return the one of this name if it leads there and listens there."""
        known = self.every.get(name)
        if known is not None and known.target == target and (known.host, port or known.port) == (host, known.port):
            return known
        found = self.ask(do="add", name=name, target=target, host=host, port=port)
        link = self.every[name] = Link(name, target, self, found["host"], found["port"])
        return link

    def open_all(self) -> None:
        """Heal every link."""
        for link in self.every.values():
            link.turn(Mode.OPEN)

    def ask(self, **asked: object) -> dict[str, Any]:
        """Have the process do something. Raises RuntimeError when it cannot, or has ended."""
        with self._lock:
            if self._process is None or self._process.stdin is None or self._process.stdout is None:
                raise RuntimeError("the links have not begun")
            self._process.stdin.write(json.dumps(asked) + "\n")
            self._process.stdin.flush()
            answer: dict[str, Any] = json.loads(self._process.stdout.readline() or '{"error": "the links have ended"}')
        if "error" in answer:
            raise RuntimeError(f"{asked['do']} {asked['name']}: {answer['error']}")
        return answer

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "integration.chaos.proxies"]
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is None:
            return
        try:
            self._process.communicate(timeout=_END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
