"""How far followers are behind, as a leader knows it, and as bytes for whoever asks: an operator's tools.

    request    size int32 | type int16 = 101
    response   size int32 | error int16 = 0 | JSON

Who does not lead closes the connection.
"""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any, NamedTuple

from kafka2011.errors import ProtocolError
from kafka2011.json_document import read_document
from kafka2011.replica.state import Replica
from kafka2011.wire.protocol import encode_response_header

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafka2011.message.header import AnyBytes

REPLICA_STANDING = 101
_REQUEST = struct.pack(">h", REPLICA_STANDING)


class Standing(NamedTuple):
    """A follower in its leader's epoch: what it has yet to fsync, and how long ago it last had all that there was."""

    replica: Replica
    is_in_sync: bool
    bytes_behind: int
    seconds_behind: float


def encode_request() -> bytes:
    """Return the whole frame."""
    return struct.pack(">i", len(_REQUEST)) + _REQUEST


def encode_answer(standings: Iterable[Standing]) -> bytes:
    """Return the whole response."""
    followers = [
        {
            "replica": str(each.replica),
            "in_sync": each.is_in_sync,
            "bytes_behind": each.bytes_behind,
            "seconds_behind": round(each.seconds_behind, 3),
        }
        for each in standings
    ]
    body = json.dumps({"followers": followers}).encode()
    return encode_response_header(0, len(body)) + body


def decode_answer(body: AnyBytes, who: str) -> list[Standing]:
    """Return what the body of a response says; `who` names the sender in the ProtocolError if it makes no sense."""
    return read_document(bytes(body), _of_document, ProtocolError, f"{who} does not say how its followers are")


def _of_document(document: dict[str, Any]) -> list[Standing]:
    found = []
    for each in document["followers"]:
        is_in_sync, bytes_behind, seconds_behind = each["in_sync"], each["bytes_behind"], each["seconds_behind"]
        if type(is_in_sync) is not bool or type(bytes_behind) is not int or type(seconds_behind) not in {int, float}:
            raise ValueError(f"{each!r} is no follower's standing")
        if bytes_behind < 0 or not 0 <= seconds_behind < float("inf"):
            raise ValueError(f"{bytes_behind} bytes and {seconds_behind} seconds behind")
        found.append(Standing(Replica.of(each["replica"]), is_in_sync, bytes_behind, float(seconds_behind)))
    return found
