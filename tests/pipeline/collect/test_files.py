"""Files through rotation, truncation, restarts and mishaps; everything read is confirmed at once, unless told."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from kafka2011.pipeline.collect.counts import CollectCounts
from kafka2011.pipeline.collect.files import ROTATED_WAIT_S, Files
from kafka2011.pipeline.collect.lines import LineCutter
from kafka2011.pipeline.collect.positions import Positions
from tests.support.clocks import ManualClock
from tests.support.files import count_open_files

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kafka2011.pipeline.collect.tail import FileTail, Piece


class Reader:
    """A collector's files without the rest of it: what was read, and, once confirmed, saved."""

    def __init__(self, directory: Path, *names: str, follow: bool = True) -> None:
        self.state = directory / "state"
        self.paths = [str(directory / name) for name in names]
        self.follow = follow
        self.clock = ManualClock(1000.0)
        self.open()

    def open(self) -> None:
        self.counts = CollectCounts()
        self.positions = Positions(self.state, "views")
        self.files = Files(
            self.paths, self.positions, self.counts, lambda: LineCutter(100), self.clock, follow=self.follow
        )

    def read(self, *, confirm: bool = True) -> list[bytes]:
        """Look, and read until there is nothing more."""
        self.files.look()
        lines: list[bytes] = []
        while found := self._next():
            tail, piece = found
            lines += piece.lines
            if confirm:
                tail.confirm(piece)
        return lines

    def _next(self) -> tuple[FileTail, Piece] | None:
        for tail in list(self.files.tails.values()):
            if not self.files.waits_for_older(tail) and (piece := self.files.read(tail)) is not None:
                return tail, piece
        return None

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


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    reader = Reader(tmp_path, "a.log")
    yield reader
    reader.close()


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


def test_lines_are_read_once_and_half_ones_wait(reader: Reader, tmp_path: Path) -> None:
    """A line counts once its newline is there; nothing is read twice, also after a restart."""
    log = tmp_path / "a.log"
    write(log, "one\ntwo\nthr")
    assert reader.read() == [b"one", b"two"]
    assert reader.read() == []
    write(log, "ee\nfo")
    assert reader.read() == [b"three"]
    reader.die()
    assert reader.read() == []
    write(log, "ur\n")
    assert reader.read() == [b"four"]
    assert reader.counts.all_is_well


def test_what_was_not_confirmed_comes_again_and_is_counted(reader: Reader, tmp_path: Path) -> None:
    """After a crash reading goes on after the last confirmed line, and says how much was sent before."""
    log = tmp_path / "a.log"
    write(log, "one\n")
    reader.read()
    write(log, "two\nthree\n")
    assert reader.read(confirm=False) == [b"two", b"three"]
    reader.die()
    assert reader.read() == [b"two", b"three"]
    assert reader.counts.bytes_maybe_repeated == len("two\nthree\n")


def test_a_rotation_while_it_reads(reader: Reader, tmp_path: Path) -> None:
    """The old file is read to its end, before the new one, and for a while after it; then it is closed."""
    log = tmp_path / "a.log"
    write(log, "one\n")
    reader.read()
    before = count_open_files()
    write(log, "two\n")
    rotate(log)
    write(log, "three\n")
    assert reader.read() == [b"two", b"three"]
    write(tmp_path / "a.log.1", "late\n")  # by a writer that has not noticed
    assert reader.read() == [b"late"]
    assert reader.settle() == []
    assert count_open_files() == before
    assert reader.counts.rotations == 1
    reader.die()
    assert reader.read() == []


def test_the_half_line_of_a_rotated_file_is_sent(
    reader: Reader, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing will be added to it any more, so it goes as it is, once and logged."""
    log = tmp_path / "a.log"
    write(log, "one\nhal")
    assert reader.read() == [b"one"]
    rotate(log)
    assert reader.read() == []
    assert reader.settle() == [b"hal"]
    assert "a.log ends without a newline: its last 3 bytes are sent as a line" in caplog.text
    reader.die()
    assert reader.read() + reader.settle() == []


@pytest.mark.parametrize("known", [True, False], ids=["running", "down"])
def test_several_rotations_unseen(reader: Reader, tmp_path: Path, known: bool) -> None:
    """What came and went between two looks is read too, oldest first, also when nobody looked for long."""
    log = tmp_path / "a.log"
    write(tmp_path / "a.log.1", "before the first start\n")
    os.utime(tmp_path / "a.log.1", (1000, 1000))
    write(log, "one\n")
    assert reader.read() == [b"one"]
    if not known:
        reader.positions.save()
        reader.close()
    write(log, "two\n")
    for text in ("three\n", "four\n", "five\n"):
        rotate(log)
        write(log, text)
    if not known:
        reader.open()
    assert reader.read() == [b"two", b"three", b"four", b"five"]
    assert reader.settle() == []
    reader.die()
    assert reader.read() == []
    assert reader.counts.all_is_well


def test_dated_names(reader: Reader, tmp_path: Path) -> None:
    """Rotated files may have a date in their names, also before the extension."""
    log = tmp_path / "a.log"
    write(log, "one\n")
    reader.read()
    reader.die()
    log.rename(tmp_path / "a-2026-11-21.log")
    write(log, "two\n")
    log.rename(tmp_path / "a.log-20261122")
    write(log, "three\n")
    write(tmp_path / "a.log.swp", "no log at all\n")
    assert reader.read() == [b"two", b"three"]


def test_a_crash_in_the_middle_of_a_rotated_file(reader: Reader, tmp_path: Path) -> None:
    """Both the rest of the old file and all of the new one come after a restart."""
    log = tmp_path / "a.log"
    write(log, "one\ntwo\n")
    reader.read(confirm=False)
    rotate(log)
    write(log, "three\n")
    reader.read(confirm=False)
    reader.die()
    assert reader.read() == [b"one", b"two", b"three"]


def test_the_file_goes_away_and_comes_back(reader: Reader, tmp_path: Path) -> None:
    """Without its name the file is still read; a later one of that name is another file."""
    log = tmp_path / "a.log"
    write(log, "one\n")
    reader.read()
    log.rename(tmp_path / "a.log.1")
    write(tmp_path / "a.log.1", "two\n")
    assert reader.read() == [b"two"]
    assert reader.settle() == []
    write(log, "three\n")
    assert reader.read() == [b"three"]
    log.unlink()
    assert reader.settle() + reader.settle() == []
    write(log, "four\n")
    assert reader.read() == [b"four"]


def test_what_is_gone_is_told(reader: Reader, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A rotated file that was deleted before it was read is a loss, with what is known of it."""
    log = tmp_path / "a.log"
    write(log, "one\n" + "x" * 50 + "\n")
    reader.files.look()
    reader.die()
    rotate(log)
    (tmp_path / "a.log.1").unlink()
    write(log, "two\n")
    assert reader.read() == [b"two"]
    assert reader.counts.bytes_lost == 55
    assert reader.counts.losses == 1
    assert f"a file that was {log} is no longer in its directory: its 55 bytes from 0 on" in caplog.text
    reader.die()
    reader.read()
    assert reader.counts.losses == 0  # it is told once


def test_what_was_compressed_is_told(reader: Reader, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """So is one that came and went while nobody looked, and can no longer be read."""
    log = tmp_path / "a.log"
    write(log, "one\n")
    reader.read()
    reader.die()
    rotate(log)
    write(log, "two\n")
    rotate(log)
    (tmp_path / "a.log.1").rename(tmp_path / "a.log.1.gz")
    assert reader.read() == []
    assert "was compressed before it was read: it is lost" in caplog.text
    assert reader.counts.losses == 1
    reader.die()
    rotate(log)
    reader.read()
    assert reader.counts.losses == 0


def test_copytruncate(reader: Reader, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """After a truncation the file is read from its start; what is known to be lost is told in bytes."""
    log = tmp_path / "a.log"
    write(log, "one\nhal")
    assert reader.read() == [b"one"]
    write(log, "f\nnever read\n")
    reader.files.look()  # seen, but not read
    write(log, "two\n", "w")
    assert reader.read() == [b"hal", b"two"]  # what was read of a line is not lost
    assert reader.counts.truncations == 1
    assert reader.counts.bytes_lost == len("f\nnever read\n")
    assert f"{log} was truncated, or is another file, after 7 bytes of it were read" in caplog.text
    reader.die()
    assert reader.read() == []
    assert reader.counts.truncations == 0


def test_a_truncated_file_that_has_grown_beyond_the_old_place(reader: Reader, tmp_path: Path) -> None:
    """It is noticed by the bytes before that place, which are others now."""
    log = tmp_path / "a.log"
    write(log, "one\ntwo\n")
    reader.read()
    write(log, "three\nfour\nfive\n", "w")
    assert reader.read() == [b"three", b"four", b"five"]
    assert reader.counts.truncations == 1
    assert reader.counts.bytes_lost == 0


@pytest.mark.parametrize("text", ["two\n", "another\nand another\n"], ids=["shorter", "longer"])
def test_an_inode_that_is_used_again(reader: Reader, tmp_path: Path, text: str) -> None:
    """Another file with the inode of the one before is not taken for its continuation."""
    log = tmp_path / "a.log"
    write(log, "one\nmore\n")
    reader.read()
    reader.die()
    write(log, text, "w")  # the same inode, and other content: just what a new file with it looks like
    assert reader.read() == text.encode().splitlines()


def test_confirmations_of_truncated_content_count_no_more(reader: Reader, tmp_path: Path) -> None:
    """What is confirmed late does not move the position in the new content."""
    log = tmp_path / "a.log"
    write(log, "one\n" * 10)
    reader.files.look()
    [tail] = reader.files.tails.values()
    old = tail.read()
    assert old is not None
    write(log, "two\n" * 20, "w")
    assert reader.read(confirm=False) == [b"two"] * 20
    tail.confirm(old)
    reader.die()
    assert reader.read() == [b"two"] * 20


def test_binary_files_are_refused_and_others_go_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A NUL byte at the beginning refuses the whole file, a later one the rest; its error names the place."""
    picture, torn, log = tmp_path / "picture", tmp_path / "torn", tmp_path / "log"
    picture.write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0")
    torn.write_bytes(b"line\n" * 2000 + b"\0" * 10 + b"\nmore\n")
    log.write_bytes(b"one\n")
    reader = Reader(tmp_path, "picture", "torn", "log")
    assert sorted(reader.read()) == [*[b"line"] * 2000, b"one"]
    assert reader.counts.files_refused == 2
    assert f"not collected: {picture} holds a NUL byte at 8" in caplog.text
    assert f"not collected: {torn} holds a NUL byte at 10000" in caplog.text
    assert reader.read() == []
    assert reader.counts.files_refused == 2
    rotate(torn)
    write(torn, "well again\n")
    assert reader.read() == [b"well again"]
    reader.close()


def test_too_long_lines_are_cut(reader: Reader, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """They are counted, and the path is named."""
    log = tmp_path / "a.log"
    write(log, "one\n" + "x" * 500_000 + "\ntwo\n")
    one, cut, two = reader.read()
    assert (one, two) == (b"one", b"two")
    assert len(cut) == 100
    assert reader.counts.lines_too_long == 1
    assert f"1 lines before byte 500009 of {log} are too long" in caplog.text


def test_bytes_stay_as_they_are(reader: Reader, tmp_path: Path) -> None:
    """No encoding is assumed, and a carriage return belongs to the line."""
    (tmp_path / "a.log").write_bytes(b"caf\xe9\r\n\xff\xfe\n\n")
    assert reader.read() == [b"caf\xe9\r", b"\xff\xfe", b""]


def test_waiting_for_a_file(reader: Reader, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A missing file, even a missing directory, is waited for when it is followed."""
    reader.files.watches[0].path = str(tmp_path / "later" / "a.log")
    assert reader.read() == reader.read() == []
    assert caplog.text.count("does not exist yet: waiting for it") == 1
    (tmp_path / "later").mkdir()
    write(tmp_path / "later" / "a.log", "one\n")
    assert reader.read() == [b"one"]
    assert reader.counts.all_is_well


def test_without_follow_it_ends(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Each file is read to its end, the last half line included; what cannot be read fails, and the others go on."""
    write(tmp_path / "a.log", "one\ntw")
    (tmp_path / "directory").mkdir()
    reader = Reader(tmp_path, "a.log", "missing", "directory", follow=False)
    assert reader.read() == [b"one", b"tw"]
    assert reader.files.are_done
    assert f"{tmp_path}/missing does not exist" in caplog.text
    assert f"{tmp_path}/directory is no regular file" in caplog.text
    assert reader.counts.failed_reads == 2
    reader.paths = reader.paths[:1]
    reader.die()
    write(tmp_path / "a.log", "\nthree\n")
    assert reader.read() == [b"", b"three"]
    reader.close()


def test_two_paths_of_one_file(tmp_path: Path) -> None:
    """It is read once."""
    write(tmp_path / "a.log", "one\n")
    (tmp_path / "link").symlink_to("a.log")
    reader = Reader(tmp_path, "a.log", "link")
    assert reader.read() == [b"one"]
    rotate(tmp_path / "a.log")
    write(tmp_path / "a.log", "two\n")
    assert reader.read() == [b"two"]
    reader.close()
