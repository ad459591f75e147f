"""stomp.py against an ActiveMQ, and a socket on which frames go that were encoded before.

Messages are sent one by one, whatever `batch` says: STOMP knows no other way. They are persistent, without receipts;
consumers acknowledge by taking. A queue is empty once it was read.
"""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO

import stomp

from paper_benchmarks.drivers.job import Job, Progress
from paper_benchmarks.errors import BenchmarkError
from paper_benchmarks.payloads import payloads
from paper_benchmarks.worker import work

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from paper_benchmarks.worker import Work

    Prepared = Iterator[tuple[Mapping[str, Any], Work]]

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
    progress, messages = Progress(job), payloads(job.every, job.payload_bytes)
    listener, queue, headers = _Listener(progress), f"/queue/{job.topic}", {"persistent": "true"}
    with _connected(job, listener) as connection:
        for message in payloads(_WARM_MESSAGES, job.payload_bytes):
            connection.send(queue, message, headers=headers)

        def run() -> Mapping[str, Any]:
            for count in progress.chunks():
                for message in messages[:count]:
                    connection.send(queue, message, headers=headers)
            connection.disconnect(receipt=_DONE)
            listener.await_end()
            return progress.facts()

        yield {"warm_messages": _WARM_MESSAGES}, run


@contextmanager
def _raw_producer(job: Job) -> Prepared:
    [payload] = payloads(1, job.payload_bytes)
    message, progress = send_frame(job.topic, payload), Progress(job)
    with (
        socket.create_connection((job.host, job.port), _TIMEOUT_S) as connection,
        connection.makefile("rb") as answers,
    ):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(frame("CONNECT", {"accept-version": "1.1", "host": "localhost", "heart-beat": "0,0"}))
        _expect(answers, b"CONNECTED")

        def run() -> Mapping[str, Any]:
            for count in progress.chunks():
                for _ in range(count):
                    connection.sendall(message)
            connection.sendall(frame("DISCONNECT", {"receipt": _DONE}))
            _expect(answers, b"RECEIPT")
            return progress.facts()

        yield {}, run


def _expect(answers: BinaryIO, command: bytes) -> None:
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


CLIENTS = {"produce": {"stomp": _producer, "raw": _raw_producer}, "consume": {"stomp": _consumer}}


def prepare(facts: Mapping[str, Any]) -> Any:
    """Set up the client that a job names."""
    job = Job.of(facts)
    return CLIENTS[job.do][job.client](job)


if __name__ == "__main__":
    work(prepare)
