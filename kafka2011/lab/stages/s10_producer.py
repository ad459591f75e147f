"""Stage 10: a producer proves what was appended, and sends again what was not."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from kafka2011.lab import paper
from kafka2011.lab.bench import wait_until
from kafka2011.lab.errors import WrongError
from kafka2011.lab.frame_server import CutOffError, FrameServer
from kafka2011.lab.requests import BARRIER_ANSWER
from kafka2011.message.message_set import scan
from kafka2011.wire.protocol import MultiFetchRequest, MultiProduceRequest, ProduceRequest, decode_request
from zk.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka2011.lab.bench import Bench

_HELD_S = 0.5
_END_S = 8.0
_TOPIC = "views"
_PARTITION = 1


class _ProofBroker:
    """Remembers what it was sent on each connection, and what of it was proven by an answer to a barrier.

    `decide(connection number)` returns the answer to a barrier, or None to close instead.
    `closes(connection number)` says whether a connection is closed at its first produce.
    """

    def __init__(
        self,
        decide: Callable[[int], bytes | None],
        closes: Callable[[int], bool] = lambda _number: False,
        *,
        is_slow: bool = False,
    ) -> None:
        self.server = FrameServer(self._answer, free_port(), is_slow=is_slow)
        self.received: dict[int, list[bytes]] = {}
        self.proven: list[bytes] = []
        self.barriers = 0
        self.fault = ""
        self._proven_on: dict[int, int] = {}
        self._decide = decide
        self._closes = closes
        self._lock = threading.Lock()

    def _answer(self, number: int, frame: bytes) -> bytes | None:
        try:
            request = decode_request(frame[4:])
        except Exception as error:  # noqa: BLE001  # whatever it is, the student hears of it
            self.fault = f"Your program sent a request that cannot be read: {error}."
            return None
        if isinstance(request, MultiFetchRequest):
            with self._lock:
                self.barriers += 1
            answer = self._decide(number)
            if answer == BARRIER_ANSWER:
                with self._lock:
                    received = self.received.get(number, [])
                    self.proven += received[self._proven_on.get(number, 0) :]
                    self._proven_on[number] = len(received)
            return answer
        parts = request.produces if isinstance(request, MultiProduceRequest) else (request,)
        for part in parts:
            if not isinstance(part, ProduceRequest):
                self.fault = "Your program sent something else than produce requests and empty multifetches."
                return None
            if (part.topic, part.partition) != (_TOPIC, _PARTITION):
                self.fault = f"Your program produced to {part.topic}-{part.partition}, not to {_TOPIC}-{_PARTITION}."
                return None
            found = scan(part.messages)
            if found.fault is not None or found.partial_bytes:
                self.fault = "Your program sent a set with a wrong message."
                return None
            with self._lock:
                self.received.setdefault(number, []).extend(_payloads(bytes(part.messages)))
        return None if self._closes(number) else b""


def _payloads(messages: bytes) -> list[bytes]:
    payloads, at = [], 0
    while at < len(messages):
        end = at + 4 + int.from_bytes(messages[at : at + 4], "big")
        payloads.append(messages[at + 9 + messages[at + 4] : end])
        at = end
    return payloads


def grade(bench: Bench) -> None:
    """Try the stage. Raises WrongError."""
    prove(bench)
    hold(bench)
    lose(bench)
    give_up(bench)


def _try(bench: Bench, broker: _ProofBroker, lines: list[bytes], *, late_s: float = 0.0) -> None:
    """Run the producer with these lines, and compare what it says with what was proven. Raises WrongError."""
    stdin = b"".join(line + b"\n" for line in lines)
    run = bench.program.start(_arguments(broker), stdin=stdin)
    try:
        time.sleep(late_s)
        with broker.server:
            output = run.wait(_END_S)
    finally:
        run.end()
    _check_fault(broker, stdin)
    said = _last_confirmed(output)
    if run.process.returncode:
        raise WrongError(run.describe_end(), sent=stdin)
    if said != len(lines):
        raise WrongError(f"The last line should be `confirmed {len(lines)}`. It says {said}.", sent=stdin, came=output)
    missing = [line for line in lines if line not in broker.proven]
    if missing:
        what = f"{len(missing)} lines were confirmed, but never proven. The first is {missing[0][:40]!r}."
        raise WrongError(what, sent=stdin, came=output)
    firsts = list(dict.fromkeys(broker.proven))
    if firsts != list(dict.fromkeys(lines)):
        raise WrongError("The messages were appended in another order than that of the lines.", sent=stdin)


def _arguments(broker: _ProofBroker) -> list[str]:
    return ["producer", f"broker=127.0.0.1:{broker.server.port}", f"topic={_TOPIC}", f"partition={_PARTITION}"]


def _check_fault(broker: _ProofBroker, stdin: bytes) -> None:
    if broker.fault:
        raise WrongError(broker.fault, sent=stdin)


def _last_confirmed(output: bytes) -> int | None:
    """Return the number in the last line `confirmed N`, or None."""
    words = (output.splitlines() or [b""])[-1].split()
    return int(words[1]) if len(words) == 2 and words[0] == b"confirmed" and words[1].isdigit() else None


def prove(bench: Bench) -> None:
    """Try a broker that answers every barrier."""
    groups = {
        "Five lines are sent, proven and confirmed": [b"one", b"two", b"three", b"four", b"five"],
        "Without lines, nothing is sent, and 0 are confirmed": [],
        "An empty line is a message, and a repeated line is one too": [b"", b"a", b"a", b""],
        "3,000 lines are confirmed": [b"line %d" % number for number in range(3000)],
    }
    for title, lines in groups.items():
        with bench.check(title, paper.NO_ACKNOWLEDGEMENT):
            broker = _ProofBroker(lambda _number: BARRIER_ANSWER)
            _try(bench, broker, lines)
            if len(broker.proven) != len(lines):
                raise WrongError(f"{len(lines)} messages were to be appended. {len(broker.proven)} were.")
            if len(lines) > 1000 and broker.server.connections > 1:
                raise WrongError("Your program opened more than one connection, though none was lost.")


def hold(bench: Bench) -> None:
    """Try a broker that does not answer for a while."""
    released = threading.Event()

    def decide(_number: int) -> bytes | None:
        released.wait(_END_S)
        return BARRIER_ANSWER

    broker = _ProofBroker(decide)
    stdin = b"one\ntwo\nthree\n"
    run = bench.program.start(_arguments(broker), stdin=stdin)
    try:
        with broker.server:
            with bench.check("Nothing is confirmed before the broker has answered", paper.NO_ACKNOWLEDGEMENT):
                arrived = wait_until(lambda: broker.barriers > 0, _END_S)
                time.sleep(_HELD_S)
                _check_fault(broker, stdin)
                if not arrived:
                    raise WrongError("Your program sent no empty multifetch after its messages.", sent=stdin)
                if said := _last_confirmed(run.output()):
                    what = f"Your program has confirmed {said} lines before the broker has answered."
                    raise WrongError(what, came=run.output())
            with bench.check("When the broker answers, all are confirmed", paper.NO_ACKNOWLEDGEMENT):
                released.set()
                output = run.wait(_END_S)
                if output.splitlines()[-1:] != [b"confirmed 3"]:
                    raise WrongError("The last line should be `confirmed 3`.", came=output)
    finally:
        released.set()
        run.end()


def lose(bench: Bench) -> None:
    """Try brokers that lose connections."""
    lines = [b"line %d" % number for number in range(20)]
    error = b"\0\0\0\x02\xff\xff"
    groups: dict[str, _ProofBroker] = {
        "A connection that ends before the answer: the messages are sent again": _ProofBroker(
            lambda number: BARRIER_ANSWER if number > 1 else None
        ),
        "A connection that ends at the first set: the messages are sent again": _ProofBroker(
            lambda _number: BARRIER_ANSWER, closes=lambda number: number < 3
        ),
        "An answer with an error proves nothing": _ProofBroker(lambda number: BARRIER_ANSWER if number > 1 else error),
        "An answer that is cut off proves nothing": _ProofBroker(
            lambda number: BARRIER_ANSWER if number > 1 else _cut_off()
        ),
        "An answer that comes byte by byte is a proof": _ProofBroker(lambda _number: BARRIER_ANSWER, is_slow=True),
    }
    for title, broker in groups.items():
        with bench.check(title, paper.AT_LEAST_ONCE):
            _try(bench, broker, lines)
    with bench.check("A broker that listens only later is waited for", paper.AT_LEAST_ONCE):
        _try(bench, _ProofBroker(lambda _number: BARRIER_ANSWER), lines, late_s=0.4)


def _cut_off() -> bytes:
    raise CutOffError(BARRIER_ANSWER[:5])


def give_up(bench: Bench) -> None:
    """Try a broker that refuses everything."""
    with bench.check("If nothing can be proven, the program ends with a status other than 0", paper.AT_LEAST_ONCE):
        broker = _ProofBroker(lambda _number: None)
        run = bench.program.start(_arguments(broker), stdin=b"one\ntwo\n")
        try:
            with broker.server:
                output = run.wait(_END_S)
        finally:
            run.end()
        if run.process.returncode == 0 or _last_confirmed(output):
            raise WrongError("Your program has confirmed lines that were never proven.", came=output)
        if broker.server.connections < 3:
            raise WrongError(f"Your program has given up after {broker.server.connections} connections.")
