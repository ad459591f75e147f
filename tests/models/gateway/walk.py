"""Walks of a gateway with one partition: what clients were told stays true, whatever happens in any order."""

from __future__ import annotations

import copy
import random
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from kafka2011.gateway.numbering.producers import SequenceAnswer
from kafka2011.gateway.records.found import Kind, Origin
from tests.models.gateway.gateway import SPACING, BrokenPromiseError, Gateway
from tests.models.gateway.toys import KilledError, ToyLog, find_pieces, names_in, overfull, plain, wrapper

if TYPE_CHECKING:
    from kafka2011.gateway.numbering.boundaries import Tail
    from kafka2011.gateway.numbering.stores import Stored

STEPS = {
    "append": 12,
    "send": 12,
    "late": 2,
    "damage": 1,
    "rot": 1,
    "repair": 2,
    "take": 12,
    "fetch": 6,
    "retain": 3,
    "restart": 3,
    "kill": 4,
    "fail": 2,
    "lose": 2,
    "replace_log": 1,
    "check": 1,
    "recreate": 1,
    "release": 1,
}
"""What happens, and how often."""


class Sent(NamedTuple):
    """A wrapper that a client's batch was made into."""

    origin: Origin
    message: bytes


class Client:
    """An idempotent producer of today: it sends a batch again until it is told its fate, and counts sequences."""

    def __init__(self, producer_id: int) -> None:
        self.producer_id = producer_id
        self.epoch = 0
        self.sequence = 0
        self.open: Origin | None = None
        """The batch whose fate is unknown."""

    def batch(self, draw: random.Random) -> Origin:
        if self.open is None:
            self.open = Origin(self.producer_id, self.epoch, self.sequence, draw.randint(1, 6), b"")
            self.sequence += self.open.records
        return self.open

    def bump(self) -> None:
        self.epoch, self.sequence, self.open = self.epoch + 1, 0, None


class Walk:
    """One walk. Each method that is a step does what its name says."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.counts: Counter[str] = Counter()
        self.gateway = Gateway(spacing=replace(SPACING, numbers=self.draw.choice([50, 2**20])))
        self.clients = [Client(1000), Client(1001)]
        self.sent: list[Sent] = []
        self.by_name: dict[int, Origin] = {}
        self.copies: list[ToyLog] = []
        self.older_anchors: list[str | None] = []
        self.older_files: list[tuple[Stored | None, tuple[int, Tail] | None]] = []
        self.rotten = False
        self.may_double: set[tuple[int, int, int]] = set()
        """Records of which a copy that came late may be taken for the first one: it was damaged, or forgotten."""
        self.file_was_lost = False
        self.gateway.may_start_over = False
        self.name = 0
        self.gateway.start()

    @property
    def log(self) -> ToyLog:
        return self.gateway.log

    def run(self, steps: int) -> None:
        for step in self.draw.choices(list(STEPS), list(STEPS.values()), k=steps):
            self.counts[step] += 1
            getattr(self, step)()
        self.restart()
        self.read_everything()

    def _new_name(self) -> int:
        self.name += 1
        return self.name

    def append(self) -> None:
        """Append as a program of 0.7."""
        for _ in range(self.draw.randint(1, 8)):
            name = self._new_name()
            messages = [plain(name), wrapper(name, self.draw.randint(1, 9)), overfull(name)]
            self.log.append(self.draw.choices(messages, [10, 3, 1])[0])

    def send(self) -> None:
        """Send a client's batch: all of it, a part or nothing arrives, or it arrives and nobody is told."""
        self.read()
        client = self.draw.choice(self.clients)
        batch = client.batch(self.draw)
        producers = self.gateway.index.producers
        verdict = producers.check(batch)
        self.counts[verdict.answer.value] += 1
        if verdict.answer is SequenceAnswer.APPEND:
            self._append_batch(client, batch, verdict.stored)
        elif verdict.answer is SequenceAnswer.REPEAT:
            if verdict.first_number >= 0:
                for at in range(batch.records):
                    self._expect(batch, at, verdict.first_number + at)
            client.open = None
        elif verdict.answer is SequenceAnswer.DUPLICATE:
            client.open = None
        else:
            client.bump()

    def _expect(self, batch: Origin, at: int, number: int) -> None:
        name = self.gateway.seen.names.get(number)
        if name is None or self._record(*name) != (batch.producer_id, batch.producer_epoch, batch.first_sequence + at):
            raise BrokenPromiseError(f"record {at} of {batch} has not the number {number}, which is {name}")

    def _append_batch(self, client: Client, batch: Origin, stored: int) -> None:
        producers = self.gateway.index.producers
        producers.begin(batch)
        if producers.check(batch).answer is not SequenceAnswer.IN_FLIGHT:
            raise BrokenPromiseError(f"{batch} is in flight")
        wrappers = []
        while stored < batch.records:
            records = self.draw.randint(1, batch.records - stored)
            name = self._new_name()
            origin = Origin(*batch[:2], batch.first_sequence + stored, records, b"%08d" % name)
            wrappers.append(Sent(origin, wrapper(name, records, origin)))
            self.by_name[name] = origin
            stored += records
        arrived = self.draw.choice([len(wrappers), len(wrappers), self.draw.randint(0, len(wrappers))])
        self.sent += wrappers
        self.log.append(*(sent.message for sent in wrappers[:arrived]))
        producers.end(batch)
        self.read()
        if arrived == len(wrappers) and self.draw.random() < 0.8:
            client.open = None

    def late(self) -> None:
        """Bytes of a gateway that was killed come late; only those of batches that were sent again since do harm."""
        if self.sent:
            sent = self.draw.choice(self.sent[-6:])
            if all(client.open is None for client in self.clients):
                self.log.append(sent.message)

    def damage(self) -> None:
        """Append what is damaged before anybody reads it: a replica has it whole."""
        name = self._new_name()
        self.log.append_damaged(self.draw.choice([plain(name), wrapper(name, 3)]))

    def rot(self) -> None:
        if self.log.starts and not self.rotten:
            position = self.draw.choice(self.log.starts)
            if position not in self.log.repairs and position < self.gateway.index.end.position:
                [piece], _ = find_pieces(self.log.read(position, self._end_of(position) - position), position)
                if piece.origin is not None:
                    self._may_double(piece.origin)
                self.log.rot(position)
                self.rotten = True

    def _may_double(self, origin: Origin) -> None:
        records = range(origin.first_sequence, origin.first_sequence + origin.records)
        self.may_double.update((origin.producer_id, origin.producer_epoch, sequence) for sequence in records)

    def _end_of(self, position: int) -> int:
        return min([start for start in self.log.starts if start > position], default=self.log.latest())

    def repair(self) -> None:
        for position in list(self.log.repairs):
            self.log.repair(position)
        self.rotten = False

    def take(self) -> None:
        self.gateway.take(self.draw.choice([60, 200, 500]))

    def read(self) -> None:
        while self.gateway.index.end.position < self.log.latest():
            self.gateway.take(500)

    def fetch(self) -> None:
        index = self.gateway.index
        if not index.is_catching_up:
            self.gateway.search()
            self.gateway.fetch(self.draw.randint(0, index.end.number + 1), self.draw.choice([60, 200, 500]))
            position = self.draw.choice([*self.log.starts, self.log.latest()])
            place = index.place_at(position)
            if index.log_start().position <= position <= index.end.position and not self.rotten:
                self.gateway.show(index.numbered(place, self.log.read(place.position, 100)))

    def lose_times(self) -> None:
        """Have an older gateway write what is stored: it knows no times."""
        file, anchored = self.gateway.file, self.gateway.anchors.load()
        if file.stored is not None and anchored is not None:
            file.stored = file.stored._replace(times=None)
            self.gateway.anchors.text = anchored._replace(times=None).text()

    def retain(self) -> None:
        if self.log.starts:
            self.log.retain_from(self.draw.choice([*self.log.starts[:20], self.log.latest()]))
        if self.draw.random() < 0.8 or self.log.start > self.gateway.index.end.position:
            self.gateway.index.note_log_start(self.log.earliest())
        else:
            self.restart()

    def restart(self) -> None:
        """Kill the process; another one starts, and tells nobody anything before it has caught up."""
        generation = self.gateway.index.generation
        anchored = self.gateway.anchors.load()
        if self.file_was_lost and anchored is not None:
            last = max(place.position for place in (*anchored.places, anchored.tail.place))
            if last < self.log.start:  # nothing that is known is left
                self.gateway.seen.started_over = self.gateway.seen.highest
        try:
            self.gateway.start()
            while self.gateway.index.is_catching_up:
                self.gateway.take(500)
        except KilledError:
            self.gateway.steps.kill_at = 0
            self.counts["killed in a restart"] += 1
            self.restart()
            return
        self.gateway.show([])
        self.counts["jumps"] += self.gateway.index.generation != generation
        self.gateway.may_start_over = self.file_was_lost = False

    def kill(self) -> None:
        """End the process at a moment of what it does next."""
        steps = self.gateway.steps
        steps.kill_at = steps.count + self.draw.randint(1, 6)
        try:
            self.draw.choice([self.read, self.append_and_read, self.retain, self.restart])()
        except KilledError:
            self.counts["killed"] += 1
        steps.kill_at = 0
        self.draw.choice([lambda: None, self.lose, self.append])()
        self.restart()

    def append_and_read(self) -> None:
        self.append()
        self.read()

    def fail(self) -> None:
        """ZooKeeper or the disk is away for a while."""
        self.gateway.steps.failing = True
        try:
            self.append_and_read()
        except OSError:
            self.counts["failed"] += 1
        self.gateway.steps.failing = False

    def lose(self) -> None:
        """Lose the file, or have an older copy of it or of ZooKeeper: one of them before all is stored again."""
        file = self.gateway.file
        what = self.draw.choice(["file", "older file", "older anchors"])
        if what != "older anchors":
            older = self.draw.choice(self.older_files) if self.older_files and what == "older file" else (None, None)
            file.stored, file.tail = older
            self.file_was_lost = True
            for sent in self.sent:  # their first copies may have been removed, and nobody knows of them any more
                self._may_double(sent.origin)
            if self.rotten:
                self.gateway.may_start_over = True
                self.gateway.seen.started_over = self.gateway.seen.highest
            self.gateway.seen.start = -1  # what lay before a damaged message may be there again
        elif self.older_anchors and not self.file_was_lost:
            self.gateway.anchors.text = self.draw.choice(self.older_anchors)
        self.restart()
        self._copy_stores()

    def _copy_stores(self) -> None:
        self.older_anchors.append(self.gateway.anchors.text)
        self.older_files.append((self.gateway.file.stored, self.gateway.file.tail))

    def replace_log(self) -> None:
        """Put the log's disk back, or wipe it."""
        if self.copies and self.draw.random() < 0.7:
            self.log.put_back(self.draw.choice(self.copies))
        else:
            self.log.put_back(ToyLog())
        self.rotten = False
        if self.draw.random() < 0.5:
            self.append()
        self.gateway.may_start_over = True
        self.clients = [Client(client.producer_id + 100) for client in self.clients]
        self.draw.choice([self.restart, self._reconnect])()

    def recreate(self) -> None:
        """Delete the topic and create it again; messages may be there before a gateway comes to it."""
        self.gateway.recreate()
        self.rotten = False
        self.copies, self.older_anchors, self.older_files = [], [], []
        if self.draw.random() < 0.5:
            self.append()
        self.gateway.generation = 0
        self.restart()
        if self.gateway.index.log_start().number < self.gateway.floor:
            raise BrokenPromiseError("numbers that were given before the deletion come again")

    def release(self) -> None:
        """Release the numbers of a topic that is not registered; then it is deleted, or comes back."""
        self.gateway.index.release()
        if self.draw.random() < 0.3:
            end = self.gateway.index.end.number
            is_exact = not self.gateway.index.is_catching_up and self.gateway.index.reserved == end
            self.recreate()
            if is_exact and self.gateway.floor != end:
                raise BrokenPromiseError(f"a topic whose numbers were released goes on at {self.gateway.floor}")

    def _reconnect(self) -> None:
        self.gateway.index.check()
        self.gateway.show([])
        self.counts["reconnects"] += 1
        self.gateway.may_start_over = False

    def check(self) -> None:
        if not self.gateway.index.check() and not self.rotten:
            raise BrokenPromiseError("the log is the same")
        self.copies.append(copy.deepcopy(self.log))
        self._copy_stores()
        self.lose_times()

    def _record(self, name: int, at: int) -> tuple[int, int, int] | None:
        origin = self.by_name.get(name)
        return origin and (origin.producer_id, origin.producer_epoch, origin.first_sequence + at)

    def read_everything(self) -> None:
        """Read as a new consumer: every good message is there once, in the order of the log."""
        self.read()
        self.gateway.search()
        got = self.gateway.everything()
        start = self.gateway.index.log_start().position
        names = [got[number] for number in sorted(got)]
        there = []
        pieces, _ = find_pieces(self.log.read(start, self.log.latest()), start)
        for piece in pieces:
            if piece.kind in {Kind.PLAIN, Kind.WRAPPER}:
                there += names_in(self.log.read(piece.start, piece.end - piece.start))
        records = [record for record in map(self._record, *zip(*names, strict=True)) if record] if names else []
        records = [record for record in records if record not in self.may_double]
        if len(records) != len(set(records)):
            raise BrokenPromiseError("a record is read twice")
        missing = Counter(there) - Counter(names)
        if any(name not in self.by_name for name, _ in missing) and not self.rotten:
            raise BrokenPromiseError(f"messages are missing: {missing}")
        if not set(names) <= set(there):
            raise BrokenPromiseError("messages are read that are not there")
        known = iter(there)
        if not all(name in known for name in names):
            raise BrokenPromiseError("messages are read in another order")


def walk(seed: int, steps: int = 60) -> Walk:
    """Take a walk; return it."""
    done = Walk(seed)
    done.run(steps)
    return done
