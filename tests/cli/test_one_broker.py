"""`produce --broker`: nothing counts as sent without the broker's proof."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from kafka2011.cli.one_broker import MAX_UNPROVEN, OneBroker, encoded
from kafka2011.compression import Codec
from kafka2011.config import ProducerConfig
from kafka2011.errors import BrokerConnectionError, MessageSizeTooLargeError
from kafka2011.message import MessageSet
from kafka2011.producer.errors import ConfirmTimeoutError, SetRefusedError
from kafka2011.protocol import MultiFetchRequest, MultiProduceRequest
from zk.cluster import UNKNOWN_ID, Broker

if TYPE_CHECKING:
    from tests.support.scripted_broker import Peer, ScriptedBroker, Serve

PROOF = "00000002 0000"


def config(**settings: object) -> ProducerConfig:
    return ProducerConfig.from_properties({"broker.list": "0:127.0.0.1:6667", **settings})


def send(broker: ScriptedBroker, *lines: bytes, resend: bool = False, timeout_ms: int = 20_000) -> None:
    """Send each line as a request of its own."""
    named = Broker(UNKNOWN_ID, "127.0.0.1", broker.port)
    with OneBroker(named, config(**{"confirm.timeout.ms": timeout_ms}), resend=resend) as sender:
        for line in lines:
            sender.send("views", {0: [MessageSet([line])]}, 1)
        sender.finish()


def produced(broker: ScriptedBroker) -> list[bytes]:
    return [
        payload
        for request in broker.requests
        if isinstance(request, MultiProduceRequest)
        for produce in request.produces
        for payload in MessageSet.from_bytes(produce.messages)
    ]


def prove_all(peer: Peer) -> None:
    """Answer every empty multifetch."""
    while (request := peer.request()) is not None:
        if isinstance(request, MultiFetchRequest):
            peer.send(PROOF)


def prove(count: int) -> object:
    """Answer so many empty multifetches, and end the connection at the next produce."""

    def script(peer: Peer) -> None:
        proven = 0
        while (request := peer.request()) is not None:
            if isinstance(request, MultiFetchRequest):
                peer.send(PROOF)
                proven += 1
            elif proven >= count:
                return

    return script


def test_all_is_sent_once_and_proven(serve: Serve) -> None:
    """More requests than may be unproven at a time arrive in order, and the last one is proven too."""
    broker = serve(prove_all)
    lines = [b"%d" % number for number in range(3 * MAX_UNPROVEN)]
    send(broker, *lines)
    assert produced(broker) == lines
    assert sum(isinstance(request, MultiFetchRequest) for request in broker.requests) == len(lines) + 1


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", bytes.fromhex("00000002ffff")])
def test_what_is_no_broker_gets_no_message(answer: bytes, serve: Serve) -> None:
    """Another server, or none at all, is an error even if there is nothing to send."""

    def other(peer: Peer) -> None:
        peer.request()
        peer.send(answer)

    broker = serve(other)
    with pytest.raises(BrokerConnectionError, match=f"127.0.0.1:{broker.port} does not answer as a broker does"):
        send(broker)
    assert produced(broker) == []


def test_a_broker_that_is_down_is_an_error_without_lines(closed_port: int) -> None:
    """Nothing to send is no reason to find nobody in silence."""
    with (
        pytest.raises(BrokerConnectionError, match="does not answer as a broker does: connecting to"),
        OneBroker(Broker(UNKNOWN_ID, "127.0.0.1", closed_port), config(), resend=False),
    ):
        pass


def test_what_is_not_proven_may_be_lost(serve: Serve) -> None:
    """When the broker ends the connection the error tells how far it was."""
    with pytest.raises(BrokerConnectionError, match=r"messages [1-3] to \d+ may be lost, [0-2] before were handled"):
        send(serve(prove(3)), *[b"%d" % number for number in range(20)])


def test_what_is_not_proven_is_sent_again(serve: Serve) -> None:
    """With resending a lost connection costs nothing but repeats, in order."""
    broker = serve(prove(3), prove_all)
    lines = [b"%d" % number for number in range(20)]
    send(broker, *lines, resend=True)
    first_deliveries = dict.fromkeys(produced(broker))
    assert list(first_deliveries) == lines


def test_a_refused_set_is_named(serve: Serve) -> None:
    """What ends three connections in a row, on which the broker answered before, is not sent for ever."""
    refuse = prove(1)
    with pytest.raises(SetRefusedError, match="refuses messages 1 to 1; 0 before were handled"):
        send(serve(refuse, refuse, refuse, refuse), b"x", resend=True)


def test_a_broker_that_stays_away_is_not_waited_for_for_ever(serve: Serve) -> None:
    """Trying again ends after confirm.timeout.ms."""

    def leave(peer: Peer) -> None:
        peer.request()
        peer.send(PROOF)
        peer.request()
        broker.refuse()

    broker = serve(leave)
    with pytest.raises(ConfirmTimeoutError, match=r"has not confirmed messages 1 to 1 within 0\.5 s"):
        send(broker, b"x", resend=True, timeout_ms=500)


def test_compressed_sets_are_divided() -> None:
    """No wrapper is larger than one message may be, whatever compression makes of the lines."""
    noise = [os.urandom(60) for _ in range(50)]
    sets = list(encoded(noise, Codec.GZIP, 500))
    assert len(sets) > 1
    assert [payload for each in sets for payload in each] == noise
    assert max(each.largest_payload_bytes for each in sets) <= 500
    [alone] = encoded([os.urandom(500)], Codec.GZIP, 500)
    assert alone.largest_payload_bytes == 500
    with pytest.raises(MessageSizeTooLargeError, match="501 bytes"):
        list(encoded([b"x" * 501], Codec.NONE, 500))
