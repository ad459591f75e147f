"""The way of one connection's requests: the stages that each passes in order, and where produces join that C has found.

frame ──▶ stage ──▶ stage ──▶ ... ──▶ reply
plain produces in the receive buffer, found by C ──▶ PlainProduces
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from kafka2011.broker.requests.receive_buffer import RUN_END, RUN_SETS, RUN_START, RUN_TOPIC
from kafka2011.broker.requests.stages import Call
from kafka2011.broker.security.access import PRODUCE
from kafka2011.wire.protocol import PRODUCE as PRODUCE_TYPE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kafka2011.broker.requests.handlers import Client, Reply, RequestHandlers
    from kafka2011.broker.requests.receive_buffer import ReceiveBuffer, Received
    from kafka2011.broker.requests.request_times import RequestTimes
    from kafka2011.broker.requests.stages import FailureCheck, MayUse, Stage
    from kafka2011.broker.security.quota import ClientQuota
    from kafka2011.message.header import AnyBytes


class RequestPipeline:
    """What is done with the requests of one connection, in order."""

    __slots__ = ("_stages", "append_runs", "times")

    def __init__(self, stages: Iterable[Stage], plain_produces: PlainProduces, times: RequestTimes) -> None:
        self._stages = tuple(stages)
        self.append_runs = plain_produces.append
        self.times = times

    def handle(self, frame: AnyBytes, following: list[bytes]) -> Reply | None:
        """Handle one request, and the sets of produces like it behind it; return what to answer, or None.

        Raises KafkaError to refuse it.
        """
        call = Call(frame, following)
        try:
            for stage in self._stages:
                stage(call)
                if call.is_done:
                    break
        except BaseException:
            if call.reply is not None:
                call.reply.release()
            raise
        return call.reply


class PlainProduces:
    """Where the runs of plain produces join that C has found good: the same checks, then one append a run.

    `check_lead`, with replicas, raises unless this one leads.
    """

    __slots__ = ("_check_lead", "_client", "_failure", "_handlers", "_may_use", "_quota")

    def __init__(
        self,
        handlers: RequestHandlers,
        client: Client,
        failure: FailureCheck,
        *,
        check_lead: Callable[[], None] | None = None,
        may_use: MayUse | None = None,
        quota: ClientQuota | None = None,
    ) -> None:
        self._handlers = handlers
        self._client = client
        self._failure = failure
        self._check_lead = check_lead
        self._may_use = may_use
        self._quota = quota

    def append(self, buffer: ReceiveBuffer, received: Received) -> int:
        """Append runs and return where in the buffer the rest begins, which passes the stages.

        That is the end of the runs, or the first of them that is not as usual. Raises KafkaError.
        """
        if not received.runs:
            return received.rest_start
        if self._check_lead is not None:
            self._check_lead()
        times = self._handlers.times
        began_s = time.monotonic() if times.is_next() else None
        rest_start = received.rest_start
        for run in received.runs:
            self._failure.check()
            is_allowed = self._may_use is None or self._may_use(PRODUCE, run[RUN_TOPIC])
            if not is_allowed or not self._handlers.append_run(buffer, run, self._client):
                rest_start = run[RUN_START]
                break
            if self._quota is not None:
                self._quota.produce(run[RUN_END] - run[RUN_START])
        if began_s is not None:
            appended = sum(run[RUN_SETS] for run in received.runs if run[RUN_START] < rest_start)
            times.note(PRODUCE_TYPE, time.monotonic() - began_s, appended)
        return rest_start
