"""Random walks of two files in one directory through everything that happens to logs; each line arrives."""

from __future__ import annotations

import os
from collections import Counter
from random import Random
from typing import TYPE_CHECKING

import pytest

from tests.collect.test_watched_files import pack
from tests.support.watched_reader import Reader, write

if TYPE_CHECKING:
    from pathlib import Path

STEPS = 60
_HAPPENINGS = {
    "write": 6,
    "look": 5,
    "half a line": 1,
    "rotate": 2,
    "rotate and compress": 2,
    "compress an older one": 1,
    "crash": 1,
    "crash before saving": 1,
    "read unconfirmed": 1,
    "settle": 1,
}


class Walk:
    """One file is rotated by renaming, the other one by copying and truncating."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.random = Random(seed)
        self.directory = directory
        self.renamed, self.truncated = directory / "a.log", directory / "b.log"
        self.written: list[bytes] = []
        self.arrived: Counter[bytes] = Counter()
        self.repeats_are_due = False
        self.time_ns = 1_700_000_000_000_000_000
        for log in (self.renamed, self.truncated):
            self.write(log, "begin")
        names = ["*.log"] if self.random.random() < 0.3 else ["a.log", "b.log"]
        self.reader = Reader(directory, *names)
        self.look()
        self.reader.positions.save()

    def stamp(self, path: Path) -> None:
        """Give a file a time of its own: all of this takes less than what file systems tell apart."""
        self.time_ns += 50_000_000
        os.utime(path, ns=(self.time_ns, self.time_ns))

    def write(self, log: Path, what: str, *, looks_between: bool = False) -> None:
        start = f"{log.name} {what} {len(self.written)} "
        rest = "x" * self.random.randrange(50)
        write(log, start)
        if looks_between:
            self.stamp(log)
            self.look()
        write(log, f"{rest}\n")
        self.stamp(log)
        self.written.append((start + rest).encode())

    def look(self) -> None:
        for _ in range(2):
            self.arrived.update(self.reader.read())

    def rotated(self, log: Path) -> list[Path]:
        return sorted(self.directory.glob(f"{log.name}.*"), key=lambda path: int(path.name.split(".")[2]))

    def rotate(self, log: Path, *, compress: bool) -> None:
        if log == self.truncated:  # of two truncations between looks only the inode would tell
            self.write(log, "before")
            self.look()
            self.reader.positions.save()
            if self.random.random() < 0.5:
                self.write(log, "between")
        for path in reversed(self.rotated(log)):
            name, extension, number, *packed = path.name.split(".")
            path.rename(self.directory / ".".join([name, extension, str(int(number) + 1), *packed]))
        first = log.with_name(f"{log.name}.1")
        if log == self.renamed:
            log.rename(first)
            log.touch()
        else:
            first.write_bytes(log.read_bytes())
            self.stamp(first)
            os.truncate(log, 0)
        self.stamp(log)
        if compress:
            pack(first)
        if self.random.random() < 0.5:
            self.write(log, "after")

    def step(self) -> None:
        log = self.random.choice([self.renamed, self.truncated])
        [what] = self.random.choices(list(_HAPPENINGS), list(_HAPPENINGS.values()))
        if what == "write":
            for _ in range(self.random.randrange(1, 5)):
                self.write(log, "line")
        elif what == "half a line":
            self.write(log, "half", looks_between=self.random.random() < 0.5)
        elif what.startswith("rotate"):
            self.rotate(log, compress=what.endswith("compress"))
        elif what == "compress an older one":
            older = [path for path in self.rotated(log)[1:] if path.suffix != ".gz"]
            if older:
                pack(self.random.choice(older))
        elif what == "look":
            self.look()
        elif what == "settle":
            self.arrived.update(self.reader.settle())
        elif what == "read unconfirmed":
            self.repeats_are_due = True
            self.arrived.update(self.reader.read(confirm=False))
        else:
            self.repeats_are_due = True
            self.reader.die(save=what == "crash")
        self.reader.clock.now_s += 1

    def end(self) -> None:
        for _ in range(3):
            self.look()
            self.arrived.update(self.reader.settle())


@pytest.mark.parametrize("open_files", [1, 500])
@pytest.mark.parametrize("seed", range(20))
def test_every_line_arrives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, open_files: int) -> None:
    """Whole, and once unless the collector died; nothing is told to be lost, also when not all files stay open."""
    monkeypatch.setattr("kafka2011.collect.followed_files.OPEN_FILES", open_files)
    walk = Walk(tmp_path, seed)
    try:
        for _ in range(STEPS):
            walk.step()
        walk.end()
        assert set(walk.arrived) == set(walk.written)
        assert walk.repeats_are_due or max(walk.arrived.values()) == 1
        assert walk.reader.counts.all_is_well
    finally:
        walk.reader.close()
