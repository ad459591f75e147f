"""A client's connection to one of several replicas: which of its requests are accepted, and when it is answered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka2011.broker.requests.handlers import RefusedError
from kafka2011.replica.in_sync import LeadLostError

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka2011.broker.replication.leading import Leading
    from kafka2011.log.log import Log


class LedClient:
    """One client's connection to a replica, which leads or not when it begins: that holds for all its requests.

    Connections have numbers in the order in which they were accepted. `on_refused` is called before a request is
    refused, after which the connection is closed.
    """

    def __init__(self, leading: Leading | None, number: int, on_refused: Callable[[], None]) -> None:
        self.number = number
        self._on_refused = on_refused
        self._leading = leading
        self._account = None if leading is None else leading.term.new_client()
        self._is_reader = False

    def check(self, *, is_produce: bool = False) -> None:
        """Raise RefusedError unless a request of it is to be answered, or what it sends to be taken."""
        leading = self.led()
        try:
            if is_produce:
                leading.check_produce()
            else:
                leading.check()
        except RefusedError:
            self._on_refused()
            raise

    def note_fetch(self) -> None:
        """Note that it has fetched: what it asks without naming a partition confirms nothing."""
        self._is_reader = True

    def appended(self, log: Log, end: int) -> None:
        """Note what was appended for it, and the offset after that. Raises LeadLostError."""
        leading = self.led()
        assert self._account is not None
        leading.client_appended(self._account, log, end)

    def await_barrier(self) -> None:
        """Wait until all that was appended for it may be confirmed. Raises LeadLostError and RefusedError."""
        leading = self.led()
        assert self._account is not None
        if not self._is_reader:
            leading.check_produce()
        leading.await_barrier(self._account)

    def led(self) -> Leading:
        """Return the term in which it connected. Raises RefusedError, and LeadLostError once that has ended."""
        leading = self._leading
        if leading is None:
            self._on_refused()
            raise RefusedError("this replica does not lead")
        if leading.term.has_ended:
            self._on_refused()
            raise LeadLostError("the lead was lost since the client connected")
        return leading
