"""A broker that appends what producers send it, unless something comes in between."""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, Protocol

from kafka2011.message.message_set import MessageSet
from kafka2011.wire.protocol import (
    ANY_PARTITION,
    FrameReader,
    MultiFetchRequest,
    MultiProduceRequest,
    ProduceRequest,
    decode_request,
    encode_response_header,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from random import Random

    from kafka2011.wire.protocol import Request

POISON = b"poison"
"""A set with a payload that begins like this is refused, as one that is too large would be."""


def is_poison(payload: bytes) -> bool:
    """Say whether a set with this payload is refused."""
    return payload.startswith(POISON)


_ANSWER = encode_response_header(0, 0)
_WRONG_ANSWERS = (encode_response_header(5, 0), b"\x00\x00\x00\x01\x00", b"\x7f\xff\xff\xff")


class Fault(Enum):
    """What may come in between when a request is handled."""

    DROP = auto()  # a produce is read and not appended, or a barrier not answered, and the connection ends
    APPEND_AND_END = auto()
    APPEND_PART_AND_END = auto()
    RESET = auto()  # in the middle of whatever there is
    HALF_AN_ANSWER = auto()
    WRONG_ANSWER = auto()
    LATE = auto()
    HANG = auto()  # for longer than anybody waits


class Connection(Protocol):
    """The broker's end of one."""

    def recv(self, size: int, /) -> bytes:
        """Return what comes next; nothing at its end."""

    def sendall(self, data: bytes, /) -> None:
        """Send."""

    def close(self) -> None:
        """End it in order."""

    def reset(self) -> None:
        """End it as a process does that dies."""


class FaultyBroker:
    """Serves any number of connections; `faults` strike with a `probability` for each request.

    `appended` is its log: topic, partition and set, in order.
    """

    def __init__(
        self,
        broker_id: int,
        random: Random,
        sleep: Callable[[float], object],
        *,
        partitions: int,
        faults: Sequence[Fault],
        probability: float,
        longest_hang_s: float,
    ) -> None:
        self.broker_id = broker_id
        self.partitions = partitions
        self.appended: list[tuple[str, int, bytes]] = []
        self._random = random
        self._sleep = sleep
        self._faults = faults
        self._probability = probability
        self._longest_hang_s = longest_hang_s
        self._life = 0
        self._connections: dict[Connection, None] = {}  # in order

    def die(self) -> None:
        """Lose all connections, with what is in them."""
        self._life += 1
        for connection in list(self._connections):
            connection.reset()

    def accept(self, connection: Connection) -> None:
        """Take a connection, which ends when the broker dies."""
        self._connections[connection] = None

    def serve(self, connection: Connection) -> None:
        """Handle the requests of one connection until it ends."""
        life = self._life
        reader = FrameReader()
        try:
            while data := connection.recv(self._random.randint(1, 400)):
                reader.receive_data(data)
                while (frame := reader.next_frame()) is not None:
                    fault = self._draw()
                    self._dawdle(fault)
                    if self._life != life or not self._handle(decode_request(frame), connection, fault):
                        return
        except OSError:
            return
        finally:
            self._connections.pop(connection, None)
            connection.close()

    def _draw(self) -> Fault | None:
        if self._faults and self._random.random() < self._probability:
            return self._random.choice(self._faults)
        return None

    def _dawdle(self, fault: Fault | None) -> None:
        if fault is Fault.LATE:
            self._sleep(self._random.random() * self._longest_hang_s / 10)
        elif fault is Fault.HANG:
            self._sleep(self._random.random() * self._longest_hang_s)

    def _handle(self, request: Request, connection: Connection, fault: Fault | None) -> bool:
        """Append or answer; False when the connection is to end."""
        if fault is Fault.RESET:
            connection.reset()
            return False
        if fault is Fault.DROP:
            return False
        if isinstance(request, MultiFetchRequest):
            assert request == MultiFetchRequest(())
            return self._answer(connection, fault)
        assert isinstance(request, ProduceRequest | MultiProduceRequest)
        produces = request.produces if isinstance(request, MultiProduceRequest) else (request,)
        if fault is Fault.APPEND_PART_AND_END:
            whole = self._random.randrange(len(produces))
            if self._append(produces[:whole]):
                self._append_part(produces[whole])
            return False
        return self._append(produces) and fault is not Fault.APPEND_AND_END

    def _answer(self, connection: Connection, fault: Fault | None) -> bool:
        if fault is Fault.HALF_AN_ANSWER:
            connection.sendall(_ANSWER[: self._random.randrange(1, len(_ANSWER))])
            return False
        connection.sendall(self._random.choice(_WRONG_ANSWERS) if fault is Fault.WRONG_ANSWER else _ANSWER)
        return True

    def _append(self, produces: Sequence[ProduceRequest]) -> bool:
        for topic, partition, data in produces:
            if any(map(is_poison, MessageSet.from_bytes(data))):
                return False
            self.appended.append((topic, self._chosen(partition), bytes(data)))
        return True

    def _append_part(self, produce: ProduceRequest) -> None:
        """Append the first messages of a set, as a broker that dies while it writes; a wrapper is one message."""
        payloads = list(MessageSet.from_bytes(produce.messages))
        if bytes(MessageSet(payloads)) == produce.messages:
            part = MessageSet(payloads[: self._random.randrange(len(payloads) + 1)])
            self._append([produce._replace(messages=bytes(part))])

    def _chosen(self, partition: int) -> int:
        return self._random.randrange(self.partitions) if partition == ANY_PARTITION else partition
