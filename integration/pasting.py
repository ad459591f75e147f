"""Pastes into a shell what documents have one type, as it stands, in a network and among processes of its own.

So the ports that the documents name are free, whatever runs on this machine, and nothing outlives the shell.
"""

from __future__ import annotations

import os
import queue
import re
import subprocess
import threading
import time
from functools import cache
from pathlib import Path
from typing import NamedTuple, Self

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
OWN_NETWORK = ("unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc")

_END = "== the block has ended with"

# A new network has a loopback device that is down, and a small system has no `ip` to raise it.
LOOPBACK_UP = """
import fcntl, os, socket, struct, sys
SIOCSIFFLAGS, IFF_UP = 0x8914, 1
with socket.socket() as any_socket:
    fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh", b"lo", IFF_UP))
os.execvp(sys.argv[1], sys.argv[1:])
"""

AFTERWARDS = (
    "kafka2011 groups",
    "kafka2011 groups list",
    "kafka2011 registry",
    "kafka2011 topics list --json",
    "kafka2011 topics describe views --json",
    "kafka2011 ping",
    "kafka2011 ping --zookeeper localhost:2181",
    "kafka2011 offsets views",
    "kafka2011 replay views --to-topic views-again",
    "kafka2011 fetch views",
)
"""Of docs/reference/commands.md: what ends by itself, and needs nothing but the README's cluster."""


class Pasted(NamedTuple):
    """What a section has one type: on Debian, to install it, and then; and what the last command prints."""

    debian: str
    setup: str
    text: str
    prints: str


def first_steps() -> Pasted:
    """Return the README's way to a first message."""
    section = README.read_text(encoding="utf-8").split("\n## Five lines to the first message\n")[1].split("\n## ")[0]
    [text] = re.findall(r"^```sh\n(.*?)^```", section, re.DOTALL | re.MULTILINE)
    [prints] = re.findall(r"prints\n\n```\n(.*?)^```", section, re.DOTALL | re.MULTILINE)
    [debian] = re.findall(r"`(apt-get install [^`]*)`", section)
    begin = text.index("kafka2011 ")
    return Pasted(" ".join(debian.split()), text[:begin], text[begin:], prints)


def for_a_shell(text: str) -> str:
    """Return what a shell is to read: a paste goes on after a command that fails, and ends with status 1."""
    trap = """trap 'failed=1; echo "this failed: $BASH_COMMAND" >&2' ERR"""
    return f"{trap}\n{text}\nexit ${{failed:-0}}\n"


@cache
def why_no_own_network() -> str | None:
    """Say why a process cannot have a network of its own here; None if it can."""
    done = subprocess.run([*_unshare(), "true"], capture_output=True, text=True, timeout=30, check=False)
    return done.stderr.strip() or f"unshare ends with {done.returncode}" if done.returncode else None


def paste(text: str, python: str, cwd: Path, environ: dict[str, str], timeout_s: float) -> str:
    """Paste into a shell, and return what it printed, errors included. Fails where a command fails."""
    try:
        done = subprocess.run(
            [*_unshare(), python, "-c", LOOPBACK_UP, "bash"],
            cwd=cwd,
            env=environ,
            input=for_a_shell(text).encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise AssertionError(f"not done within {timeout_s:g} s:\n{(error.output or b'').decode()}") from None
    assert done.returncode == 0, done.stdout.decode()
    return done.stdout.decode()


class Said(NamedTuple):
    """What a block printed, and the status that it ended with."""

    text: str
    status: int


class Shell:
    """A shell in which one block is typed after the other, in a network of its own; a context manager."""

    def __init__(self, python: str, cwd: Path, environ: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            [*_unshare(), python, "-c", LOOPBACK_UP, "bash"],
            cwd=cwd,
            env=environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        self._said: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._said.put(line.decode())

    def type_in(self, block: str, timeout_s: float) -> Said:
        """Type a block; return what it printed and its status. Fails if it does not end in time."""
        assert self._process.stdin is not None
        self._process.stdin.write(f'{block}echo "{_END} $?"\n'.encode())
        self._process.stdin.flush()
        deadline_s = time.monotonic() + timeout_s
        lines: list[str] = []
        while True:
            try:
                line = self._said.get(timeout=max(deadline_s - time.monotonic(), 0))
            except queue.Empty:
                raise AssertionError(f"{block}not done within {timeout_s:g} s:\n{''.join(lines)}") from None
            if line.startswith(_END):
                return Said("".join(lines), int(line.split()[-1]))
            lines.append(line)

    def __enter__(self) -> Self:
        self._reader.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()  # all that was started in its network ends with it
        self._reader.join()
        self._process.__exit__(None, None, None)  # closes the pipes, and waits


def _unshare() -> tuple[str, ...]:
    return OWN_NETWORK if os.geteuid() == 0 else (*OWN_NETWORK, "--map-root-user")
