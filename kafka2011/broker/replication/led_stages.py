"""The stages that requests pass at a broker with replicas, around those of any broker."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import TYPE_CHECKING

from kafka2011.broker.requests.handlers import RefusedError
from kafka2011.broker.security.access import CONSUME, PRODUCE
from kafka2011.replica.codec import REPLICA_FETCH, decode_fetch
from kafka2011.replica.segments import REPLICA_SEGMENT
from kafka2011.replica.standing import REPLICA_STANDING
from kafka2011.wire.protocol import FETCH, MULTIFETCH, MULTIPRODUCE
from kafka2011.wire.protocol import PRODUCE as PRODUCE_TYPE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kafka2011.broker.connections.client_connection import Connection
    from kafka2011.broker.replication.leading import Leading
    from kafka2011.broker.replication.led_client import LedClient
    from kafka2011.broker.replication.segment_server import SegmentServer
    from kafka2011.broker.requests.handlers import Reply
    from kafka2011.broker.requests.stages import Call, MayUse
    from kafka2011.message.header import AnyBytes

_TYPE = struct.Struct(">h")
_NO_PARTS = b"\0\0"


def type_of(frame: AnyBytes) -> int:
    """Return the number of a request's type; -1 if the frame is too short for one."""
    return _TYPE.unpack_from(frame)[0] if len(frame) >= _TYPE.size else -1


class ReplicaFrames:
    """Answers what other replicas request; such a request goes no further. Quotas are for clients.

    `leading` returns the term of this replica if it leads now; `segments` answers also while it does not.
    `may_use` is as for AccessCheck: a replica must be
    allowed to produce to and consume from all `topics`.
    """

    def __init__(
        self,
        client: LedClient,
        connection: Connection,
        broker_id: int,
        *,
        leading: Callable[[], Leading | None],
        topics: Callable[[], Iterable[str]],
        may_use: MayUse | None,
        segments: SegmentServer | None = None,
    ) -> None:
        self._client = client
        self._connection = connection
        self._broker_id = broker_id
        self._leading = leading
        self._topics = topics
        self._may_use = may_use
        self._segments = segments

    def __call__(self, call: Call) -> None:
        """Answer a replica, which ends the way of its request. Raises RefusedError."""
        kind = type_of(call.frame)
        if kind == REPLICA_FETCH:
            call.reply = self._answer_fetch(call.frame)
            call.is_done = True
        elif kind == REPLICA_SEGMENT and self._segments is not None:
            self._check_access()
            call.reply = self._segments.answer(call.frame)
            self._connection.quota = None
            call.is_done = True
        elif kind == REPLICA_STANDING:
            call.reply = self._client.led().standings()
            call.is_done = True

    def _answer_fetch(self, frame: AnyBytes) -> Reply | None:
        leading = self._leading()
        if leading is None:
            raise RefusedError("this replica does not lead")
        request = decode_fetch(frame, self._broker_id)
        request = request._replace(fetch=replace(request.fetch, connection=self._client.number))
        self._check_access()
        reply = leading.answer(request, self._connection)
        self._connection.quota = None
        return reply

    def _check_access(self) -> None:
        if self._may_use is None:
            return
        for topic in self._topics():
            if not all(self._may_use(what, topic) for what in (CONSUME, PRODUCE)):
                raise RefusedError(
                    f"{self._connection.principal} at {self._connection.name} is not a replica: it may not both"
                    f" produce to and consume topic {topic}"
                )


class LeadCheck:
    """Refuses a client's request unless this replica leads.

    A barrier, the multifetch of nothing, waits here until all in sync have what came before it.
    """

    def __init__(self, client: LedClient) -> None:
        self._client = client

    def __call__(self, call: Call) -> None:
        """Refuse a request unless it may be served, and wait at a barrier. Raises RefusedError and LeadLostError."""
        kind = type_of(call.frame)
        self._client.check(is_produce=kind in {PRODUCE_TYPE, MULTIPRODUCE})
        if kind == MULTIFETCH and call.frame[_TYPE.size : 2 * _TYPE.size] == _NO_PARTS:
            self._client.await_barrier()
        elif kind in {FETCH, MULTIFETCH}:
            self._client.note_fetch()


class LeadStillHeld:
    """Refuses to answer if the lead may have been lost while the request was handled."""

    def __init__(self, client: LedClient) -> None:
        self._client = client

    def __call__(self, call: Call) -> None:
        """Refuse to answer without the lead. Raises RefusedError and LeadLostError."""
        if call.reply is not None:
            self._client.check()
