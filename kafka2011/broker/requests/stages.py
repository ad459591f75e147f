"""The stages that a request passes on its way to the logs, one small piece each; no sockets here.

`broker/pipelines.py` lists them in order. Those of replicas are in `broker/replication/led_stages.py`.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from kafka2011.broker.security.access import CONSUME, PRODUCE
from kafka2011.errors import KafkaError, LogError
from kafka2011.log.log import LogFailedError
from kafka2011.wire.protocol import (
    FetchRequest,
    MultiFetchRequest,
    MultiProduceRequest,
    OffsetsRequest,
    ProduceRequest,
    RefusalRequest,
    decode_request,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from kafka2011.broker.requests.handlers import Client, Reply, RequestHandlers
    from kafka2011.broker.security.quota import ClientQuota
    from kafka2011.message.header import AnyBytes
    from kafka2011.wire.protocol import Request

    Stage: TypeAlias = "Callable[[Call], None]"
    """Does its part for a call. Raises KafkaError to refuse it, which closes the connection."""
    MayUse: TypeAlias = Callable[[str, str], bool]
    """Says whether a client may PRODUCE to, or CONSUME from, a topic."""

_DISK_ERRORS = {errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EROFS}


class BrokerFailedError(KafkaError):
    """The broker cannot go on; the text says why."""


class Call:
    """One request on its way through the stages, with what they have made of it so far.

    `frame` is the request as it came, `following` the sets of produces for the same partition right behind it.
    `is_done` ends the way early.
    """

    __slots__ = ("following", "frame", "is_done", "reply", "request")

    request: Request
    """There once it was decoded."""

    def __init__(self, frame: AnyBytes, following: list[bytes]) -> None:
        self.frame = frame
        self.following = following
        self.reply: Reply | None = None
        self.is_done = False


class FailureCheck:
    """Refuses everything once the broker has failed: what it appended then would be lost in recovery."""

    def __init__(self, failure: Callable[[], BaseException | None]) -> None:
        self._failure = failure

    def __call__(self, _call: Call) -> None:
        """Refuse a request once the broker has failed. Raises BrokerFailedError."""
        self.check()

    def check(self) -> None:
        """Raise BrokerFailedError if the broker has failed."""
        if self._failure() is not None:
            raise BrokerFailedError("the broker is stopping after a failure")


def decode(call: Call) -> None:
    """Decode the request. Raises ProtocolError."""
    call.request = decode_request(call.frame)


class ProduceQuota:
    """Takes what producers send from their quota: what they send next waits until it is paid for."""

    def __init__(self, quota: ClientQuota) -> None:
        self._quota = quota

    def __call__(self, call: Call) -> None:
        """Take the bytes of a produce."""
        if isinstance(call.request, ProduceRequest | MultiProduceRequest):
            self._quota.produce(len(call.frame) + sum(map(len, call.following)))


class AccessCheck:
    """Finds the topics of a request that its client may not use: the handlers refuse these parts of it."""

    def __init__(self, may_use: MayUse, client: Client) -> None:
        self._may_use = may_use
        self._client = client

    def __call__(self, call: Call) -> None:
        """Tell the handlers which topics of a request are refused."""
        self._client.refused_topics = refused_topics(call.request, self._may_use)


def refused_topics(request: Request, may_use: MayUse) -> frozenset[str]:
    """Return the topics of a request that may not be used as it wants."""
    match request:
        case ProduceRequest():
            what, topics = PRODUCE, {request.topic}
        case MultiProduceRequest():
            what, topics = PRODUCE, {produce.topic for produce in request.produces}
        case FetchRequest() | OffsetsRequest():
            what, topics = CONSUME, {request.topic}
        case RefusalRequest():
            return frozenset()
        case MultiFetchRequest():
            what, topics = CONSUME, {fetch.topic for fetch in request.fetches}
    return frozenset(topic for topic in topics if not may_use(what, topic))


class Handle:
    """Has the request handled, and takes an error of the disk in a produce for what it is: the broker's end."""

    def __init__(self, handlers: RequestHandlers, client: Client) -> None:
        self._handlers = handlers
        self._client = client

    def __call__(self, call: Call) -> None:
        """Handle a request. Raises KafkaError, and LogFailedError after which the broker stops."""
        request = call.request
        try:
            if call.following and isinstance(request, ProduceRequest):
                self._handlers.produce_together(request, call.following, self._client)
            else:
                call.reply = self._handlers.handle(request, self._client)
        except LogError as error:
            if _comes_from_the_disk(error) and isinstance(request, ProduceRequest | MultiProduceRequest):
                raise LogFailedError(str(error)) from error
            raise


def _comes_from_the_disk(error: LogError) -> bool:
    """Say whether an error is the disk's, not that of a limit on open files or of a name that is taken."""
    return isinstance(error.__cause__, OSError) and error.__cause__.errno in _DISK_ERRORS
