"""TLS over a connected socket, with those methods of a socket that brokers and clients use.

Neither the standard library's SSLSocket nor gevent's will do. After a half-close gevent's hands out what is encrypted
and sends in plain text; FIONREAD counts what is encrypted; and whatever works on the bare descriptor, sendfile and our
C code, would send in plain text. Here the socket below is only ever given what TLS has made, and nothing has its
descriptor but those who wait for it.
"""

from __future__ import annotations

import socket
import ssl
from contextlib import nullcontext, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager

T = TypeVar("T")

_RECEIVE_BYTES = 64 * 1024
SEND_BYTES = 320 * 1024
"""So much is encrypted before any of it is sent: what a connection holds beside the data itself, until that is sent.

A fetch of 300 KiB goes out in one piece, one of 1 MiB in four.
"""
_ENCRYPT_BYTES = 64 * 1024
"""So much is encrypted at once: a MemoryBIO keeps the room that it once needed as long as the connection lives."""

_TAKES_A_CUT_FOR_THE_END = ssl.Options(getattr(ssl, "OP_IGNORE_UNEXPECTED_EOF", 0))
_CUT = "UNEXPECTED_EOF_WHILE_READING"
"""Python 3.11.2 sets the option by itself, and does not make an SSLEOFError of the reason."""


class TlsSocket:
    """One end of a connection. Takes the socket over; its timeouts go on counting for each wait, as on any socket.

    `hostname` is whom a client expects to meet, None at a server. Every method may raise OSError, as a socket's do; an
    SSLError is one. A connection that is cut without TLS's farewell is a ConnectionResetError: somebody else may have
    cut it. With a `lock`, one thread may send while another waits in `recv`.
    """

    def __init__(
        self,
        plain: Any,
        context: ssl.SSLContext,
        hostname: str | None = None,
        lock: AbstractContextManager[object] | None = None,
    ) -> None:
        context.options &= ~_TAKES_A_CUT_FOR_THE_END
        self._plain = plain
        self._lock = lock or nullcontext()
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(
            self._incoming, self._outgoing, server_side=hostname is None, server_hostname=hostname
        )
        self._encrypted: list[bytes] = []  # taken out of `_outgoing`, and not sent yet
        self._held = b""  # received to see whether there is anything
        self._left_bytes: int | None = None  # how much more is read of the socket below, where that is limited

    def handshake(self) -> None:
        """Prove each other; nothing may be sent or received before."""
        self._until_done(self._tls.do_handshake)

    @property
    def peer(self) -> Mapping[str, Any]:
        """The certificate that the other side has proven, as the ssl module gives it; empty without one."""
        return self._tls.getpeercert() or {}

    @property
    def holds_bytes(self) -> bool:
        """Whether bytes have been taken from the socket below that nobody has received yet."""
        return bool(self._held or self._incoming.pending or self._tls.pending())

    def recv(self, most_bytes: int) -> bytes:
        """Return what has come, up to so much; nothing at the end."""
        if self._held:
            data, self._held = self._held[:most_bytes], self._held[most_bytes:]
            return data
        try:
            return self._until_done(lambda: self._tls.read(most_bytes))
        except ssl.SSLZeroReturnError:
            return b""
        except ssl.SSLError as error:
            if not isinstance(error, ssl.SSLEOFError) and error.reason != _CUT:
                raise
            if self._left_bytes is not None:
                return b""
            raise ConnectionResetError("the connection was cut, TLS had not ended") from error

    def is_readable(self) -> bool:
        """Say, without waiting, whether `recv` would not wait: something has come, or the connection has ended."""
        return self.has_ended() or bool(self._held)

    def has_ended(self) -> bool:
        """Say, without waiting, whether the other side has ended the connection and all it sent was received."""
        if self._held:
            return False
        timeout_s = self._plain.gettimeout()
        self._plain.settimeout(0)
        try:
            self._held = self.recv(1)
        except (BlockingIOError, ssl.SSLWantReadError):
            return False
        except OSError:
            return True
        finally:
            self._plain.settimeout(timeout_s)
        return not self._held

    def sendall(self, data: bytes | memoryview) -> None:
        """Send all of it."""
        view = memoryview(data)
        for begin in range(0, len(view), SEND_BYTES):
            part = view[begin : begin + SEND_BYTES]
            pieces = [part[at : at + _ENCRYPT_BYTES] for at in range(0, len(part), _ENCRYPT_BYTES)]
            pieces.reverse()
            self._until_done(partial(self._encrypt, pieces))

    def send(self, data: bytes) -> int:
        """Send all of it, though a socket may send less, and return how much that is."""
        self.sendall(data)
        return len(data)

    def limit_reading(self, encrypted_bytes: int) -> None:
        """Read so much more of the socket below, as FIONREAD counts it, and then no more: that is the end."""
        self._left_bytes = encrypted_bytes

    def shutdown(self, how: int) -> None:
        """End the connection as a socket's does; whoever is told that no more comes is told so by TLS as well."""
        if how == socket.SHUT_WR:
            self._say_farewell()
        self._plain.shutdown(how)

    def take_leave(self) -> None:
        """Say, before `close`, that this is the end and nobody has cut the connection; without waiting for anything."""
        with suppress(OSError):
            self._plain.settimeout(0)
            self._say_farewell()

    def settimeout(self, timeout_s: float | None) -> None:
        """Limit each wait, as a socket's does."""
        self._plain.settimeout(timeout_s)

    def setsockopt(self, level: int, option: int, value: int) -> None:
        """Set an option of the socket below."""
        self._plain.setsockopt(level, option, value)

    def fileno(self) -> int:
        """Return the descriptor, which is for waiting only: whoever writes to it sends in plain text."""
        return int(self._plain.fileno())

    def close(self) -> None:
        """Close the socket below; may be called twice."""
        self._plain.close()

    def _say_farewell(self) -> None:
        with self._lock:
            with suppress(ssl.SSLWantReadError):  # the other side's farewell has not come, and is not waited for
                self._tls.unwrap()
            self._flush()

    def _until_done(self, step: Callable[[], T]) -> T:
        """Take a step of TLS's, with whatever must be sent and received for it."""
        while True:
            with self._lock:
                try:
                    done = step()
                except ssl.SSLWantReadError:
                    self._flush()
                except ssl.SSLError:
                    with suppress(OSError):  # the other side is told why, if it still listens
                        self._flush()
                    raise
                else:
                    self._flush()
                    return done
            self._fill()

    def _encrypt(self, pieces: list[memoryview]) -> None:
        """Encrypt all, the last one first; what is done is taken off, as this may be called again to go on."""
        while pieces:
            written_bytes = self._tls.write(pieces[-1])
            pieces[-1] = pieces[-1][written_bytes:]
            if not pieces[-1]:
                pieces.pop()
            self._encrypted.append(self._outgoing.read())

    def _flush(self) -> None:
        if self._outgoing.pending:
            self._encrypted.append(self._outgoing.read())
        if not self._encrypted:
            return
        unsent, self._encrypted = self._encrypted, []
        sent_bytes = self._plain.sendmsg(unsent)
        while unsent and sent_bytes >= len(unsent[0]):
            sent_bytes -= len(unsent.pop(0))
        if unsent:
            rest = b"".join(unsent)
            unsent.clear()  # it may take long, and its memory with it
            self._plain.sendall(memoryview(rest)[sent_bytes:])

    def _fill(self) -> None:
        most_bytes = _RECEIVE_BYTES if self._left_bytes is None else min(_RECEIVE_BYTES, self._left_bytes)
        data = self._plain.recv(most_bytes) if most_bytes else b""
        if self._left_bytes is not None:
            self._left_bytes -= len(data)
        with self._lock:
            if data:
                self._incoming.write(data)
            else:
                self._incoming.write_eof()
