"""A table's log in memory, which others restore, copy and delete from, and ZooKeeper's claim of a tier."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from kafka2011.audit.counts_file import decode
from kafka2011.warehouse.table.commits import Commit, Operation
from kafka2011.warehouse.table.counted import CountsFile
from kafka2011.warehouse.table.history import LogEntry
from tests.models.audit.clusters import VIEWS

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable, Iterator, Mapping

    from kafka2011.audit.counts_file import CountedPart
    from zk.audit import TierClaim
    from zk.cluster import TopicPartition


class Logged(NamedTuple):
    """One entry: the rows that the table has with it, and the version that it restored, if it did."""

    rows: frozenset[int]
    commit: Commit | None = None
    removal: str = ""
    restored: int | None = None


class TableHistory:
    """The entries of a table as it was opened, as `History` has them."""

    def __init__(self, table_id: str, log: list[Logged]) -> None:
        self.table_id = table_id
        self._log = list(log)
        self.number = max((logged.commit.number for logged in log if logged.commit), default=0)

    @property
    def version(self) -> int:
        return len(self._log) - 1

    @property
    def rows(self) -> frozenset[int]:
        return self._log[-1].rows if self._log else frozenset()

    def entries(self) -> Iterator[LogEntry]:
        version = self.version
        while version >= 0:
            logged = self._log[version]
            if logged.restored is None:
                yield LogEntry(version, logged.commit, logged.removal)
                version -= 1
            else:
                version = logged.restored

    def commits(self, after: int = 0) -> list[Commit]:
        found = [entry.commit for entry in self.entries() if entry.commit and entry.commit.number > after]
        return found[::-1]

    def present(self) -> Commit | None:
        return next((entry.commit for entry in self.entries() if entry.commit), None)

    @property
    def is_rolled_back(self) -> bool:
        newest = self.present()
        return (newest.number if newest else 0) < self.number


@dataclass
class Table:
    """A table, with the files of counts in its directory, by name."""

    id: str
    log: list[Logged] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    is_damaged: bool = False
    """Whether events that were loaded may be missing from it by now, or were never counted."""

    def history(self) -> TableHistory:
        return TableHistory(self.id, self.log)

    @property
    def rows(self) -> frozenset[int]:
        return self.history().rows

    def write(self, number: int, attempt: str, place: int, data: bytes) -> CountsFile:
        """Keep a file, as `CountsStore` does."""
        name = f"{number}-{attempt}-{place}"
        self.files[name] = data
        return CountsFile(name, "")

    def remove(self, files: Iterable[CountsFile]) -> None:
        for file in files:
            self.files.pop(file.name, None)

    def read(self, file: CountsFile) -> list[CountedPart]:
        return decode(self.files[file.name], VIEWS)

    def commit(self, commit: Commit, rows: set[int], *, instead: bool = False) -> bool:
        """Commit rows behind the newest commit; return whether nobody was faster."""
        history = self.history()
        newest = history.present()
        if history.is_rolled_back or commit.number != (newest.number if newest else 0) + 1:
            return False
        self.log.append(Logged(frozenset(rows) if instead else self.rows | rows, commit))
        return True

    def next_commit(
        self,
        newest: Commit | None,
        offsets: Mapping[TopicPartition, int],
        rows: set[int],
        now_ms: int,
        attempt: str,
        through_ms: int | None,
    ) -> Commit:
        return Commit(
            VIEWS,
            (newest.number if newest else 0) + 1,
            Operation.LOAD,
            now_ms,
            offsets,
            rows=len(rows),
            complete_through_ms=through_ms,
            attempt=attempt,
        )

    # What befalls it -------------------------------------------------------------------------------------------------

    def roll_back(self, chance: random.Random) -> None:
        """Restore an earlier version, which may undo an earlier restore."""
        if len(self.log) > 1:
            self.restore(chance.randrange(max(0, len(self.log) - 6), len(self.log) - 1))

    def restore(self, version: int) -> None:
        self.is_damaged = True
        self.log.append(Logged(self.log[version].rows, restored=version))

    def settle(self, chance: random.Random, now_ms: int, attempt: str) -> None:
        """Say how loading goes on after a rollback."""
        if self.history().is_rolled_back:
            self.go_on_from(now_ms, attempt, is_reloading=chance.random() < 0.7)

    def go_on_from(self, now_ms: int, attempt: str, *, is_reloading: bool) -> None:
        """Say that what was rolled back is loaded again, or that loading goes on where it had come to."""
        history = self.history()
        back = history.present()
        reached = next(each.commit for each in self.log if each.commit and each.commit.number == history.number)
        offsets = (back.offsets if back else {}) if is_reloading else reached.offsets
        through_ms = back.complete_through_ms if back else None
        number = history.number + 1
        settled = Commit(VIEWS, number, Operation.ROLLBACK, now_ms, offsets, complete_through_ms=through_ms)
        self.log.append(Logged(self.rows, replace(settled, attempt=attempt)))

    def put_back(self, chance: random.Random) -> None:
        """Bring back an older copy of the directory."""
        if len(self.log) > 1:
            self.is_damaged = True
            del self.log[chance.randrange(max(1, len(self.log) - 6), len(self.log)) :]

    def delete_rows(self, chance: random.Random) -> None:
        rows = sorted(self.rows)
        if rows:
            self.is_damaged = True
            gone = set(chance.sample(rows, chance.randint(1, len(rows))))
            self.log.append(Logged(self.rows - gone, removal="DELETE"))

    def compact(self) -> None:
        if self.log:
            self.log.append(Logged(self.rows))

    def swap(self, chance: random.Random, now_ms: int, attempt: str) -> None:
        """Put a rebuilt table in its place, which has not all rows, and whose counts nobody made."""
        newest = self.history().present()
        if newest is None or self.history().is_rolled_back:
            return
        self.is_damaged = True
        rows = {row for row in self.rows if chance.random() < 0.7}
        commit = self.next_commit(newest, newest.offsets, rows, now_ms, attempt, None)
        self.commit(replace(commit, operation=Operation.SWAP, rows=max(1, len(rows))), rows, instead=True)


class Claims:
    """The znode of a tier, which may be lost with ZooKeeper, or go back to what it was."""

    def __init__(self) -> None:
        self.now: TierClaim | None = None
        self.before: list[TierClaim | None] = [None]

    def write(self, claim: TierClaim) -> bool:
        """Write a claim in place of the one of its version; return whether nobody was faster."""
        version = -1 if self.now is None else self.now.version
        if claim.version != version:
            return False
        self.before.append(self.now)
        self.now = claim._replace(version=version + 1)
        return True

    def go_back(self, chance: random.Random) -> None:
        self.now = chance.choice(self.before[-5:])
