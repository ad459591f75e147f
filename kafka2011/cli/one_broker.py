"""Publishing to one broker that was named, with the proof that it handled every set.

The protocol answers nothing to a produce, and what listens at an address need not be a broker at all. But a broker
serves a connection in order, so its answer to an empty multifetch proves that all sets before it were handled (see
"Confirmed sends" in ARCHITECTURE.md).
"""

from __future__ import annotations

import logging
import time
from collections import deque
from typing import TYPE_CHECKING, NamedTuple, Self

from kafka2011.compression import Codec
from kafka2011.connection import BrokerConnection
from kafka2011.errors import BrokerConnectionError, KafkaError, MessageSizeTooLargeError, ProtocolError
from kafka2011.message import MessageSet
from kafka2011.producer.connection import BARRIER, BARRIER_ANSWER
from kafka2011.producer.errors import ConfirmTimeoutError, SetRefusedError
from kafka2011.protocol import MultiProduceRequest, ProduceRequest, encode_request

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from kafka2011.config import ProducerConfig
    from zk.cluster import Broker

logger = logging.getLogger(__name__)

MAX_UNPROVEN = 8
"""Requests that may be unproven at a time: each is about as large as one read of the input."""
MAX_REFUSALS = 3
"""How often in a row a request must, by itself, end a connection on which the broker had answered."""
RETRY_INTERVAL_S = 0.2


class _Sent(NamedTuple):
    """A request and the numbers of its first and last message."""

    frame: bytes
    first: int
    last: int


class OneBroker:
    """Sends sets to one broker and has each proven; a context manager, which begins by asking whether it serves.

    When a connection ends before the proof, everything stops with BrokerConnectionError, which says how much was
    proven. With `resend` what is not proven is sent again instead, for confirm.timeout.ms at most; a request that ends
    three connections by itself is one that the broker refuses.
    """

    def __init__(self, broker: Broker, config: ProducerConfig, *, resend: bool) -> None:
        self._address = broker.address
        self._connection = BrokerConnection(
            broker.host,
            broker.port,
            connect_timeout_ms=config.connect_timeout_ms,
            socket_timeout_ms=config.socket_timeout_ms,
            buffer_bytes=config.buffer_size,
        )
        self._resend = resend
        self._confirm_timeout_s = config.confirm_timeout_ms / 1000
        self._unproven: deque[_Sent] = deque()
        self._messages = 0
        self._proven_messages = 0

    def send(self, topic: str, sets: dict[int, list[MessageSet]], messages: int) -> None:
        """Send sets by partition, which hold so many messages together, in one request."""
        produces = tuple(
            ProduceRequest(topic, number, bytes(each)) for number, of_number in sets.items() for each in of_number
        )
        first = self._messages + 1
        self._messages += messages
        self._unproven.append(_Sent(encode_request(MultiProduceRequest(produces)), first, self._messages))
        try:
            self._must_be_open()
            self._connection.send(self._unproven[-1].frame + BARRIER)
            if len(self._unproven) >= MAX_UNPROVEN:
                self._take_proof()
        except (BrokerConnectionError, ProtocolError) as error:
            self._recover(error)

    def finish(self) -> None:
        """Wait until everything is proven."""
        try:
            while self._unproven:
                self._take_proof()
        except (BrokerConnectionError, ProtocolError) as error:
            self._recover(error)

    def __enter__(self) -> Self:
        try:
            self._connection.send(BARRIER)
            self._answer()
        except (BrokerConnectionError, ProtocolError) as error:
            raise BrokerConnectionError(f"{self._address} does not answer as a broker does: {error}") from error
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._connection.close()

    def _must_be_open(self) -> None:
        if self._connection.ended_by_broker():
            raise BrokerConnectionError(f"broker {self._address} closed the connection")

    def _take_proof(self) -> None:
        self._answer()
        self._proven_messages = self._unproven.popleft().last

    def _answer(self) -> None:
        answer = self._connection.receive()
        if answer != BARRIER_ANSWER:
            self._connection.close()
            raise ProtocolError(f"{self._address} answers an empty multifetch with {answer[:20]!r}")

    def _recover(self, error: KafkaError) -> None:
        """Send again what is not proven, one request at a time."""
        if not self._resend:
            first, last = self._proven_messages + 1, self._messages
            raise BrokerConnectionError(
                f"{error}; it refused a message or went away: messages {first} to {last} may be lost,"
                f" {self._proven_messages} before were handled"
            ) from error
        logger.warning("sending again what is not proven, messages %d on: %s", self._proven_messages + 1, error)
        self._connection.close()  # answers to what was sent before may wait in it
        while self._unproven:
            self._send_alone(self._unproven[0])
            self._proven_messages = self._unproven.popleft().last

    def _send_alone(self, sent: _Sent) -> None:
        deadline_s = time.monotonic() + self._confirm_timeout_s
        refusals = 0
        while True:
            serves = False
            try:
                self._connection.send(BARRIER)
                self._answer()
                serves = True
                self._connection.send(sent.frame + BARRIER)
                self._answer()
            except (BrokerConnectionError, ProtocolError) as error:
                self._connection.close()
                refusals = refusals + 1 if serves else 0
                which = f"messages {sent.first} to {sent.last}"
                if refusals == MAX_REFUSALS:
                    raise SetRefusedError(
                        f"broker {self._address} refuses {which}; {self._proven_messages} before were handled: {error}"
                    ) from error
                if time.monotonic() >= deadline_s:
                    raise ConfirmTimeoutError(
                        f"broker {self._address} has not confirmed {which} within {self._confirm_timeout_s:g} s:"
                        f" {error}"
                    ) from error
                time.sleep(RETRY_INTERVAL_S)
            else:
                return


def encoded(lines: list[bytes], codec: Codec, max_message_bytes: int) -> Iterator[MessageSet]:
    """Yield lines as sets that a broker takes: a compressed set is divided while it is larger than one message may be.

    A line that grows by compression goes as it is. Raises MessageSizeTooLargeError for one that is too large by itself.
    """
    message_set = MessageSet(lines, codec)
    if message_set.largest_payload_bytes <= max_message_bytes:
        yield message_set
    elif codec is Codec.NONE:
        raise MessageSizeTooLargeError(
            f"a line of {message_set.largest_payload_bytes} bytes is longer than max.message.size, {max_message_bytes}"
        )
    elif len(lines) == 1:
        yield from encoded(lines, Codec.NONE, max_message_bytes)
    else:
        middle = len(lines) // 2
        yield from encoded(lines[:middle], codec, max_message_bytes)
        yield from encoded(lines[middle:], codec, max_message_bytes)
