"""What a leader knows of in_sync, which only it writes, when the answer to a write may be lost.

    certain ──propose──▶ written? ──answer──▶ certain
                            │ refused: the lead is lost
                            │ no answer
                            ▼
                         in doubt ──sync, then a read in the same session──▶ certain, or the lead is lost

Until it is certain, whoever may be in in_sync counts: those who were, and those who are proposed.
"""

from __future__ import annotations

from typing import NamedTuple

from kafka2011.errors import KafkaError
from kafka2011.replica.state import Replica, ReplicaState, StateWrite


class LeadLostError(KafkaError):
    """Another replica leads, or an operator has elected one."""


class StateRead(NamedTuple):
    """The state is to be read, in the same session; after a sync, or else a server that lags may answer."""

    after_sync: bool


class InSync:
    """The leader's knowledge of in_sync, from the state and version with which it began to lead."""

    def __init__(self, state: ReplicaState, version: int) -> None:
        self._state = state
        self._version = version
        self._proposed: ReplicaState | None = None
        self._is_in_doubt = False

    def counted(self) -> frozenset[Replica]:
        """Whoever may be in in_sync now, or as soon as a write that is under way succeeds."""
        proposed = self._proposed
        return self._state.in_sync if proposed is None else self._state.in_sync | proposed.in_sync

    @property
    def certain(self) -> frozenset[Replica]:
        """Whoever was in in_sync when that was last certain."""
        return self._state.in_sync

    @property
    def settled(self) -> int:
        """The newest epoch that all in in_sync have on disk, as of when the state was last certain."""
        return self._state.settled

    @property
    def version(self) -> int | None:
        """The version of the state's znode; None while that is not certain."""
        return self._version if self._proposed is None else None

    def propose(self, replicas: frozenset[Replica], settled: int) -> StateWrite:
        """Begin to change in_sync, or the epoch that all of it have on disk; only when the state is certain."""
        assert self._proposed is None, "one write at a time"
        self._proposed = self._state.with_in_sync(replicas, settled)
        return StateWrite(self._proposed, self._version)

    def succeeded(self) -> None:
        """Note that the write was done."""
        assert self._proposed is not None
        self._state, self._proposed, self._is_in_doubt = self._proposed, None, False
        self._version += 1

    def refused(self) -> None:
        """Note that the write was refused, since the version is another one. Raises LeadLostError."""
        raise LeadLostError(f"the state of epoch {self._state.epoch} was written by another")

    def not_answered(self) -> None:
        """Note that nobody knows whether the write was, or will be, done."""
        self._is_in_doubt = self._proposed is not None

    def wanted_read(self) -> StateRead | None:
        """Return how the state is to be read so that it becomes certain again; None when it need not be."""
        return StateRead(after_sync=True) if self._is_in_doubt else None

    def found(self, state: ReplicaState, version: int) -> None:
        """Note what a wanted read found. Raises LeadLostError."""
        if not self._is_in_doubt:
            return
        if version == self._version + 1 and state == self._proposed:
            self.succeeded()
        elif version == self._version:
            self._proposed, self._is_in_doubt = None, False
        else:
            self.refused()
