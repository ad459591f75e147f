"""Each stage of a request's way, and the way through all of them."""

from __future__ import annotations

import errno
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from kafka2011.broker.replication.led_stages import LeadCheck, LeadStillHeld, ReplicaFrames, type_of
from kafka2011.broker.requests.handlers import Client, RefusedError, Reply
from kafka2011.broker.requests.pipeline import PlainProduces, RequestPipeline
from kafka2011.broker.requests.receive_buffer import Received
from kafka2011.broker.requests.request_times import RequestTimes
from kafka2011.broker.requests.stages import (
    AccessCheck,
    BrokerFailedError,
    Call,
    FailureCheck,
    Handle,
    ProduceQuota,
    decode,
    refused_topics,
)
from kafka2011.broker.security.access import CONSUME, PRODUCE
from kafka2011.errors import LogError, ProtocolError
from kafka2011.log.log import LogFailedError
from kafka2011.replica.codec import REPLICA_FETCH, WaitingFetch, encode_fetch
from kafka2011.replica.exchange import ReplicaFetch
from kafka2011.replica.standing import REPLICA_STANDING
from kafka2011.replica.state import Replica
from kafka2011.wire.protocol import (
    FetchRequest,
    MultiFetchRequest,
    MultiProduceRequest,
    OffsetsRequest,
    ProduceRequest,
    Request,
    encode_request,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka2011.broker.requests.receive_buffer import Run

PRODUCE_VIEWS = ProduceRequest("views", 0, b"set")
FETCH_VIEWS = FetchRequest("views", 0, 0, 100)
BARRIER = MultiFetchRequest(())


def call_of(request: Request, *following: bytes) -> Call:
    """Return a call whose request is decoded."""
    call = Call(encode_request(request)[4:], list(following))
    decode(call)
    return call


class Noted:
    """A client, its handlers, its quota and its lead, in one: it notes what is done, and fails when told to."""

    def __init__(self) -> None:
        self.done: list[object] = []
        self.error: Exception | None = None
        self.reply: Reply | None = None
        self.runs_taken = 10
        self.times = RequestTimes()
        self.refused_topics: frozenset[str] = frozenset()

    def _do(self, *what: object) -> None:
        self.done.append(what)
        if self.error is not None:
            raise self.error

    def handle(self, request: Request, _client: object) -> Reply | None:
        self._do("handle", type(request).__name__)
        return self.reply

    def produce_together(self, first: ProduceRequest, following: list[bytes], _client: object) -> None:
        self._do("together", first.topic, len(following))

    def append_run(self, _buffer: object, run: Run, _client: object) -> bool:
        self.runs_taken -= 1
        self._do("run", run[0])
        return self.runs_taken >= 0

    def produce(self, size: int) -> None:
        self._do("quota", size)

    def check(self, *, is_produce: bool = False) -> None:
        self._do("lead", is_produce)

    def note_fetch(self) -> None:
        self._do("fetch")

    def await_barrier(self) -> None:
        self._do("barrier")

    def led(self) -> Noted:
        self._do("led")
        return self

    def standings(self) -> Reply:
        return Reply((b"standings",))


@pytest.fixture
def noted() -> Any:
    return Noted()


# One stage each


def test_a_broker_that_has_failed_refuses_whatever_comes() -> None:
    failure: list[BaseException] = []
    check = FailureCheck(lambda: failure[0] if failure else None)
    check(call_of(FETCH_VIEWS))
    failure.append(OSError("disk"))
    with pytest.raises(BrokerFailedError, match="stopping after a failure"):
        check(call_of(FETCH_VIEWS))


def test_decoding_refuses_what_is_no_request() -> None:
    assert call_of(FETCH_VIEWS).request == FETCH_VIEWS
    with pytest.raises(ProtocolError):
        decode(Call(b"\0\x63", []))


def test_a_quota_takes_the_bytes_of_produces_alone(noted: Any) -> None:
    """Those behind the first too, and nothing for requests that are answered: their answers are what is paid for."""
    take = ProduceQuota(noted)
    call = call_of(PRODUCE_VIEWS, b"12345", b"678")
    take(call)
    take(call_of(FETCH_VIEWS))
    assert noted.done == [("quota", len(call.frame) + 8)]


@pytest.mark.parametrize(
    ("request_", "refused"),
    [
        (PRODUCE_VIEWS, {"views"}),
        (ProduceRequest("clicks", 0, b""), set()),
        (MultiProduceRequest((PRODUCE_VIEWS, ProduceRequest("clicks", 0, b""))), {"views"}),
        (FETCH_VIEWS, set()),
        (FetchRequest("clicks", 0, 0, 1), {"clicks"}),
        (MultiFetchRequest((FETCH_VIEWS, FetchRequest("clicks", 1, 0, 1))), {"clicks"}),
        (BARRIER, set()),
        (OffsetsRequest("clicks", 0, -1, 1), {"clicks"}),
    ],
)
def test_topics_that_a_client_may_not_use_are_found_for_every_request(request_: Request, refused: set[str]) -> None:
    """It may produce to clicks, and consume views."""
    allowed = {(PRODUCE, "clicks"), (CONSUME, "views")}
    assert refused_topics(request_, lambda what, topic: (what, topic) in allowed) == refused


def test_the_handlers_are_told_of_refused_topics_for_each_request_anew(noted: Any) -> None:
    check = AccessCheck(lambda _what, topic: topic != "views", noted)
    check(call_of(PRODUCE_VIEWS))
    assert noted.refused_topics == {"views"}
    check(call_of(ProduceRequest("clicks", 0, b"")))
    assert noted.refused_topics == frozenset()


def test_sets_behind_a_produce_are_handled_with_it(noted: Any) -> None:
    handle = Handle(noted, noted)
    noted.reply = Reply((b"answer",))
    handle(call_of(PRODUCE_VIEWS, b"another"))
    call = call_of(FETCH_VIEWS)
    handle(call)
    assert noted.done == [("together", "views", 1), ("handle", "FetchRequest")]
    assert call.reply == noted.reply


@pytest.mark.parametrize(("number", "is_the_end"), [(errno.EIO, True), (errno.ENOSPC, True), (errno.EMFILE, False)])
def test_an_error_of_the_disk_in_a_produce_is_the_brokers_end(noted: Any, number: int, is_the_end: bool) -> None:
    """A limit on open files is not; nor is anything that a fetch meets."""
    noted.error = LogError("cannot make the log")
    noted.error.__cause__ = OSError(number, "why")
    handle = Handle(noted, noted)
    with pytest.raises(LogError) as raised:
        handle(call_of(PRODUCE_VIEWS))
    assert isinstance(raised.value, LogFailedError) == is_the_end
    with pytest.raises(LogError) as raised:
        handle(call_of(FETCH_VIEWS))
    assert not isinstance(raised.value, LogFailedError)


# Those of replicas


def test_the_lead_is_looked_at_before_a_request_and_a_barrier_waits(noted: Any) -> None:
    check = LeadCheck(noted)
    for request in (PRODUCE_VIEWS, FETCH_VIEWS, BARRIER, OffsetsRequest("views", 0, -1, 1)):
        check(call_of(request))
    assert noted.done == [
        ("lead", True),
        *(("lead", False), ("fetch",)),
        *(("lead", False), ("barrier",)),
        ("lead", False),
    ]


def test_an_answer_goes_out_only_while_the_lead_is_held(noted: Any) -> None:
    check = LeadStillHeld(noted)
    call = call_of(FETCH_VIEWS)
    check(call)
    assert noted.done == []
    call.reply = Reply((b"answer",))
    noted.error = RefusedError("this replica does not lead")
    with pytest.raises(RefusedError):
        check(call)


def frame_of(kind: int) -> bytes:
    return kind.to_bytes(2, "big")


def test_what_replicas_ask_goes_no_further(noted: Any) -> None:
    frames = ReplicaFrames(noted, noted, 7, leading=lambda: None, topics=list, may_use=None)
    call = Call(frame_of(REPLICA_STANDING), [])
    frames(call)
    assert call.is_done
    assert call.reply == Reply((b"standings",))
    client = Call(encode_request(FETCH_VIEWS)[4:], [])
    frames(client)
    assert not client.is_done
    with pytest.raises(RefusedError, match="does not lead"):
        frames(Call(frame_of(REPLICA_FETCH), []))


def test_a_leader_is_told_which_connection_a_follower_asks_by(noted: Any) -> None:
    """What it knows of a follower belongs to that: a request of an older one that comes late says nothing about now."""
    asked: list[int] = []

    def answer(request: WaitingFetch, _connection: object) -> Reply:
        asked.append(request.fetch.connection)
        return Reply((b"answer",))

    client: Any = SimpleNamespace(number=5)
    leading: Any = SimpleNamespace(answer=answer)
    frames = ReplicaFrames(client, noted, 7, leading=lambda: leading, topics=list, may_use=None)
    call = Call(encode_fetch(WaitingFetch(ReplicaFetch(3, Replica("b", "51f3")), 100))[4:], [])
    frames(call)
    assert asked == [5]
    assert call.reply == Reply((b"answer",))


def test_a_frame_without_a_type_has_none() -> None:
    assert (type_of(b""), type_of(b"\0"), type_of(b"\0\x04")) == (-1, -1, 4)


# All of them


class Released(Reply):
    """A reply that says whether it was released."""

    released: list[bool] = []  # noqa: RUF012 - one for the test

    def release(self) -> None:
        self.released.append(True)


def pipeline(noted: Any, *stages: Callable[[Call], None]) -> RequestPipeline:
    plain = PlainProduces(noted, noted, FailureCheck(lambda: None))
    return RequestPipeline(stages, plain, noted.times)


def test_stages_follow_one_another_until_one_has_answered(noted: Any) -> None:
    steps: list[str] = []

    def answer(call: Call) -> None:
        call.reply = Reply((b"answer",))
        call.is_done = bool(call.following)

    way = pipeline(noted, lambda _: steps.append("first"), answer, lambda _: steps.append("last"))
    assert way.handle(b"frame", []) == Reply((b"answer",))
    assert way.handle(b"frame", [b"done early"]) == Reply((b"answer",))
    assert steps == ["first", "last", "first"]


def test_an_answer_that_is_not_sent_is_released(noted: Any) -> None:
    """Or segments would stay open for ever."""
    Released.released.clear()

    def answer(call: Call) -> None:
        call.reply = Released(())

    def refuse(_call: Call) -> None:
        raise RefusedError("the lead was lost")

    with pytest.raises(RefusedError):
        pipeline(noted, answer, refuse).handle(b"frame", [])
    assert Released.released == [True]


# Where what C has found joins


def run_of(topic: str, start: int, end: int) -> Run:
    return topic, 0, start, end, start, end - start, 2, 5


RUNS = [run_of("views", 0, 50), run_of("clicks", 50, 80), run_of("views", 80, 100)]
RECEIVED = Received(120, RUNS, 100, 120, is_more=False)


def plain_produces(noted: Any, **options: Any) -> PlainProduces:
    return PlainProduces(cast("Any", noted), noted, FailureCheck(options.pop("failure", lambda: None)), **options)


def test_runs_are_appended_and_then_paid_for(noted: Any) -> None:
    """The lead is looked at once, before them."""
    plain = plain_produces(noted, check_lead=lambda: noted.check(is_produce=True), quota=noted)
    assert plain.append(noted, RECEIVED) == 100
    assert noted.done == [
        ("lead", True),
        *(("run", "views"), ("quota", 50)),
        *(("run", "clicks"), ("quota", 30)),
        *(("run", "views"), ("quota", 20)),
    ]


def test_the_first_run_that_is_not_as_usual_begins_what_passes_the_stages(noted: Any) -> None:
    noted.runs_taken = 1
    assert plain_produces(noted).append(noted, RECEIVED) == 50


def test_a_run_for_a_topic_that_is_refused_is_left_to_the_stages(noted: Any) -> None:
    plain = plain_produces(noted, may_use=lambda what, topic: (what, topic) != (PRODUCE, "clicks"))
    assert plain.append(noted, RECEIVED) == 50
    assert noted.done == [("run", "views")]


def test_nothing_is_appended_after_a_failure_or_without_the_lead(noted: Any) -> None:
    with pytest.raises(BrokerFailedError):
        plain_produces(noted, failure=lambda: OSError("disk")).append(noted, RECEIVED)

    def refuse() -> None:
        raise RefusedError("this replica does not lead")

    with pytest.raises(RefusedError):
        plain_produces(noted, check_lead=refuse).append(noted, RECEIVED)
    assert noted.done == []


def test_the_times_of_plain_produces_count_their_sets(noted: Any) -> None:
    plain = plain_produces(noted)
    plain.append(noted, RECEIVED)
    assert noted.times.by_type()["produce"].distribution().at_most[-1] == 6


def test_what_a_client_may_not_use_is_nothing_at_first() -> None:
    assert Client(cast("Any", None)).refused_topics == frozenset()
