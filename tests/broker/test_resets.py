"""Connections that are reset, so that a client which waits to send more finds out at once."""

from __future__ import annotations

import socket
import struct
from types import SimpleNamespace
from typing import Any

import pytest

from kafka2011.broker.connections.client_connection import reset_on_close
from kafka2011.broker.replication.led_client import LedClient
from kafka2011.broker.requests.handlers import RefusedError
from kafka2011.replica.in_sync import LeadLostError


def test_a_connection_that_is_reset_waits_for_nothing_when_it_is_closed() -> None:
    """Closing it sends a reset, which wakes a client that waits to send more."""
    with socket.socket() as connection:
        reset_on_close(connection)
        assert struct.unpack("ii", connection.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER, 8)) == (1, 0)
    reset_on_close(connection)  # it is closed already


def _refuse(_self: object = None) -> None:
    raise RefusedError("it does not lead")


@pytest.mark.parametrize(
    ("leading", "error"),
    [
        (None, RefusedError),
        (SimpleNamespace(term=SimpleNamespace(has_ended=True, new_client=lambda: None)), LeadLostError),
        (SimpleNamespace(term=SimpleNamespace(has_ended=False, new_client=lambda: None), check=_refuse), RefusedError),
    ],
)
def test_whoever_is_refused_since_another_leads_is_reset(leading: Any, error: type[Exception]) -> None:
    """Whether it has connected before or after that."""
    told: list[bool] = []
    client = LedClient(leading, 1, lambda: told.append(True))
    assert told == []
    with pytest.raises(error):
        client.check()
    assert told == [True]
