"""stomp.py against an ActiveMQ, and a socket on which frames go that were encoded before.

Messages are sent one by one, whatever `batch` says: STOMP knows no other way. They are persistent, without receipts;
consumers acknowledge by taking. A queue is empty once it was read.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import stomp

from paper_benchmarks.clients.job import Job, Progress, connection_of, counting, sending, serve
from paper_benchmarks.measuring.errors import BenchmarkError
from paper_benchmarks.measuring.payloads import payloads

if TYPE_CHECKING:
    import io
    from collections.abc import Iterator, Mapping

    from paper_benchmarks.clients.job import Prepared

PREFETCH = "1000"
_WARM_MESSAGES = 200
_TIMEOUT_S = 3600.0
_DONE = "done"


def frame(command: str, headers: Mapping[str, str], body: bytes = b"") -> bytes:
    """Return the bytes of a STOMP frame."""
    lines = [command, *(f"{name}:{value}" for name, value in headers.items()), "", ""]
    return "\n".join(lines).encode() + body + b"\x00"


def send_frame(topic: str, payload: bytes) -> bytes:
    """Return the bytes of one persistent message to a queue."""
    headers = {"destination": f"/queue/{topic}", "persistent": "true", "content-length": str(len(payload))}
    return frame("SEND", headers, payload)


class _Listener(stomp.ConnectionListener):  # type: ignore[misc]  # it has no types
    """Notes messages, in the library's thread, and the receipt or the error at the end."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._ended = threading.Event()
        self._error = ""

    def on_message(self, _frame: Any) -> None:
        """Count it."""
        if not self._progress.read(1):
            self._ended.set()

    def on_receipt(self, _frame: Any) -> None:
        """Hear that the server has handled everything."""
        self._ended.set()

    def on_error(self, frame: Any) -> None:
        """Hear that the server refused something."""
        self._error = str(frame.body)
        self._ended.set()

    def on_receiver_loop_completed(self, _frame: Any) -> None:
        """Hear that nothing more will come, which is an error unless all was done."""
        if not self._ended.is_set():
            self._error = "ActiveMQ ended the connection"
            self._ended.set()

    def await_end(self) -> None:
        """Wait for the last message or the receipt. Raises BenchmarkError when there is none."""
        if not self._ended.wait(_TIMEOUT_S):
            raise BenchmarkError(f"ActiveMQ was not done after {_TIMEOUT_S:g} s")
        if self._error:
            raise BenchmarkError(self._error)


@contextmanager
def _connected(job: Job, listener: _Listener) -> Iterator[Any]:
    connection = stomp.Connection([(job.host, job.port)], heartbeats=(0, 0), auto_decode=False)
    connection.set_listener("", listener)
    connection.connect(wait=True)
    yield connection
    if connection.is_connected():
        connection.disconnect()


@contextmanager
def _producer(job: Job) -> Prepared:
    listener, queue, headers = _Listener(Progress(job)), f"/queue/{job.topic}", {"persistent": "true"}
    with _connected(job, listener) as connection:

        def send(message: bytes) -> None:
            connection.send(queue, message, headers=headers)

        def finish() -> None:
            connection.disconnect(receipt=_DONE)
            listener.await_end()

        for message in payloads(_WARM_MESSAGES):
            send(message)
        run = sending(job, send, finish, payloads(job.every))
        yield {"warm_messages": _WARM_MESSAGES}, run


@contextmanager
def _raw_producer(job: Job) -> Prepared:
    message = send_frame(job.topic, payloads(1)[0])
    with connection_of(job, _TIMEOUT_S) as connection, connection.makefile("rb") as answers:
        connection.sendall(frame("CONNECT", {"accept-version": "1.1", "host": "localhost", "heart-beat": "0,0"}))
        _expect(answers, b"CONNECTED")

        def finish() -> None:
            connection.sendall(frame("DISCONNECT", {"receipt": _DONE}))
            _expect(answers, b"RECEIPT")

        yield {}, sending(job, connection.sendall, finish, [message] * job.every)


def _expect(answers: io.BufferedIOBase | io.RawIOBase, command: bytes) -> None:
    """Read one frame, which has no body. Raises BenchmarkError when it is another one."""
    found = b""
    while not (line := answers.readline()).startswith(b"\x00") and line:
        found += line
    if not found.startswith(command):
        raise BenchmarkError(f"ActiveMQ answered {found!r}: {command.decode()} was to come")


@contextmanager
def _consumer(job: Job) -> Prepared:
    progress = Progress(job)
    listener = _Listener(progress)
    with _connected(job, listener) as connection:

        def run() -> Mapping[str, Any]:
            progress.start()
            connection.subscribe(f"/queue/{job.topic}", id="1", ack="auto", headers={"activemq.prefetchSize": PREFETCH})
            listener.await_end()
            return progress.facts()

        yield {}, run


@contextmanager
def _raw_consumer(job: Job) -> Prepared:
    """Count the beginnings of frames, and take nothing apart."""
    with connection_of(job, _TIMEOUT_S) as connection, connection.makefile("rb", buffering=0) as answers:
        connection.sendall(frame("CONNECT", {"accept-version": "1.1", "host": "localhost", "heart-beat": "0,0"}))
        _expect(answers, b"CONNECTED")
        headers = {"destination": f"/queue/{job.topic}", "id": "1", "ack": "auto", "activemq.prefetchSize": PREFETCH}
        yield {}, counting(job, connection, frame("SUBSCRIBE", headers), b"MESSAGE\n")


if __name__ == "__main__":
    serve(
        {
            "produce": {"stomp": _producer, "raw": _raw_producer},
            "consume": {"stomp": _consumer, "raw": _raw_consumer},
        }
    )
