"""Files through rotation, truncation, restarts and mishaps; everything read is confirmed at once, unless told."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
from typing import TYPE_CHECKING

import pytest

from kafka2011.collect.lines import Nul
from kafka2011.collect.placed import id_of
from kafka2011.collect.watches import BUSY_S, FIND_S
from tests.support.files import count_open_files
from tests.support.watched_reader import Reader, rotate, write

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    reader = Reader(tmp_path, "a.log")
    yield reader
    reader.close()


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


def test_a_file_that_was_replaced_while_nobody_looked_may_have_grown(
    reader: Reader, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody can know what it got after the last look, so it is no known loss; but it is told."""
    log = tmp_path / "a.log"
    write(log, "one\n")
    assert reader.read() == [b"one"]
    reader.die()
    write(log, "never seen\n")
    rotate(log)
    (tmp_path / "a.log.1").unlink()
    write(log, "two\n")
    assert reader.read() == [b"two"]
    assert f"a file that was {log} is no longer in its directory, and 4 bytes of it were read" in caplog.text
    assert reader.counts.all_is_well


def test_a_file_that_was_read_and_rotated_away_is_not_missed(
    reader: Reader, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The oldest is removed at each rotation, and the new file may get its inode: nothing was truncated or lost."""
    log = tmp_path / "a.log"
    for number in range(8):
        write(log, f"line {number}\n")
        os.utime(log, ns=(0, number * 10**9))  # apart even where a clock is coarse
        assert reader.read() == [b"line %d" % number]
        (tmp_path / "a.log.3").unlink(missing_ok=True)
        rotate(log)
        assert reader.settle() + reader.settle() == []
        if number > 5:
            reader.die()
    assert reader.counts.truncations == 0
    assert "lost, if anything was" not in caplog.text


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
    found = reader.files.read()
    assert found is not None
    tail, old = found
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
    reader = Reader(tmp_path, "picture", "torn", "log", nul=Nul.REFUSE)
    assert sorted(reader.read()) == [*[b"line"] * 2000, b"one"]
    assert reader.counts.files_refused == 2
    assert f"not collected: {picture} holds no lines of text: it is an image" in caplog.text
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
    next(iter(reader.files.watches)).path = str(tmp_path / "later" / "a.log")
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


def replace_inode(log: Path, text: str) -> None:
    """Remove a file and make another one with its inode, as ext4 does by itself."""
    write(log, text, "w")


def pack(path: Path, suffix: str = ".gz") -> None:
    """Compress a file as logrotate does: with the time it had, and then without the file."""
    packed = path.with_name(path.name + suffix)
    data = path.read_bytes()
    packed.write_bytes({".gz": gzip.compress(data), ".bz2": bz2.compress(data), ".xz": lzma.compress(data)}[suffix])
    status = path.stat()
    os.utime(packed, ns=(status.st_atime_ns, status.st_mtime_ns))
    path.unlink()


def test_compressing_what_was_read_is_no_loss(reader: Reader, tmp_path: Path) -> None:
    """Six rotations by a logrotate that compresses at once: each file was open, or read, and nothing comes twice."""
    log = tmp_path / "a.log"
    for number in range(6):
        write(log, f"line {number}\n")
        if number != 3:  # which is written between two looks
            assert reader.read()[-1:] == [b"line %d" % number]
        log.rename(tmp_path / f"a.log-2026112{number}")
        log.touch()
        pack(tmp_path / f"a.log-2026112{number}")
        assert reader.read() == ([b"line 3"] if number == 3 else [])
        assert reader.settle() == []
        reader.positions.save()
    assert reader.counts.all_is_well
    reader.die()
    assert reader.read() == []
    assert reader.counts.all_is_well


@pytest.mark.parametrize("keeps_time", [True, False])
@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz"])
@pytest.mark.parametrize("same_inode", [True, False])
def test_what_was_compressed_unread_is_read(
    reader: Reader, tmp_path: Path, same_inode: bool, suffix: str, keeps_time: bool
) -> None:
    """While nobody looked, lines were written and compressed: they are read from there, though the inode is used again.

    Once, also after a crash in the middle.
    """
    log = tmp_path / "a.log"
    write(log, "".join(f"line {number}\n" for number in range(1, 101)))
    assert len(reader.read()) == 100
    reader.die()
    write(log, "line 101\nline 102\n")
    if same_inode:
        (tmp_path / "a.log.1").write_bytes(log.read_bytes())
        replace_inode(log, "new 1\n")
    else:
        rotate(log)
        write(log, "new 1\n")
    pack(tmp_path / "a.log.1", suffix)
    if not keeps_time:
        for packed in tmp_path.glob("a.log.1.*"):
            packed.touch()
    for confirm in (False, True):
        assert reader.read(confirm=confirm) == [b"line 101", b"line 102", b"new 1"]
        reader.die()
    assert reader.read() == []
    assert reader.counts.all_is_well


def test_what_is_gone_is_told_though_its_inode_is_used_again(
    reader: Reader, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What was seen and not read is known to be lost, and so is what cannot be unpacked."""
    log = tmp_path / "a.log"
    write(log, "one\n")
    reader.read()
    write(log, "two\n")
    reader.files.look()
    reader.die()
    write(tmp_path / "a.log.1.lz4", "whatever it is")
    os.utime(tmp_path / "a.log.1.lz4", ns=(log.stat().st_mtime_ns,) * 2)
    replace_inode(log, "something else\n")
    assert reader.read() == [b"something else"]
    assert (reader.counts.losses, reader.counts.bytes_lost) == (1, 4)
    assert "after 4 bytes of it were read: the next 4 bytes, and whatever followed them, are lost" in caplog.text
    reader.die()
    reader.read()
    assert reader.counts.all_is_well


def test_a_copy_made_before_a_truncation_has_the_rest(reader: Reader, tmp_path: Path) -> None:
    """What copytruncate copied and nobody had read is read from the copy, once, half a line too; running or not."""
    log = tmp_path / "a.log"
    write(log, "one\nhal")
    assert reader.read() == [b"one"]
    for number in range(2):
        write(log, "f\ntwo\n")
        (tmp_path / f"a.log.{number + 1}").write_bytes(log.read_bytes())
        if number:
            reader.die()
        write(log, f"{number} three\nhal", "w")
        assert reader.read() == [b"half", b"two", b"%d three" % number]
        assert reader.settle() == []
    assert reader.counts.losses == 0
    reader.die()
    assert reader.read() == []


def test_a_line_that_was_compressed_has_the_id_it_had(tmp_path: Path) -> None:
    """What is read again from another file stands where it stood."""
    log = tmp_path / "a.log"
    reader = Reader(tmp_path, "a.log", places=True)
    write(log, "one\ntwo\n")
    [first, _] = [id_of(line, "a") for line in reader.read(confirm=False)]
    assert first is not None
    reader.die()
    rotate(log)
    pack(tmp_path / "a.log.1")
    [again, _] = [id_of(line, "a") for line in reader.read()]
    assert again == first
    reader.close()


def test_a_nul_byte_is_left_out(reader: Reader, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The line arrives without it, and so do those after it; a hole before a line costs nothing but its bytes."""
    log = tmp_path / "a.log"
    write(log, "one\n")
    assert reader.read() == [b"one"]
    write(log, "a\0b\ntwo\n" + "\0" * 1_000_000 + "three\nno \0end")
    assert reader.read() == [b"ab", b"two", b"three"]
    assert reader.counts.nul_bytes_skipped == 1_000_001 + 1
    assert caplog.text.count("they are left out") == 1
    assert reader.counts.all_is_well
    reader.die()
    write(log, "\n")
    assert reader.read() == [b"no end"]


def test_a_nul_byte_may_stay(tmp_path: Path) -> None:
    """Bytes as they are."""
    write(tmp_path / "a.log", "\0\na\0b\n")
    reader = Reader(tmp_path, "a.log", nul=Nul.KEEP)
    assert reader.read() == [b"\0", b"a\0b"]
    reader.close()


@pytest.mark.parametrize("text", ["new\n", "so long that it reaches beyond the old place\n"])
@pytest.mark.parametrize("is_running", [True, False])
def test_a_refused_file_is_read_again_once_it_is_truncated(tmp_path: Path, text: str, is_running: bool) -> None:
    """Its owner has put it right, or another file has its inode."""
    log = tmp_path / "a.log"
    write(log, "one\na\0b\n")
    reader = Reader(tmp_path, "a.log", nul=Nul.REFUSE)
    assert reader.read() == []
    write(log, "more\n")
    assert reader.read() == []
    assert reader.counts.files_refused == 1
    if not is_running:
        reader.die()
    write(log, text, "w")
    assert reader.read() == text.encode().splitlines()
    reader.close()


class Calls:
    """How often something of a module was called."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, module: object, name: str) -> None:
        self.count = 0
        called = getattr(module, name)

        def count(*arguments: object, **keywords: object) -> object:
            self.count += 1
            return called(*arguments, **keywords)

        monkeypatch.setattr(module, name, count)


def test_idle_files_cost_a_look_at_their_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many: nothing is read, nobody waits in turn, and beyond some hundreds only a share is looked at.

    What changes is found all the same, and then looked at each time.
    """
    monkeypatch.setattr("kafka2011.collect.watches.LOOKS", 50)
    logs = [tmp_path / f"{number}.log" for number in range(400)]
    for log in logs:
        write(log, f"{log.name}\n")
    reader = Reader(tmp_path, *(log.name for log in logs))
    lines: set[bytes] = set()
    for _ in range(4):
        lines.update(reader.read())
    assert lines == {log.name.encode() for log in logs}
    reader.clock.now_s += BUSY_S + 1
    for _ in range(4):
        assert reader.read() == []
    stats, reads = Calls(monkeypatch, os, "stat"), Calls(monkeypatch, os, "pread")
    listings = Calls(monkeypatch, os, "scandir")
    for _ in range(4):
        assert reader.read() == []
        assert reader.files.ready == 0
    assert (stats.count, reads.count, listings.count) == (400, 0, 0)
    for name in ("7.log", "399.log"):
        write(tmp_path / name, "more\n")
    assert [line for _ in range(4) for line in reader.read()] == [b"more"] * 2
    write(tmp_path / "7.log", "again\n")
    assert reader.read() == [b"again"]
    reader.close()


def test_a_directory_is_read_once_for_all_that_were_rotated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that as many rotations cost no more than one each."""
    logs = [tmp_path / f"{number}.log" for number in range(100)]
    for log in logs:
        write(log, "one\n")
    reader = Reader(tmp_path, *(log.name for log in logs))
    assert len(reader.read()) == 100
    listings = Calls(monkeypatch, os, "scandir")
    for log in logs:
        write(log, "two\n")
        rotate(log)
    assert len(reader.read()) == 100
    assert listings.count == 1
    reader.die()
    assert reader.read() == []
    assert reader.counts.all_is_well
    reader.close()


def test_descriptors_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that are idle are closed, and read on when they change, also when they were renamed or compressed then."""
    monkeypatch.setattr("kafka2011.collect.followed_files.OPEN_FILES", 10)
    logs = [tmp_path / f"{number}.log" for number in range(50)]
    for log in logs:
        write(log, "one\n")
    before = count_open_files()
    reader = Reader(tmp_path, *(log.name for log in logs))
    assert reader.read() == [b"one"] * 50
    allowed = before + 1 + 10  # the lock of the positions
    assert count_open_files() <= allowed
    for log in logs:
        write(log, "two\nhal")
    assert reader.read() == [b"two"] * 50
    for number, log in enumerate(logs):
        write(log, "f\n")
        rotate(log)
        write(log, "three\n")
        if number < 5:  # of those that were closed
            pack(log.with_name(f"{log.name}.1"))
    assert sorted(reader.read()) == [b"half"] * 50 + [b"three"] * 50
    assert count_open_files() <= allowed + 5
    assert reader.settle() == []
    assert count_open_files() <= allowed
    assert reader.counts.all_is_well
    reader.close()


def test_an_inode_that_is_used_again_while_its_file_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is another file, and the one before is read on where it is now."""
    monkeypatch.setattr("kafka2011.collect.followed_files.OPEN_FILES", 1)
    logs = [tmp_path / "a.log", tmp_path / "b.log"]
    reader = Reader(tmp_path, "a.log", "b.log")
    for log in logs:
        write(log, f"{log.name} one\n")
    assert len(reader.read()) == 2
    write(logs[0], "two\n")
    (tmp_path / "a.log.1").write_bytes(logs[0].read_bytes())
    pack(tmp_path / "a.log.1")
    replace_inode(logs[0], "another file, as long as it takes\n")
    assert reader.read() == [b"two", b"another file, as long as it takes"]
    assert reader.counts.all_is_well
    reader.close()


@pytest.mark.parametrize("is_restarted", [False, True])
def test_what_came_between_two_empty_files_of_one_inode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_restarted: bool
) -> None:
    """Closed, an empty file is only known by its inode, and another one may have that after two rotations."""
    monkeypatch.setattr("kafka2011.collect.followed_files.OPEN_FILES", 1)
    reader = Reader(tmp_path, "a.log", "b.log")
    for name in ("a.log", "b.log"):
        (tmp_path / name).touch()
    assert reader.read() == []
    if is_restarted:
        reader.die()
    write(tmp_path / "a.log.1", "between\n")
    pack(tmp_path / "a.log.1")
    replace_inode(tmp_path / "a.log", "after\n")
    assert sorted(reader.read()) == [b"after", b"between"]
    assert reader.settle() == []
    assert reader.counts.all_is_well
    reader.close()


def test_files_that_were_compressed_into_one_anothers_inodes(tmp_path: Path) -> None:
    """Each goes on where the other one was, and neither waits for the other for ever."""
    logs = tmp_path / "a.log", tmp_path / "b.log"
    for log in logs:
        write(log, f"{log.name} one\n")
    reader = Reader(tmp_path, "*.log")
    assert len(reader.read()) == 2
    reader.positions.save()
    contents = [log.read_bytes() + f"{log.name} two\n".encode() for log in logs]
    for log, other, content in zip(logs, reversed(logs), contents, strict=True):
        other.rename(tmp_path / f"{log.name}.1.gz")
        (tmp_path / f"{log.name}.1.gz").write_bytes(gzip.compress(content))
    for log in logs:
        log.touch()
    reader.die()
    assert sorted(line for _ in range(2) for line in reader.read()) == [b"a.log two", b"b.log two"]
    assert reader.settle() == []
    assert reader.counts.all_is_well
    reader.close()


def test_each_file_has_its_turn(reader: Reader, tmp_path: Path) -> None:
    """A backlog of one file does not keep others waiting."""
    big, small = tmp_path / "big", tmp_path / "small"
    big.write_bytes((b"x" * 99 + b"\n") * 20_000)
    write(small, "one\n")
    reader.paths = [str(big), str(small)]
    reader.die()
    reader.files.look()
    first, second = reader.files.read(), reader.files.read()
    assert first is not None
    assert second is not None
    assert {first[0].path, second[0].path} == {str(big), str(small)}


def test_a_pattern_finds_files_that_are_born_later(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Each is read from its start, through rotation; one that goes away is forgotten; compressed ones are not read."""
    reader = Reader(tmp_path, "logs/app-*.log*")
    assert reader.read() == []
    assert caplog.text.count("no file matches") == 1
    (tmp_path / "logs").mkdir()
    write(tmp_path / "logs" / "app-1.log", "one\n")
    write(tmp_path / "logs" / "other.log", "no\n")
    reader.clock.now_s += FIND_S
    assert reader.read() == [b"one"]
    write(tmp_path / "logs" / "app-2.log", "two\n")
    reader.clock.now_s += FIND_S
    assert reader.read() == [b"two"]
    rotate(tmp_path / "logs" / "app-1.log")
    write(tmp_path / "logs" / "app-1.log", "three\n")
    pack(tmp_path / "logs" / "app-1.log.1")
    reader.clock.now_s += FIND_S
    assert reader.read() == [b"three"]
    (tmp_path / "logs" / "app-2.log").unlink()
    reader.settle()
    reader.settle()
    assert {each.path for each in reader.files.watches} == {str(tmp_path / "logs" / "app-1.log")}
    reader.clock.now_s += FIND_S
    reader.read()
    assert reader.positions.of(str(tmp_path / "logs" / "app-2.log")) == {}
    assert reader.counts.all_is_well
    reader.close()


def test_what_a_pattern_found_is_read_on_though_it_was_renamed_meanwhile(tmp_path: Path) -> None:
    """Its path matched, though there is no such file any more, and the new name does not match."""
    write(tmp_path / "app.log", "one\n")
    reader = Reader(tmp_path, "*.log")
    assert reader.read() == [b"one"]
    write(tmp_path / "app.log", "two\n")
    reader.die()
    (tmp_path / "app.log").rename(tmp_path / "app.log.1")
    assert reader.read() == [b"two"]
    reader.close()


def test_a_name_with_brackets_is_a_name(tmp_path: Path) -> None:
    """Where there is such a file."""
    write(tmp_path / "[a].log", "one\n")
    write(tmp_path / "a.log", "two\n")
    reader = Reader(tmp_path, "[a].log", follow=False)
    assert reader.read() == [b"one"]
    assert reader.files.are_done
    reader.close()


def test_a_pattern_without_follow(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What matches now is read to its end; one that matches nothing is a failure."""
    write(tmp_path / "a.log", "one\n")
    reader = Reader(tmp_path, "?.log", "*.txt", follow=False)
    assert reader.read() == [b"one"]
    assert reader.files.are_done
    assert reader.counts.failed_reads == 1
    assert f"no file matches {tmp_path}/*.txt" in caplog.text
    reader.close()
