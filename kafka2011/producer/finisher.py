"""The end of every parcel: room, counts, futures, and the application's callback."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from kafka2011.producer.parcel import FailedSend, Receipt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kafka2011.producer.counts import Counts
    from kafka2011.producer.parcel import Parcel, PartitionSet, Ticket

logger = logging.getLogger(__name__)


class Finisher:
    """Ends parcels and completes the futures of sends of which all parcels have ended.

    `on_failure` is called by a sending thread, so it should be quick; what it raises is logged.
    `on_unkeyed_done` learns which parcels without a key have ended, those of one set at a time.
    """

    def __init__(
        self,
        counts: Counts,
        *,
        confirmed: bool,
        on_failure: Callable[[FailedSend], object] | None = None,
        on_unkeyed_done: Callable[[list[Parcel]], None] | None = None,
    ) -> None:
        self._counts = counts
        self._confirmed = confirmed
        self._on_failure = on_failure
        self._on_unkeyed_done = on_unkeyed_done
        self._lock = threading.Lock()
        self.open_tickets: set[Ticket] = set()

    def done(self, sets: Iterable[PartitionSet]) -> None:
        """End sets that were written or confirmed."""
        for ended in sets:
            self._end(ended.parcels, ended, None)
            self._counts.add(messages_sent=sum(parcel.messages for parcel in ended.parcels))

    def failed(self, ended: PartitionSet, error: Exception) -> None:
        """End a set that was given up."""
        logger.error("%d messages for %s failed: %s", sum(p.messages for p in ended.parcels), ended, error)
        self.failed_parcels(ended.parcels, error, ended)

    def failed_parcels(self, parcels: list[Parcel], error: Exception, ended: PartitionSet | None = None) -> None:
        """End parcels that were given up, before or after they were joined into a set."""
        if not parcels:
            return
        self._counts.add(messages_failed=sum(parcel.messages for parcel in parcels))
        self._end(parcels, ended, error)
        if self._on_failure is not None:
            for parcel in parcels:
                self._tell(parcel, error)

    def _end(self, parcels: list[Parcel], ended: PartitionSet | None, error: Exception | None) -> None:
        complete: list[Ticket] = []
        resends = max(ended.tries - 1, 0) if ended is not None else 0
        with self._lock:
            for parcel in parcels:
                ticket = parcel.ticket
                ticket.open_parcels -= 1
                ticket.resends += resends
                if error is not None and ticket.error is None:
                    ticket.error = error
                if not ticket.open_parcels:
                    complete.append(ticket)
        self._release(parcels)
        where = ended.partition if ended is not None else parcels[0].partition
        for ticket in complete:
            self.open_tickets.discard(ticket)
            if ticket.error is not None:
                ticket.set_exception(ticket.error)
            else:
                ticket.set_result(
                    Receipt(
                        ticket.topic, where.broker_id, where.partition, ticket.messages, self._confirmed, ticket.resends
                    )
                )
        if self._on_unkeyed_done is not None and parcels[0].ticket.key is None:
            self._on_unkeyed_done(parcels)

    @staticmethod
    def _release(parcels: list[Parcel]) -> None:
        messages = 0
        bound = parcels[0].bound
        for parcel in parcels:  # nearly always of one bound, so nearly always one release
            if parcel.bound is not bound:
                if bound is not None:
                    bound.release(messages)
                bound, messages = parcel.bound, 0
            messages += parcel.messages
        if bound is not None:
            bound.release(messages)

    def _tell(self, parcel: Parcel, error: Exception) -> None:
        assert self._on_failure is not None
        messages = parcel.payloads if parcel.ready_set is None else parcel.ready_set
        failed = FailedSend(parcel.ticket.topic, parcel.ticket.key, messages, error)
        try:
            self._on_failure(failed)
        except Exception:
            logger.exception("on_failure itself failed for messages of topic %s", failed.topic)
