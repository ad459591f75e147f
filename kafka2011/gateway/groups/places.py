"""Which place in a log a number is committed as, and which number a committed place has now.

0.7 commits byte positions between the messages of its logs. A wrapper is one such message, so within a wrapper it also
counts how many of the wrapper's messages are done. What is not certain is read again rather than skipped.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, NamedTuple

from kafka2011.errors import BrokerConnectionError, KafkaError, OffsetOutOfRangeError
from kafka2011.gateway.partition_log import SLACK_BYTES
from kafka2011.gateway.partitions import CURRENT_S, await_end
from kafka2011.gateway.records.found import Kind
from kafka2011.message import runs

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka2011.gateway.partition_log import PartitionLog
    from kafka2011.gateway.partitions import Served
    from kafka2011.gateway.recent_bytes import NumberedBytes

KEPT_CHUNKS = 64
KEPT_BYTES = 2 * SLACK_BYTES
"""How much of how many logs is kept: a client that commits each message looks places up in the same bytes again."""
_TRIES = 3


class CommitPlace(NamedTuple):
    """Where a group goes on: the position of a message in the log, and how many messages within it are done."""

    position: int
    within: int = 0


class CommitPlaces:
    """Finds places of numbers, and numbers of places, in partitions in service. Its calls may wait for a broker.

    They raise BrokerConnectionError while the broker is away or the log is not read as far as needed after `timeout_s`,
    and KafkaError or OSError where the log cannot be read.
    """

    def __init__(self) -> None:
        self._looked_up: OrderedDict[PartitionLog, tuple[int, NumberedBytes]] = OrderedDict()

    def place_of(self, served: Served, number: int, timeout_s: float = CURRENT_S) -> tuple[int, CommitPlace]:
        """Return a number and its place: the place of its message, or of the next one if no message has this number.

        Below the log's start, the number and the place are those of the start, and above the log's end those of the
        end.
        """
        log = served.log
        if number > log.index().end.number:
            _await_end(served, lambda: log.index().end.number >= number, timeout_s)
        for _ in range(_TRIES):
            start, end = log.index().log_start(), log.index().end
            if number >= end.number:
                return end.number, CommitPlace(end.position)
            if number <= start.number:
                return start.number, CommitPlace(start.position)
            position = log.hinted_position(number)
            if position is not None:
                return number, CommitPlace(position)
            chunk = self._chunk_of(log, number)
            if chunk is not None:
                return number, _place_in(chunk, number)
        raise KafkaError(f"{log.where}: the log changes while message {number} is looked for")

    def known_place_of(self, log: PartitionLog, number: int) -> CommitPlace | None:
        """Return the place of a number that clients have come to lately, or one before it; None if it is not known.

        Nothing is asked for: the broker may be away.
        """
        index = log.known_index
        if index is not None and number == index.end.number:
            return CommitPlace(index.end.position)
        chunk = log.served.chunk_of(number)
        if chunk is not None:
            return _place_in(chunk, number)
        place = log.served.place_of(number)
        return None if place is None else CommitPlace(*place)

    def number_of(self, served: Served, place: CommitPlace, timeout_s: float = CURRENT_S) -> int | None:
        """Return the number of the next message for a group that has come to a place; None behind the log's end.

        There the log is another one by now, or shorter: the group has no place in it. Between two boundaries it is the
        first of them, and below the log's start it is the start.
        """
        log = served.log
        if place.position > log.index().end.position:
            _await_end(served, lambda: log.index().end.position >= place.position, timeout_s)
        for _ in range(_TRIES):
            if place.position > log.index().end.position:
                return None
            try:
                boundary = log.index().place_at(place.position)
            except OffsetOutOfRangeError:  # retention has removed it meanwhile
                log.check()
                continue
            if not place.within or boundary.position != place.position or boundary == log.index().end:
                return boundary.number
            chunk = self._chunk_of(log, boundary.number)
            if chunk is not None:
                return max(boundary.number, _number_in(chunk, place))
        raise KafkaError(f"{log.where}: the log changes while position {place.position} is looked for")

    def _chunk_of(self, log: PartitionLog, number: int) -> NumberedBytes | None:
        """Return bytes of a log with a number; those that were looked up last where they have it."""
        generation = log.index().generation
        known = self._looked_up.get(log)
        if known is not None and known[0] == generation:
            chunk = known[1]
            if chunk.pieces[0].first_number <= number < chunk.end_number:
                return chunk
        found = log.chunk_of(number, SLACK_BYTES)
        if found is not None and len(found.data) <= KEPT_BYTES:
            self._looked_up[log] = generation, found
            self._looked_up.move_to_end(log)
            if len(self._looked_up) > KEPT_CHUNKS:
                self._looked_up.popitem(last=False)
        return found


def _await_end(served: Served, is_enough: Callable[[], bool], timeout_s: float) -> None:
    if not await_end(served, is_enough, timeout_s):
        raise BrokerConnectionError(f"{served.log.where}: where its log ends is not known now: {served.log.fault}")


def _place_in(chunk: NumberedBytes, number: int) -> CommitPlace:
    """Return the place of a number that is below the end of a chunk."""
    piece, first_number = next((each.piece, each.first_number) for each in chunk.pieces if number < each.end.number)
    count = max(number - first_number, 0)  # below 0 where numbers have jumped: the next message is this piece's first
    if not count or piece.kind is not Kind.PLAIN:
        return CommitPlace(piece.start, count)
    begin, end = piece.start - chunk.position, piece.end - chunk.position
    at, _, _ = runs.chosen.walk(chunk.data, begin, end, count)
    return CommitPlace(chunk.position + at)


def _number_in(chunk: NumberedBytes, place: CommitPlace) -> int:
    """Return the number of a place in a chunk, no further than the end of the piece there; 0 if none begins there."""
    for piece, first_number, _ in chunk.pieces:
        if piece.start == place.position and piece.kind is not Kind.PLAIN:
            return first_number + min(place.within, piece.numbers)
    return 0
