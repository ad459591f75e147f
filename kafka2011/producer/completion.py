"""The end of batches: counted, their room given back, their futures done, and the application told."""

from __future__ import annotations

import logging
import queue
import threading
from typing import TYPE_CHECKING

from kafka2011.producer.batch import FailedBatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kafka2011.producer.accumulator import Accumulator
    from kafka2011.producer.batch import Batch, Receipt, SendFuture
    from kafka2011.producer.counts import Counts

logger = logging.getLogger(__name__)

_JOIN_S = 10.0


class Completion:
    """Ends batches. The application's callbacks and `on_failure` run in a separate thread.

    So a callback may send, and wait for room, while the sender that it waits for goes on.
    """

    def __init__(
        self,
        accumulator: Accumulator,
        counts: Counts,
        on_failure: Callable[[FailedBatch], object] | None,
        *,
        confirmed: bool,
    ) -> None:
        self._accumulator = accumulator
        self._counts = counts
        self._on_failure = on_failure
        self._confirmed = confirmed
        self._calls: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()

    def done(self, batches: Iterable[Batch]) -> None:
        """End batches that were written, or confirmed."""
        messages = sets = 0
        for batch in batches:
            messages += batch.messages
            sets += 1
            self._end(batch, None)
        self._counts.add(messages_sent=messages, sets_sent=sets)

    def failed(self, batch: Batch, error: Exception) -> None:
        """End a batch that is given up."""
        messages = batch.payloads if batch.ready_set is None else batch.ready_set
        keys = batch.keys or [None] * (len(batch.payloads) if batch.ready_set is None else 1)
        self._counts.add(messages_failed=batch.messages)
        self._end(batch, error)
        if self._on_failure is not None:
            self._call(lambda: self._tell(FailedBatch(batch.where.topic, messages, keys, error)))

    def close(self) -> None:
        """Wait until the application has been told everything; must not be called from one of its callbacks."""
        if self._thread is not None and self._thread is not threading.current_thread():
            self._calls.put(None)
            self._thread.join(_JOIN_S)

    def _end(self, batch: Batch, error: Exception | None) -> None:
        batch.let_go()
        self._accumulator.release(batch)
        receipt = batch.receipt(confirmed=self._confirmed)
        future: SendFuture = batch
        if batch.list_future is not None:  # then nobody else has the batch's own
            batch.end(receipt, error)
            outcome = batch.list_future.ended(receipt, error)
            if outcome is None:
                self._accumulator.done(batch)
                return
            future = batch.list_future
            receipt, error = outcome
        if future.may_end_here():
            self._finish(batch, future, receipt, error)
        else:
            self._call(lambda: self._finish(batch, future, receipt, error))

    def _finish(self, batch: Batch, future: SendFuture, receipt: Receipt, error: Exception | None) -> None:
        future.end(receipt, error)
        self._accumulator.done(batch)

    def _call(self, call: Callable[[], object]) -> None:
        if self._thread is None:
            with self._starting:
                if self._thread is None:
                    thread = threading.Thread(target=self._run, name="kafka2011-producer-callbacks", daemon=True)
                    thread.start()
                    self._thread = thread
        self._calls.put(call)

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            call()

    def _tell(self, failed: FailedBatch) -> None:
        assert self._on_failure is not None
        try:
            self._on_failure(failed)
        except Exception:
            logger.exception("on_failure raised for %d messages of topic %s", len(failed.keys), failed.topic)
