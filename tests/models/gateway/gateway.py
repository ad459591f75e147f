"""A gateway that numbers one toy log, with clients that remember each number they have seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka2011.gateway.numbering.partition_index import PartitionIndex, Spacing
from kafka2011.gateway.numbering.time_stretches import UNKNOWN, newest_of
from kafka2011.gateway.records.batch_format import NO_TIMESTAMP
from kafka2011.gateway.records.found import Kind
from tests.models.gateway.toys import Steps, ToyAnchors, ToyFile, ToyLog, find_pieces, names_in, newest_in

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafka2011.gateway.numbering.boundaries import Numbered

SPACING = Spacing(entry_bytes=120, anchor_bytes=400, store_bytes=300, seal_bytes=40, numbers=50, time_bytes=90)

Name = tuple[int, int]
"""A message: the name of what holds it on disk, and how many come before it there."""


class BrokenPromiseError(AssertionError):
    """A number names two messages, or a message has two numbers, or find() leads elsewhere."""


class Seen:
    """What clients have seen."""

    def __init__(self) -> None:
        self.names: dict[int, Name] = {}
        self.numbers: dict[tuple[int, int, int], int] = {}
        self.highest = -1
        self.started_over = -1
        """The highest number when the numbering started over."""
        self.start = -1

    def see(self, number: int, name: Name, position: int) -> None:
        """See a message. It may get another number if the numbering started over: above all that were seen by then.

        The position is that of a wrapper, which may be in the log twice.
        """
        if self.names.setdefault(number, name) != name:
            raise BrokenPromiseError(f"{number} is {name}, and it was {self.names[number]}")
        known = self.numbers.get((*name, position))
        if known is not None and known != number and not known <= self.started_over < number:
            raise BrokenPromiseError(f"{name} has {number}, and it had {known}")
        self.numbers[*name, position] = number

    def look(self, highest: int, log_start: int) -> None:
        """See the ends of the log. None goes backwards."""
        if log_start < self.start or highest < self.highest:
            raise BrokenPromiseError(f"{log_start}..{highest} goes back behind {self.start}..{self.highest}")
        self.highest, self.start = highest, log_start


class Gateway:
    """One partition's log, and the gateway's process, which can be killed and started again."""

    def __init__(self, log: ToyLog | None = None, spacing: Spacing = SPACING) -> None:
        self.log = ToyLog() if log is None else log
        self.spacing = spacing
        self.steps = Steps()
        self.file = ToyFile(self.steps)
        self.anchors = ToyAnchors(self.steps)
        self.floor = 0
        self.seen = Seen()
        self.generation = 0
        self.may_start_over = True
        """Whether messages that were seen may get new numbers."""
        self.index = self._new_index()

    def _new_index(self) -> PartitionIndex:
        return PartitionIndex(self.log, find_pieces, self.file, self.anchors, self.spacing, newest_in, self.floor)

    def start(self) -> None:
        """Start the process: a new index is opened."""
        self.index = self._new_index()
        self.index.open()

    def recreate(self) -> None:
        """Delete the topic and create it again: another log, file and anchors, above what the old anchors reserved."""
        anchored = self.anchors.load()
        self.floor = max(self.floor, anchored.reserved if anchored else 0)
        self.log.put_back(ToyLog())
        self.file, self.anchors = ToyFile(self.steps), ToyAnchors(self.steps)
        self.seen.numbers.clear()  # of which some may come late, and be in the new log too

    def restart(self) -> None:
        """Kill the process, start it again and read on."""
        self.start()
        self.read()

    def look(self) -> None:
        """Have a client ask for the ends of the log."""
        self.seen.look(self.index.end.number - 1, self.index.log_start().number)

    def read(self, max_bytes: int = 200) -> None:
        """Take everything that is readable."""
        while self.take(max_bytes):
            pass

    def take(self, max_bytes: int = 200) -> list[Numbered]:
        """Take what one read gives; it is seen by clients."""
        position = self.index.end.position
        numbered = self.index.take(self.log.read(position, max_bytes))
        self.show(numbered)
        if not self.index.is_catching_up:
            self.look()
        return numbered

    def show(self, numbered: Iterable[Numbered]) -> list[tuple[int, Name]]:
        """Show pieces to clients; return the messages that they get with their numbers."""
        shown = []
        number = -1
        if self.index.generation != self.generation:
            self.generation = self.index.generation
            if self.may_start_over:
                self.seen.started_over = self.seen.highest
        for each in numbered:
            piece = each.piece
            if each.first_number < number:
                raise BrokenPromiseError(f"{each} is behind {number}")
            number = each.end.number
            if piece.kind in {Kind.PLAIN, Kind.WRAPPER} and not each.is_repeat:
                names = names_in(self.log.read(piece.start, piece.end - piece.start))
                for number_of, name in enumerate(names, each.first_number):
                    self.seen.see(number_of, name, piece.start if piece.kind is Kind.WRAPPER else -1)
                    shown.append((number_of, name))
        return shown

    def fetch(self, number: int, max_bytes: int = 150) -> list[tuple[int, Name]]:
        """Have a client fetch from a number on; return what it gets."""
        place = self.index.find(number)
        start = self.index.log_start()
        if place.number > max(number, start.number) or place < start:
            raise BrokenPromiseError(f"{number} is searched for from {place}, and the log starts at {start}")
        fetched: list[tuple[int, Name]] = []
        while place.position < self.index.end.position and not fetched:
            numbered = self.index.numbered(place, self.log.read(place.position, max_bytes))
            if not numbered:
                max_bytes *= 2
                continue
            fetched = [(at, name) for at, name in self.show(numbered) if at >= number]
            place = numbered[-1].end
        return fetched

    def search(self) -> None:
        """Have a client search for times: what was unknown is read, and each message can be found by its time."""
        times, position = self.index.times, 0
        while (unknown := times.reaching(UNKNOWN, position)) is not None:
            start, position = unknown
            for numbered, newest in self._times_between(start, position):
                times.note(min(numbered.piece.end, position), newest)
        start, end = self.index.log_start().position, self.index.end.position
        for numbered, newest in self._times_between(start, end):
            place = numbered.piece.start
            found = times.undated(place) if newest == NO_TIMESTAMP else times.reaching(newest, place)
            if newest >= NO_TIMESTAMP and newest != UNKNOWN and (found is None or found[0] != place):
                raise BrokenPromiseError(f"the time {newest} at {place} is searched for in {found}")

    def _times_between(self, start: int, end: int) -> list[tuple[Numbered, int]]:
        """Return the pieces of a range with their times."""
        place = self.index.place_at(start)
        data = self.log.read(place.position, end - place.position)
        numbered = self.index.numbered(place, data)
        return [(each, newest_of(each, data, place.position, newest_in)) for each in numbered if each.piece.end > start]

    def everything(self) -> dict[int, Name]:
        """Fetch the whole log as a client does."""
        fetched: dict[int, Name] = {}
        number = self.index.log_start().number
        while batch := self.fetch(number):
            fetched.update(batch)
            number = batch[-1][0] + 1
        return fetched
