"""Connections to a broker: how long they wait for an answer, and how answers are cut out of what comes."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import gevent
import pytest
from gevent import socket

from kafka2011.errors import BrokerConnectionError
from kafka2011.gateway.links import BARRIER, BrokerLink
from zk.cluster import Broker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DEADLINE_S = 20.0
TIMEOUT_S = 0.1


@pytest.fixture
def answers() -> Iterator[Callable[..., BrokerLink]]:
    """Return what makes a connection to a broker that sends these pieces, each after its delay in seconds."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    servers: list[gevent.Greenlet[..., None]] = []
    links: list[BrokerLink] = []

    def serve(pieces: tuple[tuple[float, bytes], ...]) -> None:
        accepted, _ = listener.accept()
        with closing(accepted):
            for after_s, piece in pieces:
                gevent.sleep(after_s)
                accepted.sendall(piece)
            accepted.recv(1 << 16)
            gevent.sleep(DEADLINE_S)

    def make(*pieces: tuple[float, bytes]) -> BrokerLink:
        servers.append(gevent.spawn(serve, pieces))
        links.append(BrokerLink(Broker(0, "127.0.0.1", listener.getsockname()[1]), TIMEOUT_S))
        links[-1].send(BARRIER)
        return links[-1]

    yield make
    gevent.killall(servers)
    for link in links:
        link.close()
    listener.close()


def test_a_broker_that_does_not_answer_is_given_up(answers: Callable[..., BrokerLink]) -> None:
    link = answers()
    with gevent.Timeout(DEADLINE_S), pytest.raises(BrokerConnectionError, match=r"no answer within 0\.1 s"):
        link.receive()
    assert not link.is_open


def test_what_a_request_may_wait_comes_on_top(answers: Callable[..., BrokerLink]) -> None:
    link = answers((3 * TIMEOUT_S, b"\0\0\0\x02\0\0"))
    assert bytes(link.receive(DEADLINE_S)) == b"\0\0"


def test_answers_come_in_pieces_and_together(answers: Callable[..., BrokerLink]) -> None:
    link = answers((0, b"\0\0"), (0.01, b"\0\x03one\0\0\0\x03"), (0.01, b"two"))
    assert [bytes(link.receive()) for _ in range(2)] == [b"one", b"two"]
