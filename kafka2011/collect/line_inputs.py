"""Standard input and a local socket: lines that cannot be read again, so they go to the spool as they come."""

from __future__ import annotations

import errno
import logging
import os
import selectors
import socket
import stat
import threading
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kafka2011.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka2011.collect.counts import CollectCounts
    from kafka2011.collect.lines import LineCutter
    from kafka2011.collect.spool import Spool

logger = logging.getLogger(__name__)

READ_BYTES = 64 * 1024
MAX_CLIENTS = 100
"""How many clients may be connected; others wait until one leaves."""
STDIN_NAME = "standard input"
_BACKLOG = 128
_NO_FILES_PAUSE_S = 1.0


class ListenError(KafkaError):
    """The socket cannot be opened; the text names the address."""


class SocketAddress(NamedTuple):
    """Where to listen: a path, or a host and port."""

    path: str
    host: str = ""
    port: int = 0

    def __str__(self) -> str:
        return f"unix:{self.path}" if self.path else f"{self.host}:{self.port}"


def open_listener(address: SocketAddress) -> socket.socket:
    """Listen at an address; a socket file left by a dead process is replaced. Raises ListenError."""
    family = socket.AF_UNIX if address.path else socket.AF_INET6 if ":" in address.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        if address.path:
            _remove_left_over(address.path)
            listener.bind(address.path)
        else:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((address.host, address.port))
        listener.listen(_BACKLOG)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        raise ListenError(f"cannot listen at {address}: {error.strerror or error}") from error
    return listener


def close_listener(listener: socket.socket) -> None:
    """Close it, and remove its socket file."""
    path = listener.getsockname()
    listener.close()
    if isinstance(path, str) and path:
        Path(path).unlink(missing_ok=True)


def _remove_left_over(path: str) -> None:
    """Remove a socket file if connecting shows that nobody listens on it."""
    try:
        if not stat.S_ISSOCK(Path(path).lstat().st_mode):
            return  # binding will report what is wrong
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1)
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            Path(path).unlink(missing_ok=True)
        except TimeoutError as error:
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE)) from error


class LineInputs:
    """Reads all inputs at once, in its own thread, and puts whole lines into the spool.

    `stdin` is a file descriptor, or None; it stays open. While the spool is full nothing is read, so that writers
    wait. Once a client or standard input has ended, what it sent after its last newline counts as a line.
    """

    def __init__(
        self,
        spool: Spool,
        counts: CollectCounts,
        new_cutter: Callable[[], LineCutter],
        *,
        stdin: int | None = None,
        listener: socket.socket | None = None,
        max_clients: int = MAX_CLIENTS,
    ) -> None:
        self.spool = spool
        self._counts = counts
        self._new_cutter = new_cutter
        self._stdin = stdin
        self._listener = listener
        self._max_clients = max_clients
        self._selector = selectors.PollSelector()  # epoll takes no regular file
        self._cutters: dict[int, LineCutter] = {}
        self._clients: dict[int, socket.socket] = {}
        self._is_listening = False
        self._stopping = threading.Event()
        self._wake_read, self._wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._thread = threading.Thread(target=self._run, name="kafka2011-collect-inputs", daemon=True)

    @property
    def have_ended(self) -> bool:
        """Whether no more input will come."""
        return not self._thread.is_alive()

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def stop(self) -> None:
        """Stop reading, and wait until what was read is in the spool, which must no longer wait for room."""
        self._stopping.set()
        if self._wake_write >= 0:
            os.write(self._wake_write, b"\0")
        if self._thread.ident is not None:
            self._thread.join()
        for fd in (self._wake_read, self._wake_write):
            if fd >= 0:
                os.close(fd)
        self._wake_read = self._wake_write = -1
        self._selector.close()

    def _run(self) -> None:
        try:
            self._selector.register(self._wake_read, selectors.EVENT_READ)
            if self._stdin is not None:
                self._add(self._stdin)
            self._listen()
            while not self._stopping.is_set() and (self._listener is not None or self._cutters):
                self._listen()
                for key, _ in self._selector.select():
                    if self._listener is not None and key.fd == self._listener.fileno():
                        self._accept(self._listener)
                    elif key.fd in self._cutters:
                        self._read(key.fd)
        except Exception:
            logger.exception("reading inputs failed unexpectedly")
            self._counts.add(failed_reads=1)
        finally:
            for fd in list(self._cutters):
                self._end(fd)

    def _listen(self) -> None:
        """Take clients while there is room for one more."""
        if self._listener is None:
            return
        wanted = len(self._clients) < self._max_clients
        if wanted and not self._is_listening:
            self._selector.register(self._listener, selectors.EVENT_READ)
        elif self._is_listening and not wanted:
            logger.warning("%d clients are connected: others wait until one leaves", len(self._clients))
            self._selector.unregister(self._listener)
        self._is_listening = wanted

    def _accept(self, listener: socket.socket) -> None:
        try:
            client, _ = listener.accept()
        except BlockingIOError:
            return
        except OSError as error:
            logger.warning("cannot accept a client: %s", error)
            self._counts.add(failed_reads=1)
            self._stopping.wait(_NO_FILES_PAUSE_S)
            return
        self._clients[client.fileno()] = client
        self._add(client.fileno())

    def _add(self, fd: int) -> None:
        self._cutters[fd] = self._new_cutter()
        self._selector.register(fd, selectors.EVENT_READ)

    def _read(self, fd: int) -> None:
        try:
            chunk = os.read(fd, READ_BYTES)
        except OSError as error:
            logger.warning("reading from %s failed: %s", self._name(fd), error)
            self._counts.add(failed_reads=1)
            chunk = b""
        if not chunk:
            self._end(fd)
            return
        cutter = self._cutters[fd]
        too_long = cutter.too_long
        self._keep(cutter.feed(chunk))
        if cutter.too_long > too_long:
            self._tell_too_long(fd, cutter.too_long - too_long)

    def _end(self, fd: int) -> None:
        self._selector.unregister(fd)
        cutter = self._cutters.pop(fd)
        rest_bytes = cutter.held_bytes
        if rest_bytes:
            logger.warning("%s ends without a newline: its last %d bytes are a line", self._name(fd), rest_bytes)
            self._counts.add(lines_without_end=1)
            too_long = cutter.too_long
            self._keep(cutter.finish())
            if cutter.too_long > too_long:
                self._tell_too_long(fd, 1)
        client = self._clients.pop(fd, None)
        if client is not None:
            client.close()

    def _keep(self, lines: list[bytes]) -> None:
        if lines:
            self.spool.append(lines)

    def _tell_too_long(self, fd: int, count: int) -> None:
        self._counts.add(lines_too_long=count)
        logger.warning("%d lines from %s are too long", count, self._name(fd))

    def _name(self, fd: int) -> str:
        return STDIN_NAME if fd == self._stdin else f"client {fd}"
