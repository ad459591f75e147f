"""Sessions that end when a test wants it, without waiting for their timeout."""

from __future__ import annotations

import socket
import struct
from typing import TYPE_CHECKING

from kazoo.protocol.serialization import Connect

from zk.errors import NotConnected

if TYPE_CHECKING:
    from zk.client import ZkClient

_CLOSE = struct.pack("!ii", 1, -11)  # request 1, operation closeSession
_TIMEOUT_S = 10


def expire_session(client: ZkClient) -> int:
    """End a client's session behind its back, as ZooKeeper does when it times out; returns its id.

    A second connection takes the session over by its id and password and closes it, before the first one can take
    it back: both requests go out at once. The client learns of it when it reconnects.
    """
    identity = client.client_id
    if identity is None:
        raise NotConnected("there is no session to expire")
    session_id, password = identity
    connect = bytes(Connect(0, 0, client.requested_timeout_ms, session_id, password, False).serialize())
    host, port = client.hosts[0]
    with socket.create_connection((host, port), timeout=_TIMEOUT_S) as thief:
        thief.sendall(b"".join(struct.pack("!i", len(frame)) + frame for frame in (connect, _CLOSE)))
        while thief.recv(4096):  # the server closes the connection once the session has ended
            pass
    return int(session_id)
