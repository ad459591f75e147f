"""A child process that ends a ZooKeeper session at once when this process dies, instead of when its timeout is over.

A process that is killed cannot end its session, and its ephemeral nodes stay until ZooKeeper has heard nothing for the
session's timeout. The child holds the session's id and password and the other end of a pipe, which breaks when this
process is gone, whatever the reason. A machine that dies takes the child along: then it is the timeout that counts, as
it is for a process that hangs. If this process wants that, the child kills it when it hangs (`beat`).
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from zk import forks
from zk.closing import Closing

if TYPE_CHECKING:
    from zk.client import ZkClient

logger = logging.getLogger(__name__)

_PROGRAM = Path(__file__).with_name("watchdog_exec.py")
_END_TIMEOUT_S = 10.0


class SessionWatchdog(Closing):
    """Watches over the sessions of a client, the present one and those that follow it; a context manager.

    Close it after the client. Raises OSError when no process can be started. A forked child has no part in it: the pipe
    breaks when the process ends that has made it.
    """

    def __init__(self, client: ZkClient) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._is_closed = False
        self._is_broken = False
        self.told: bytes | None = None
        # A session of its own, so that what is meant for this process's group does not end it. Nothing but its standard
        # input is inherited: it must hold no file or pipe open that somebody waits for the end of.
        self._process = subprocess.Popen(  # noqa: S603 - our own program, without a shell
            [sys.executable, "-I", "-S", str(_PROGRAM), str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        assert self._process.stdin is not None
        self.pipe_fd = self._process.stdin.fileno()
        os.set_blocking(self.pipe_fd, False)  # kazoo's connection loop tells it, and waits for nobody
        forks.register(self)
        client.add_listener(self._on_state)
        self._tell()

    @property
    def pid(self) -> int:
        """The child's process id."""
        return self._process.pid

    def _on_state(self, _state: object) -> None:
        self._tell()

    def _tell(self) -> None:
        """Tell the child which session there is, if it is another one."""
        client = self._client
        identity = client.client_id
        if identity is None:
            return
        session_id, password = identity
        tls = client.security.zookeeper
        message = {
            "hosts": [[host.strip(), port] for host, port in client.hosts],
            "session_id": session_id,
            "password": password.hex(),
            "timeout_ms": client.session_timeout_ms,
            "tls": None if tls is None else [tls.ca, tls.certificate, tls.key, tls.check_hostname],
        }
        line = json.dumps(message).encode() + b"\n"
        with self._lock:
            if line != self.told and self._write(line):
                self.told = line

    def beat(self, within_ms: int) -> None:
        """Have the child kill this process unless it beats again within this time, in ms. With 0 it does not kill it.

        A process that is killed loses what it has in memory, and its connections are reset: those who send to it find
        out at once. Then its session is ended, as ever. May be called from any thread, and does not wait.
        """
        with self._lock:
            self._write(b"beat %d\n" % within_ms)

    def _write(self, line: bytes) -> bool:
        if self._is_closed or self._is_broken:
            return False
        try:
            written = os.write(self.pipe_fd, line)
        except OSError as error:
            self._say_broken(error)
            return False
        if written < len(line):  # its end would be taken for the beginning of the next
            self._say_broken("it does not read what it is told")
            return False
        return True

    def _say_broken(self, why: object) -> None:
        self._is_broken = True
        logger.warning(
            "the watchdog of the ZooKeeper session (process %d) has stopped working: %s. If this process is killed,"
            " its session ends only after its timeout",
            *(self._process.pid, why),
        )

    def close(self) -> None:
        """Let the child go, which leaves the session alone. May be called twice; nothing in a forked child."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            self._client.remove_listener(self._on_state)
            pipe = self._process.stdin
            assert pipe is not None
            try:
                os.write(self.pipe_fd, b"done\n")
            except OSError:  # it is gone, or was not told anything lately: it must not act on what it knows
                self._process.kill()
            pipe.close()
        try:
            self._process.wait(_END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(_END_TIMEOUT_S)

    def forget_after_fork(self) -> None:
        """In a forked child: hold the pipe open no longer than the parent does."""
        self._lock = threading.Lock()  # another thread of the parent may have held it
        if not self._is_closed:
            self._is_closed = True
            pipe = self._process.stdin
            assert pipe is not None
            pipe.close()
