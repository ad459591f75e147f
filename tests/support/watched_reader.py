"""A collector's files without the rest of it, for tests that write, rotate and compress them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka2011.collect.counts import CollectCounts
from kafka2011.collect.followed_files import ROTATED_WAIT_S
from kafka2011.collect.lines import LineCutter, Nul
from kafka2011.collect.positions import Positions
from kafka2011.collect.watched_files import WatchedFiles
from tests.support.clocks import ManualClock

if TYPE_CHECKING:
    from pathlib import Path


class Reader:
    """A collector's files without the rest of it: what was read, and, once confirmed, saved."""

    def __init__(
        self, directory: Path, *names: str, follow: bool = True, nul: Nul = Nul.SKIP, places: bool = False
    ) -> None:
        self.state = directory / "state"
        self.paths = [str(directory / name) for name in names]
        self.follow = follow
        self.nul = nul
        self.places = places
        self.clock = ManualClock(1000.0)
        self.open()

    def open(self) -> None:
        self.counts = CollectCounts()
        self.positions = Positions(self.state, "views")
        self.files = WatchedFiles(
            self.paths,
            self.positions,
            self.counts,
            lambda: LineCutter(100, skips_nul=self.nul is Nul.SKIP),
            self.clock,
            follow=self.follow,
            places=self.places,
            refuses_nul=self.nul is Nul.REFUSE,
        )

    def read(self, *, confirm: bool = True) -> list[bytes]:
        """Look, and read until there is nothing more."""
        self.files.look()
        lines: list[bytes] = []
        while found := self.files.read():
            tail, piece = found
            lines += piece.lines
            if confirm:
                tail.confirm(piece)
        return lines

    def settle(self) -> list[bytes]:
        """Let so much time pass that rotated files are left."""
        self.files.look()
        self.clock.now_s += ROTATED_WAIT_S
        return self.read()

    def die(self, *, save: bool = True) -> None:
        """End without a word, and begin again."""
        if save:
            self.positions.save()
        self.close()
        self.open()

    def close(self) -> None:
        self.files.close()
        self.positions.close()


def write(path: Path, text: str, mode: str = "a") -> None:
    with path.open(mode) as file:
        file.write(text)


def rotate(log: Path, generations: int = 9) -> None:
    """Rename as logrotate does, a.log to a.log.1 to a.log.2, and make a new file."""
    for number in range(generations, 0, -1):
        former = log.with_name(f"{log.name}.{number}")
        if former.exists():
            former.rename(log.with_name(f"{log.name}.{number + 1}"))
    log.rename(log.with_name(f"{log.name}.1"))
    log.touch()
