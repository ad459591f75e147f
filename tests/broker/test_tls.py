"""A broker's side of a handshake that does not come to an end."""

from __future__ import annotations

import re
import socket
from collections import Counter
from typing import TYPE_CHECKING

import gevent.socket
import pytest

from kafka2011.broker import tls
from kafka2011.broker.certificates import Certificates
from kafka2011.broker.memory_budget import MemoryBudget
from kafka2011.broker.page_reads import PageReads
from kafka2011.broker.small_share import SmallShare
from kafka2011.broker.tls import TlsConnection
from kafka2011.certificates import Authority
from kafka2011.errors import BrokerConnectionError
from zk.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("sent", [b"", b"\x16\x03\x01"])
def test_who_does_not_shake_hands_in_time_is_closed_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    """Silent from the beginning, or in the middle of a hello."""
    monkeypatch.setattr(tls, "HANDSHAKE_TIMEOUT_S", 0.05)
    issued = Authority(tmp_path).issue("broker", ["localhost"])
    certificates = Certificates(issued.certificate, issued.key, None, required=False, clock=SYSTEM_CLOCK)
    here, there = socket.socketpair()
    counts: Counter[str] = Counter()
    budget = MemoryBudget(1 << 20)
    connection = TlsConnection(
        *(gevent.socket.socket(fileno=here.detach()), "there", budget, SmallShare(1 << 16), counts, None),
        *(None, PageReads()),
        certificates=certificates,
        rule=re.compile("CN=([^,]*)"),
    )
    with there:
        there.sendall(sent)
        with pytest.raises(BrokerConnectionError, match="did not shake hands"):
            connection.begin()
        connection.close()
    assert counts == {"failed_handshakes": 1}
