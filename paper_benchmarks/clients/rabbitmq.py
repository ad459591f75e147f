"""pika against a RabbitMQ, and a socket on which frames go that were encoded before.

Messages are published one by one, whatever `batch` says: AMQP knows no other way. Queues are durable, messages
persistent, without confirms; consumers acknowledge by taking. A queue is empty once it was read.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pika
from pika import frame, spec

from paper_benchmarks.clients.job import Job, Progress, connection_of, sending, serve
from paper_benchmarks.measuring.errors import BenchmarkError
from paper_benchmarks.measuring.payloads import payloads

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator, Mapping

    from paper_benchmarks.clients.job import Prepared

PERSISTENT = 2
_WARM_MESSAGES = 200
_BUFFER_BYTES = 1 << 20
_CHANNEL = 1
_FRAME_BYTES = 131072


def publish(topic: str, payload: bytes) -> bytes:
    """Return the frames of one persistent message to a queue: method, header, body."""
    frames = (
        frame.Method(_CHANNEL, spec.Basic.Publish(exchange="", routing_key=topic)),
        frame.Header(_CHANNEL, len(payload), spec.BasicProperties(delivery_mode=PERSISTENT)),
        frame.Body(_CHANNEL, payload),
    )
    return b"".join(each.marshal() for each in frames)


class FrameSocket:
    """A connection and one channel, frame by frame: enough to begin and to end what goes past it as bytes."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self._data = b""

    def open(self) -> None:
        """Log in as the guest of a new node, without heartbeats, and open the channel."""
        self.socket.sendall(b"AMQP\x00\x00\x09\x01")
        self.receive(spec.Connection.Start)
        self.send(spec.Connection.StartOk({}, "PLAIN", "\x00guest\x00guest", "en_US"), 0)
        self.receive(spec.Connection.Tune)
        self.send(spec.Connection.TuneOk(1, _FRAME_BYTES, 0), 0)
        self.send(spec.Connection.Open("/"), 0)
        self.receive(spec.Connection.OpenOk)
        self.call(spec.Channel.Open(), spec.Channel.OpenOk)

    def call(self, method: Any, answer: type) -> Any:
        """Send a method on the channel, and return the server's answer."""
        self.send(method)
        return self.receive(answer)

    def send(self, method: Any, channel: int = _CHANNEL) -> None:
        """Send a method."""
        self.socket.sendall(frame.Method(channel, method).marshal())

    def receive(self, wanted: type) -> Any:
        """Return the next frame's method. Raises BenchmarkError when it is another one."""
        found = self.next_frame()[1]
        if not isinstance(getattr(found, "method", None), wanted):
            raise BenchmarkError(f"RabbitMQ answered {found}: {wanted.__name__} was to come")
        return found.method

    def next_frame(self) -> tuple[bytes, Any]:
        """Return the next frame, as bytes and decoded."""
        while True:
            consumed, found = frame.decode_frame(self._data)
            if consumed:
                data, self._data = self._data[:consumed], self._data[consumed:]
                return data, found
            if not (received := self.socket.recv(4096)):
                raise BenchmarkError("RabbitMQ ended the connection")
            self._data += received

    def rest(self) -> bytes:
        """Return what came after the last frame; the next bytes are on the socket."""
        rest, self._data = self._data, b""
        return rest


@contextmanager
def _frame_socket(job: Job) -> Iterator[FrameSocket]:
    with connection_of(job, 600.0) as found:
        connection = FrameSocket(found)
        connection.open()
        connection.call(spec.Queue.Declare(queue=job.topic, durable=True), spec.Queue.DeclareOk)
        yield connection


def _connect(job: Job) -> Any:
    return pika.BlockingConnection(pika.ConnectionParameters(job.host, job.port, heartbeat=0))


@contextmanager
def _producer(job: Job) -> Prepared:
    with _connect(job) as connection:
        channel, properties = connection.channel(), pika.BasicProperties(delivery_mode=PERSISTENT)
        channel.queue_declare(job.topic, durable=True)

        def send(message: bytes) -> None:
            channel.basic_publish("", job.topic, message, properties)

        for message in payloads(_WARM_MESSAGES):
            send(message)
        # The end of a channel is answered once the server has handled everything before it.
        run = sending(job, send, channel.close, payloads(job.every))
        yield {"warm_messages": _WARM_MESSAGES}, run


@contextmanager
def _raw_producer(job: Job) -> Prepared:
    message = publish(job.topic, payloads(1)[0])
    with _frame_socket(job) as connection:

        def finish() -> None:
            connection.call(spec.Channel.Close(200, "done", 0, 0), spec.Channel.CloseOk)

        yield {}, sending(job, connection.socket.sendall, finish, [message] * job.every)


@contextmanager
def _consumer(job: Job) -> Prepared:
    with _connect(job) as connection:
        channel, progress = connection.channel(), Progress(job)

        def note(_channel: Any, _method: Any, _properties: Any, _body: bytes) -> None:
            if not progress.read(1):
                channel.stop_consuming()

        def run() -> Mapping[str, Any]:
            progress.start()
            channel.basic_consume(job.topic, note, auto_ack=True)
            channel.start_consuming()
            return progress.facts()

        yield {}, run


@contextmanager
def _raw_consumer(job: Job) -> Prepared:
    """Take the first message apart: all others are as long as it, so that bytes are counted; and then the last."""
    progress, buffer = Progress(job), bytearray(_BUFFER_BYTES)
    view = memoryview(buffer)
    with _frame_socket(job) as connection:

        def run() -> Mapping[str, Any]:
            progress.start()
            connection.call(spec.Basic.Consume(queue=job.topic, no_ack=True), spec.Basic.ConsumeOk)
            size = sum(len(connection.next_frame()[0]) for _ in ("deliver", "header", "body"))
            tail = connection.rest()
            received = size + len(tail)
            while progress.read(received // size - progress.messages):
                count = connection.socket.recv_into(buffer)
                if not count:
                    raise BenchmarkError(f"RabbitMQ ended the connection at byte {received} of {job.topic}")
                received += count
                tail = (tail + view[max(0, count - size) : count])[-size:]
            if progress.messages < job.messages:
                return progress.facts()  # its time is up
            deliver = frame.decode_frame(tail)[1] if received == size * job.messages else None
            if deliver is None or deliver.method.delivery_tag != job.messages:
                raise BenchmarkError(f"{received} bytes of {job.topic} are not {job.messages} messages of {size}")
            return progress.facts()

        yield {}, run


if __name__ == "__main__":
    serve(
        {
            "produce": {"pika": _producer, "raw": _raw_producer},
            "consume": {"pika": _consumer, "raw": _raw_consumer},
        }
    )
