"""Stage 1: message sets, request frames, and requests that a broker refuses."""

from __future__ import annotations

from struct import pack
from typing import TYPE_CHECKING

from kafka2011.lab import paper
from kafka2011.lab.recordings import request, segment
from kafka2011.lab.requests import BARRIER, BARRIER_ANSWER, fetch, frame, message, message_set, multiproduce, produce

if TYPE_CHECKING:
    from kafka2011.lab.bench import Bench, BrokerUnderTest

_TOO_LARGE = 2**31 - 1


def grade(bench: Bench) -> None:
    """Try the stage. Raises WrongError."""
    encode(bench)
    with bench.broker() as broker:
        with bench.check("An empty multifetch (8 bytes) is answered with 6 bytes", paper.SET):
            broker.start()
            broker.expect(BARRIER, BARRIER_ANSWER)
        accept(bench, broker)
        split(bench, broker)
        refuse(bench, broker)


def encode(bench: Bench) -> None:
    """Try the role that writes a message set."""
    with bench.check("`encode` writes the message set of two lines", paper.SET):
        bench.compare_output("encode", stdin=b"hello\nkafka 0.7\n", wanted=segment())
    with bench.check("`encode` writes an empty line, and bytes that are no text", paper.CRC):
        payloads = [b"", b"\xff\x00\x80", b"x" * 300]
        bench.compare_output("encode", stdin=b"\n".join(payloads) + b"\n", wanted=message_set(*payloads))
    with bench.check("`encode` writes nothing when there are no lines", paper.SET):
        bench.compare_output("encode", stdin=b"", wanted=b"")


def accept(bench: Bench, broker: BrokerUnderTest) -> None:
    """Try requests that a broker accepts, without an answer."""
    accepted = {
        "A produce request that a client of Kafka 0.7.2 has sent gets no answer": request(
            "produce_nocompression_2msgs"
        ),
        "A message with magic 0 (no attributes byte) is accepted": produce("old", message(b"old", magic=0)),
        "An empty payload is accepted": produce("t", message(b"")),
        "An empty set is accepted": produce("t", b""),
        "Messages with codec 1 (GZIP) are accepted": request("produce_gzip_2msgs"),
        "Messages with codec 2 (Snappy) are accepted": request("produce_snappy_2msgs"),
        "A multiproduce request gets no answer": request("multiproduce_nocompression_2topics"),
        "A set may end in the middle of a message, after a whole one": produce("t", message_set(b"one", b"two")[:-1]),
        "Bytes after the body of a request are ignored": _longer(produce("t", message(b"one")), b"more"),
        "Other bits of the attributes are ignored": produce("t", _with_attributes(0xF0)),
    }
    for title, sent in accepted.items():
        with bench.check(title, paper.NO_ACKNOWLEDGEMENT):
            broker.expect_only(sent + BARRIER, BARRIER_ANSWER)


def split(bench: Bench, broker: BrokerUnderTest) -> None:
    """Try requests that arrive in other pieces than they were made."""
    sent = produce("t", message_set(b"one", b"two")) + BARRIER
    with bench.check("A request arrives byte by byte", paper.SET), broker.connect() as connection:
        for at in range(len(sent)):
            connection.send(sent[at : at + 1])
        broker.compare(connection, sent, BARRIER_ANSWER)
    with bench.check("Three requests arrive at once", paper.SET):
        broker.expect(sent * 3, BARRIER_ANSWER * 3)
    title = "A second client is served while the first has sent half a request"
    with bench.check(title, paper.SET), broker.connect() as slow:
        slow.send(sent[:20])
        broker.expect(BARRIER, BARRIER_ANSWER)
        slow.send(sent[20:])
        broker.compare(slow, sent, BARRIER_ANSWER)
    with bench.check("A client that leaves in the middle of a request does no harm", paper.SET):
        with broker.connect() as leaving:
            leaving.send(sent[:20])
        broker.expect(BARRIER, BARRIER_ANSWER)
    with bench.check("A request of 300,000 bytes is read whole", paper.SET):
        broker.expect(produce("t", message(b"x" * 300_000)) + BARRIER, BARRIER_ANSWER)


def refuse(bench: Bench, broker: BrokerUnderTest) -> None:
    """Try requests that a broker answers by closing the connection."""
    good, bad = message(b"one"), message(b"two")[:-1] + b"0"
    body = produce("t", good)[6:]
    refused = {
        "A message with a wrong CRC": (produce("t", good + bad), paper.NETWORK_CRC),
        "A message with a wrong CRC and magic 0": (
            produce("t", message(b"two", magic=0)[:-1] + b"0"),
            paper.NETWORK_CRC,
        ),
        "A message with magic 2": (produce("t", good[:4] + b"\x02" + good[5:]), paper.CRC),
        "A message with codec 3": (produce("t", _with_attributes(3)), paper.CRC),
        "A message with a length that is too small for magic 1": (
            produce("t", good + pack(">ibb", 5, 1, 0) + bytes(4)),
            paper.CRC,
        ),
        "A message with a negative length": (produce("t", pack(">i", -1) + bytes(20)), paper.CRC),
        "A set without a whole message": (produce("t", good[:-1]), paper.CRC),
        "A multiproduce with a wrong CRC in its second part": (multiproduce(("t", good), ("u", bad)), paper.CRC),
        "A request of type 9": (frame(9, body), paper.SET),
        "A request of size 0": (pack(">i", 0), paper.SET),
        "A request of size -1": (pack(">ih", -1, 0) + body, paper.SET),
        "A request of size 2147483647": (pack(">ih", _TOO_LARGE, 0), paper.SET),
        "A request that ends in the middle of its topic": (frame(0, pack(">h", 100) + b"t"), paper.SET),
        "A request with a topic of negative length": (frame(0, pack(">h", -1) + body), paper.SET),
        "A request with a set that is larger than the request": (
            frame(0, pack(">h1sii", 1, b"t", 0, len(good) + 1) + good),
            paper.SET,
        ),
        "A request with a set of negative size": (frame(0, pack(">h1sii", 1, b"t", 0, -1) + good), paper.SET),
        "A fetch request that ends in the middle of its offset": (frame(1, fetch("t", 0)[6:-8]), paper.PULL),
    }
    for title, (sent, sentence) in refused.items():
        with bench.check(f"{title} closes the connection", sentence):
            broker.expect(sent if sent[:4] == pack(">i", _TOO_LARGE) else sent + BARRIER, None)
    with bench.check("A new connection works after the others were closed", paper.SET):
        broker.expect(BARRIER, BARRIER_ANSWER)


def _with_attributes(attributes: int) -> bytes:
    plain = message(b"one")
    return plain[:5] + bytes([attributes]) + plain[6:]


def _longer(request_frame: bytes, more: bytes) -> bytes:
    """Return a request with bytes after its body."""
    (size,) = (int.from_bytes(request_frame[:4], "big"),)
    return pack(">i", size + len(more)) + request_frame[4:] + more
