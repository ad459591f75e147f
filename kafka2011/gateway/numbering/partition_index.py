"""Which number each message of a partition has, and where it lies.

Numbers are dense and come from counting; a sparse index of places says from where to count. What must hold: a number
that a client may have seen never names another message, whatever is lost: the file, the anchors, or the log itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafka2011.gateway.numbering.boundaries import Boundary, Numbered, Tail
from kafka2011.gateway.numbering.counting import DisagreementError, stretches
from kafka2011.gateway.numbering.entries import Entries
from kafka2011.gateway.numbering.log_walk import LogWalk, sealed
from kafka2011.gateway.numbering.senders import Senders
from kafka2011.gateway.numbering.stores import AnchorState, Stored
from kafka2011.gateway.numbering.time_stretches import TimeStretches, newest_of
from kafka2011.gateway.records.found import NUMBERS_A_BYTE, Kind
from kafka2011.gateway.records.times import newest_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka2011.gateway.numbering.producers import ProducerStates
    from kafka2011.gateway.numbering.stores import Anchors, FindPieces, IndexFile, LogReader

_MIB = 1024 * 1024
_MOST_ANCHORS = 2000
"""A znode holds them all. Of more, every second one is left out: there are that many only in a log full of damage."""
_RECENT = 512
_ANCHORED_TIMES = 256
"""The number of stretches that a znode keeps with their largest timestamps: in a log of 64 GiB, each has 256 MiB."""


@dataclass(frozen=True)
class Spacing:
    """How often an index keeps what."""

    entry_bytes: int = 64 * 1024
    anchor_bytes: int = 256 * _MIB
    store_bytes: int = 64 * _MIB
    """How much is read again at most after a restart."""
    seal_bytes: int = 16 * 1024
    """How many bytes a checksum is about; the newest four are kept."""
    numbers: int = 2**20
    """How many numbers are reserved at once."""
    time_bytes: int = _MIB
    """The bytes that a search for a time reads."""


DEFAULT_SPACING = Spacing()


class PartitionIndex:
    """The index of one partition. For one caller at a time; errors of its collaborators pass through.

    `end` is the place up to where the log was taken: its number is above all numbers that were given. `generation` says
    how often numbers have jumped because the log was another one, or was not known: older places are void.

    After an error, `end` says where to go on; nothing that was not stored first has been given out.
    """

    def __init__(
        self,
        log: LogReader,
        find_pieces: FindPieces,
        file: IndexFile,
        anchors: Anchors,
        spacing: Spacing = DEFAULT_SPACING,
        newest_in: Callable[[memoryview], int] = newest_in,
        floor: int = 0,
    ) -> None:
        self._log = log
        self._file = file
        self._anchors = anchors
        self._spacing = spacing
        self._walk = LogWalk(log, find_pieces)
        self._senders = Senders()
        self.newest_in = newest_in
        self._floor = floor
        self.generation = 0
        self._reserved = 0
        self._begin_at(Boundary(0, 0))

    def _begin_at(self, place: Boundary) -> None:
        """Know one place only."""
        self._entries = Entries([place])
        self._recent = Entries([place])
        self._ahead: list[Boundary] = []
        self._anchored = [place]
        self._start = self.end = place
        self.times = TimeStretches(place.position, self._spacing.time_bytes)
        self._tail = Tail(*place)
        self._seen_end = place.position
        self._is_due = False
        self._unstored_bytes = 0

    @property
    def is_catching_up(self) -> bool:
        """Whether messages that clients may have seen before a restart are still to be taken: tell them nothing yet."""
        return self.end.position < self._seen_end

    @property
    def producers(self) -> ProducerStates:
        """The producers whose batches were found up to `end`."""
        return self._senders.producers

    @property
    def reserved(self) -> int:
        """The number that no message has reached."""
        return self._reserved

    def log_start(self) -> Boundary:
        """Return the place of the first message in the log."""
        return self._start

    def open(self) -> None:
        """Load what is known, and see whether it is still true of the log. What came since is taken later.

        Raises the errors of its collaborators, and may then be called again.
        """
        stored, anchored = self._file.load(), self._anchors.load()
        if stored is not None and anchored is not None and anchored.generation > stored.generation:
            stored = None  # an old copy
        self._reserved = max(self._floor, *(known.reserved if known else 0 for known in (stored, anchored)))
        if stored is not None and anchored is not None and anchored.generation < stored.generation:
            anchored = None
        is_lost = stored is None
        if stored is None and anchored is not None:
            stored = anchored.stored()  # so only what came since the newest anchor is read again
        places = {*anchored.places, anchored.tail.place} if anchored else set()
        self._senders.forget()
        self._begin_at(min(places, default=Boundary(0, self._floor)))
        if anchored is not None:
            self.generation, self._tail = anchored.generation, anchored.tail
            self._anchored = sorted(anchored.places) or self._anchored
        if stored is not None:
            self._take_over(stored, self._anchored if anchored else [])
            places.update(stored.ahead, stored.anchored, [stored.tail.place])
        self._ahead = sorted(place for place in places if place.position > self.end.position)
        is_whole = (
            stored is not None
            and anchored is not None
            and not is_lost
            and stored.reserved == anchored.reserved
            and self._anchored == sorted(anchored.places)
        )
        if self.check() and not is_whole:
            self._persist()
        self._seen_end = self._log.latest()

    def _take_over(self, stored: Stored, anchored: list[Boundary]) -> None:
        self.generation = stored.generation
        self._entries, self._start, self.end = stored.entries, stored.start, stored.end
        self._recent = Entries([stored.end])
        self._senders.load(stored.senders)
        self.times = TimeStretches.of(
            stored.times, stored.start.position, stored.end.position, self._spacing.time_bytes
        )
        self._anchored = sorted({*stored.anchored, *anchored})
        if stored.tail.position >= self._tail.position:
            self._tail = stored.tail

    def check(self) -> bool:
        """Compare the log with what was numbered; call it whenever a broker was out of reach.

        Return whether the numbering goes on. If not, it has started over, above all numbers that were ever given.
        """
        generation, earliest = self.generation, self._log.earliest()
        is_back = not self._tail.seals and earliest < self._start.position  # nothing was taken yet that could tell
        if is_back or self._walk.is_changed(self._tail):
            self._start_over()
            return False
        self.note_log_start(earliest)
        return self.generation == generation

    def _start_over(self) -> None:
        number = max(self._reserved, self._tail.number, self.end.number)
        self.generation += 1
        self._senders.forget()
        self._begin_at(Boundary(self._log.earliest(), number))
        self._persist()

    def note_log_start(self, position: int) -> None:
        """Take note that the log begins at a position now: retention has removed what was before it."""
        if position <= self._start.position:
            return
        try:
            place = self._locate(position)
        except DisagreementError:
            self._start_over()
            return
        self._start = place
        self._senders.drop_before(place.position)
        self.times.drop_before(place.position)
        self._entries.drop_before(place.position)
        self._recent.drop_before(place.position)
        self._anchored = [place, *(known for known in self._anchored if known.position > place.position)]
        if place.position >= self.end.position:
            self._go_to(place)
        if place.position > self._tail.position:  # a jump: nobody knows how many messages were removed
            self._tail = Tail(*place, self._tail.seals)
            self.generation += 1
        self._is_due = True
        self._persist()

    def _go_to(self, place: Boundary) -> None:
        """Go on at a known place."""
        self.end = place
        self._entries.add(place)
        self._recent.add(place)
        self._ahead = [known for known in self._ahead if known.position > place.position]

    def _locate(self, position: int) -> Boundary:
        """Return the place at a position, or the next one whose number is known. Raises DisagreementError."""
        known = [self._start, *filter(None, (self._entries.before(position), self._entries.after(position)))]
        known += [self.end, *self._ahead]
        before = max(place for place in known if place.position <= position)
        if before.position == position:
            return before
        after = min((place for place in known if place.position > position), default=None)
        if after is None:
            number = before.number + NUMBERS_A_BYTE * (position - before.position)
            return Boundary(position, max(number, self._reserved))
        place = self._walk.number_before(position, after)
        if place.number <= before.number:
            raise DisagreementError(before, after)
        return place

    def persist(self) -> None:
        """Keep what was taken, in the file and in ZooKeeper: before the process ends or another one takes over.

        Otherwise that is done from time to time, and what came since is counted again.
        """
        if self._unstored_bytes or self._is_due:
            self._persist()

    def release(self) -> None:
        """Give back the reserved numbers that no message has: a deleted topic's next life then leaves no gap."""
        if not (self.is_catching_up or self._tail.position > self.end.position or self._reserved == self.end.number):
            self._keep(self.end.number)

    def _stored(self, reserved: int) -> Stored:
        return Stored(
            self.generation,
            reserved,
            self._start,
            self.end,
            self._tail,
            tuple(self._ahead),
            tuple(self._anchored),
            self._senders.document(),
            self._entries,
            self.times.document(),
        )

    def _persist(self, end_number: int = 0) -> None:
        """Keep everything in ZooKeeper and in the file, and reserve numbers up to one if they are used up."""
        reserved, needed = self._reserved, max(end_number, self.end.number)
        if needed >= reserved:
            reserved = needed + self._spacing.numbers
        self._keep(reserved)

    def _keep(self, reserved: int) -> None:
        # A file of an older generation than the anchors counts as lost, so a crash in between does no harm.
        places, senders, times = tuple(self._anchored), self._senders.document(), self.times.document(_ANCHORED_TIMES)
        self._anchors.store(AnchorState(self.generation, reserved, self._tail, places, self.end, senders, times))
        self._file.store(self._stored(reserved))
        self._reserved, self._is_due, self._unstored_bytes = reserved, False, 0

    def take(self, data: bytes) -> list[Numbered]:
        """Take the whole messages of data that begins at `end`; return its pieces, none for less than one message.

        Nothing is returned either when the log turns out to be another one: then `generation` has changed, and `end`.
        Raises what `find_pieces` raises if it loses the boundary at `end` itself.
        """
        if self._is_due:
            self._persist()
        elif self._unstored_bytes >= self._spacing.store_bytes:
            self._file.store(self._stored(self._reserved))
            self._unstored_bytes = 0
        position = self.end.position
        try:
            # A message that is found damaged while catching up may have been whole before, with seen numbers behind it.
            behind_damage = self._reserved if self.is_catching_up else 0
            numbered = self._walk.number_on(self.end, data, self._ahead, behind_damage)
        except DisagreementError:
            self._start_over()
            return []
        if not numbered:
            return []
        end = next((place for place in self._ahead if place.position == numbered[-1].piece.end), numbered[-1].end)
        self._remember_damage(numbered)
        if self._is_due or end.number > self._reserved:
            self._persist(end.number)
        tail = self._tail
        if end.position >= tail.position:
            tail = Tail(*end, sealed(tail.seals, numbered, data, position, self._spacing.seal_bytes))
            self._file.note(self.generation, tail)
        # From here on nothing fails.
        numbered = self._apply(numbered)
        for each in numbered:
            self.times.note(each.piece.end, newest_of(each, data, position, self.newest_in))
        self._go_on(end, tail)
        self._unstored_bytes += len(data)
        return numbered

    def _remember_damage(self, numbered: list[Numbered]) -> None:
        """Know the places around damaged pieces from now on; they are due to be stored before any number is given.

        A replica may repair the bytes, and then they hold fewer messages: what lies behind them must not move.
        """
        damaged = [each for each in numbered if each.piece.kind is Kind.DAMAGED]
        if not damaged:
            return
        places = {place for each in damaged for place in (Boundary(each.piece.start, each.first_number), each.end)}
        if self.end in places:
            self._entries.add(self.end)
        ahead = {place for place in places if place.position > self.end.position}
        if not ahead <= set(self._ahead):
            if self.is_catching_up and not self._ahead:
                self.generation += 1  # an older copy of the file may know other numbers behind the damage
            self._ahead = sorted(ahead.union(self._ahead))
            self._is_due = True
        for place in sorted(places.difference(self._anchored)):
            self._anchor(place)

    def _anchor(self, place: Boundary) -> None:
        self._anchored = sorted({*self._anchored, place})
        if len(self._anchored) > _MOST_ANCHORS:
            del self._anchored[1:-1:2]

    def _apply(self, numbered: list[Numbered]) -> list[Numbered]:
        """Enter pieces in the index; return them with those marked that are repeats."""
        known = {place.position for place in self._ahead}
        marked = []
        for each in numbered:
            piece, place = each.piece, Boundary(each.piece.start, each.first_number)
            last = self._entries.last or self._start
            is_sparse = place.position - last.position >= self._spacing.entry_bytes
            if is_sparse or piece.kind is Kind.DAMAGED or place.position in known:
                self._entries.add(place)
            if place.position - self._anchored[-1].position >= self._spacing.anchor_bytes:
                self._anchor(place)
                self._is_due = True
            self._recent.add(place)
            if piece.origin is not None and self._senders.found(piece.origin, *place):
                each = each._replace(is_repeat=True)  # noqa: PLW2901
            marked.append(each)
        return marked

    def _go_on(self, end: Boundary, tail: Tail) -> None:
        self.end, self._tail = end, tail
        if self._ahead and self._ahead[0].position <= end.position:
            if any(place.position == end.position for place in self._ahead):
                self._entries.add(end)
            self._ahead = [place for place in self._ahead if place.position > end.position]
        if len(self._recent) > 2 * _RECENT:
            self._recent.drop_before(self._recent.positions[-_RECENT])

    def find(self, number: int) -> Boundary:
        """Return the last known place whose number is at most this one; the first place for a number below it."""
        if number >= self.end.number:
            return self.end
        recent = self._recent.of_number(number)
        return max(recent or self._start, self._entries.of_number(number) or self._start, self._start)

    def place_at(self, position: int) -> Boundary:
        """Return the last boundary up to a position of the log, which may be that of a segment or of a 0.7 consumer.

        Before the log start, that is the log start; behind `end`, it is `end`.
        """
        if position >= self.end.position:
            return self.end
        found = [self._start, *filter(None, (self._entries.before(position), self._recent.before(position)))]
        place = max(known for known in found)
        if place.position >= position:
            return place
        ends = [each.end for each in self.numbered(place, self._walk.read(place.position, position))]
        return max((end for end in ends if end.position <= position), default=place)

    def numbered(self, place: Boundary, data: bytes) -> list[Numbered]:
        """Return numbers for the whole messages of data that begins at a place of this index, up to `end`.

        The place is from `find`, or the `end` of a piece. What is damaged is one piece, and may end behind the data.
        Between pieces, numbers may be missing.
        """
        entry = self._entries.before(place.position)
        if entry is not None and entry.position == place.position:
            place = entry
        data = data[: max(self.end.position - place.position, 0)]
        known = list(self._entries.between(place.position, place.position + len(data)))
        if place.position + len(data) == self.end.position and data and (not known or known[-1] != self.end):
            known.append(self.end)
        numbered: list[Numbered] = []
        for start, part, stop in stretches(place, data, known):
            after = self._entries.after(start.position) or self.end
            numbered += self._walk.number_again(start, part, stop, after)
        end, is_repeat = place.position + len(data), self._senders.is_repeat
        numbered = [each for each in numbered if each.piece.end <= end or each.piece.kind is Kind.DAMAGED]
        return [each._replace(is_repeat=True) if is_repeat(each.piece.start) else each for each in numbered]
