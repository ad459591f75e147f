"""What a partition knows of its idempotent producers: which sequences are in the log, and with which numbers."""

from __future__ import annotations

from collections import OrderedDict
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafka2011.gateway.records.found import Origin

MOST_PRODUCERS = 10_000
MOST_RUNS = 8
"""How many runs of a producer are known. A client has at most five batches in flight, and few are cut in two."""
_SEQUENCES = 2**31
_HALF = _SEQUENCES // 2


class SequenceAnswer(Enum):
    """What is to be done with a batch."""

    APPEND = "append"
    """Append all of it, or what is missing of it."""
    REPEAT = "repeat"
    """It is in the log."""
    IN_FLIGHT = "in flight"
    """It is being appended now."""
    OUT_OF_ORDER = "out of order"
    """Batches before it are missing, or what is known begins behind it: OUT_OF_ORDER_SEQUENCE_NUMBER (45)."""
    DUPLICATE = "duplicate"
    """It was appended so long ago that its numbers are forgotten: DUPLICATE_SEQUENCE_NUMBER (46)."""
    FENCED = "fenced"
    """Its producer has a newer epoch: INVALID_PRODUCER_EPOCH (47)."""


class SequenceVerdict(NamedTuple):
    """What is to be done with a batch, and what the log has of it."""

    answer: SequenceAnswer
    stored: int = 0
    """How many of its records are in the log already, from the first on. Above 0, append the others only."""
    first_number: int = -1
    """Of a repeat: the number of its first record, if the others follow it without a gap; else -1."""
    last_number: int = -1
    """Of a repeat: the number of its last record."""


_APPEND = SequenceVerdict(SequenceAnswer.APPEND)


class _Run(NamedTuple):
    """Sequences that follow each other, and whose numbers do so too."""

    first: int
    records: int
    number: int


class _Producer:
    """The newest epoch of a producer: all sequences from `first` on are in the log, `records` in all."""

    __slots__ = ("epoch", "first", "records", "runs")

    def __init__(self, epoch: int, first: int, records: int = 0, runs: Iterable[Iterable[int]] = ()) -> None:
        self.epoch = epoch
        self.first = first
        self.records = records
        self.runs = [_Run(*run) for run in runs]

    @property
    def next(self) -> int:
        return (self.first + self.records) % _SEQUENCES

    def has(self, sequence: int) -> bool:
        return _distance(self.first, sequence) < self.records

    def is_behind(self, sequence: int) -> bool:
        return _distance(sequence, self.next) < _HALF and sequence != self.next

    def add(self, records: int, number: int) -> None:
        first = self.next
        last = self.runs[-1] if self.runs else None
        if last is not None and number == last.number + last.records and records < _HALF - last.records:
            self.runs[-1] = last._replace(records=last.records + records)
        else:
            self.runs = [*self.runs[1 - MOST_RUNS :], _Run(first, records, number)]
        self.records += records
        excess = self.records - _HALF
        if excess > 0:  # sequences wrap: the oldest would look like new ones
            self.first, self.records = (self.first + excess) % _SEQUENCES, _HALF

    def number_of(self, sequence: int) -> tuple[int, int] | None:
        """Return the number of a record, and how many records follow with numbers that follow."""
        for run in reversed(self.runs):
            at = _distance(run.first, sequence)
            if at < run.records:
                return run.number + at, run.records - at
        return None


def _distance(start: int, sequence: int) -> int:
    return (sequence - start) % _SEQUENCES


class ProducerStates:
    """The producers of one partition, those that wrote last."""

    def __init__(self, most: int = MOST_PRODUCERS) -> None:
        self._most = most
        self._known: OrderedDict[int, _Producer] = OrderedDict()
        self._in_flight: dict[int, list[Origin]] = {}

    def check(self, origin: Origin) -> SequenceVerdict:
        """Say what is to be done with a batch, by what was found in the log and what is in flight.

        An origin without a producer id may always be appended.
        """
        if origin.producer_id < 0:
            return _APPEND
        in_flight = self._in_flight.get(origin.producer_id, [])
        known = self._known.get(origin.producer_id)
        epochs = [other.producer_epoch for other in in_flight] + ([known.epoch] if known else [])
        if any(_is_same(origin, other) for other in in_flight):
            return SequenceVerdict(SequenceAnswer.IN_FLIGHT)
        if origin.producer_epoch < max(epochs, default=-1):
            return SequenceVerdict(SequenceAnswer.FENCED)
        if origin.producer_epoch not in epochs:  # an unknown producer may go on at any sequence, a new epoch may not
            return SequenceVerdict(SequenceAnswer.OUT_OF_ORDER) if epochs and origin.first_sequence else _APPEND
        flown = [other for other in in_flight if other.producer_epoch == origin.producer_epoch]
        return self._check_sequence(origin, known if known and known.epoch == origin.producer_epoch else None, flown)

    @staticmethod
    def _check_sequence(origin: Origin, known: _Producer | None, in_flight: list[Origin]) -> SequenceVerdict:
        """Say what is to be done with a batch of an epoch that was seen in the log or is in flight."""
        nexts = [known.next] if known else []
        nexts += [(other.first_sequence + other.records) % _SEQUENCES for other in in_flight]
        if origin.first_sequence == nexts[-1]:
            return _APPEND
        if known is None or not known.has(origin.first_sequence):
            return SequenceVerdict(SequenceAnswer.OUT_OF_ORDER)
        stored = min(origin.records, _distance(origin.first_sequence, known.next))
        if stored < origin.records:
            return (
                SequenceVerdict(SequenceAnswer.APPEND, stored)
                if not in_flight
                else SequenceVerdict(SequenceAnswer.OUT_OF_ORDER)
            )
        first = known.number_of(origin.first_sequence)
        last = known.number_of((origin.first_sequence + origin.records - 1) % _SEQUENCES)
        if last is None:
            return SequenceVerdict(SequenceAnswer.DUPLICATE, stored)
        is_whole = first is not None and first[1] >= origin.records
        return SequenceVerdict(SequenceAnswer.REPEAT, stored, first[0] if first and is_whole else -1, last[0])

    def knows(self, producer_id: int) -> bool:
        """Say whether something of a producer was found in the log, or is in flight."""
        return producer_id in self._known or producer_id in self._in_flight

    def stored_at(self, origin: Origin) -> int:
        """Return the number that the first record of a stored batch has; -1 if that is not known any more."""
        known = self._known.get(origin.producer_id)
        number = (
            None if known is None or known.epoch != origin.producer_epoch else known.number_of(origin.first_sequence)
        )
        return -1 if number is None or number[1] < origin.records else number[0]

    def begin(self, origin: Origin) -> None:
        """Take note that a batch is being appended."""
        if origin.producer_id >= 0:
            self._in_flight.setdefault(origin.producer_id, []).append(origin)

    def end(self, origin: Origin) -> None:
        """Take note that a batch is in flight no more: it was found in the log, or it will never be there."""
        in_flight = self._in_flight.get(origin.producer_id, [])
        for index, other in enumerate(in_flight):
            if _is_same(origin, other):
                del in_flight[index]
                break
        if not in_flight:
            self._in_flight.pop(origin.producer_id, None)

    def found(self, origin: Origin, number: int) -> bool:
        """Take note of a wrapper in the log, in the log's order; say whether it repeats what was there before.

        A wrapper of an older epoch counts as a repeat too: it was sent before the newer one, and came late.
        """
        if origin.producer_id < 0:
            return False
        known = self._known.get(origin.producer_id)
        if known is not None and origin.producer_epoch < known.epoch:
            return True
        if known is not None and origin.producer_epoch == known.epoch:
            if known.has(origin.first_sequence):
                return True
            if known.is_behind(origin.first_sequence):
                return False
        if known is None or origin.producer_epoch > known.epoch or origin.first_sequence != known.next:
            known = self._known[origin.producer_id] = _Producer(origin.producer_epoch, origin.first_sequence)
        known.add(origin.records, number)
        self._known.move_to_end(origin.producer_id)
        if len(self._known) > self._most:
            self._known.popitem(last=False)
        return False

    def forget(self) -> None:
        """Forget what was found in the log."""
        self._known.clear()

    def document(self) -> list[Any]:
        """Return what JSON can hold of what was found in the log, the producer that was idle longest first."""
        return [
            [producer_id, known.epoch, known.first, known.records, [list(run) for run in known.runs]]
            for producer_id, known in self._known.items()
        ]

    def load(self, document: list[Any]) -> None:
        """Know what a document says. Raises ValueError or TypeError."""
        self._known = OrderedDict((producer_id, _Producer(*known)) for producer_id, *known in document)


def _is_same(one: Origin, other: Origin) -> bool:
    return one.producer_epoch == other.producer_epoch and one.first_sequence == other.first_sequence
