"""What waits on disk: bounded, in order, and whole after a crash at any byte."""

from __future__ import annotations

import errno
import os
import shutil
import threading
from typing import TYPE_CHECKING, Any

from kafka2011.collect import spool as module
from kafka2011.collect.counts import CollectCounts
from kafka2011.collect.spool import MIN_SPOOL_BYTES, Spool, SpoolSettings
from tests.support.clocks import ManualClock
from tests.support.disks import DiskWith
from tests.support.waiting import eventually, is_waiting

if TYPE_CHECKING:
    from pathlib import Path

    import pytest
    from _pytest.monkeypatch import MonkeyPatch


def open_spool(path: Path, offset: int = 0, counts: CollectCounts | None = None, **settings: Any) -> Spool:
    group = {name: settings.pop(name) for name in ("drops", "places") if name in settings}
    return Spool(
        SpoolSettings(path, "views", MIN_SPOOL_BYTES, **group),
        offset,
        counts or CollectCounts(),
        ManualClock(),
        **settings,
    )


def rest(spool: Spool) -> list[bytes]:
    lines: list[bytes] = []
    while found := spool.read():
        lines += found[0]
    return lines


def test_lines_come_out_in_order_and_again_until_confirmed(tmp_path: Path) -> None:
    """What was not confirmed before the end is there after it, with any bytes in it."""
    spool = open_spool(tmp_path / "spool")
    spool.append([b"one", b"", b"t\nwo\0"])
    spool.append([])
    found = spool.read()
    assert found is not None
    lines, offset = found
    assert lines == [b"one", b"", b"t\nwo\0"]
    spool.append([b"three"])
    assert not spool.is_read
    spool.confirm(offset)
    assert rest(spool) == [b"three"]
    assert spool.is_read
    assert spool.waiting_bytes == 15
    spool.close()
    again = open_spool(tmp_path / "spool", offset)
    assert rest(again) == [b"three"]
    again.close()


def test_a_crash_at_every_byte(tmp_path: Path) -> None:
    """Wherever a write was cut off, the whole lines before are there, and the spool takes more."""
    spool = open_spool(tmp_path / "spool")
    spool.append([b"one", b"two"])
    spool.append([b"three"])
    ends = {0: 0, 13: 1, 26: 2, 41: 3}
    spool.close()
    [segment] = (tmp_path / "spool").glob("*.kafka")
    size = segment.stat().st_size
    assert size == max(ends)
    for cut in range(size + 1):
        copy = tmp_path / f"cut-{cut}"
        shutil.copytree(tmp_path / "spool", copy)
        os.truncate(copy / segment.name, cut)
        torn = open_spool(copy)
        whole = max(number for end, number in ends.items() if end <= cut)
        assert rest(torn) == [b"one", b"two", b"three"][:whole]
        torn.append([b"more"])
        assert rest(torn) == [b"more"]
        torn.close()


def test_a_spool_that_was_deleted_begins_again(tmp_path: Path) -> None:
    """An offset beyond its end is not waited for."""
    spool = open_spool(tmp_path / "spool", 1000)
    spool.append([b"one"])
    assert rest(spool) == [b"one"]
    spool.close()


def test_it_is_bounded_and_its_writer_waits(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Full, it says so and takes nothing; confirmed segments are deleted, and then it goes on."""
    counts = CollectCounts()
    spool = open_spool(tmp_path / "spool", counts=counts)
    written = 0

    def write() -> None:
        nonlocal written
        for number in range(30):
            spool.append([b"%d" % number * 65536])
            written = number + 1

    writing = threading.Thread(target=write, daemon=True)
    writing.start()
    eventually(lambda: "is full" in caplog.text)
    assert "nothing more is read" in caplog.text
    assert sum(path.stat().st_size for path in (tmp_path / "spool").iterdir()) <= MIN_SPOOL_BYTES
    lines: list[bytes] = []
    while len(lines) < 30:
        if found := spool.read():
            lines += found[0]
            spool.confirm(found[1])
        spool.trim()
        writing.join(0.001)  # let it have the lock, which would else be taken again at once
    writing.join(10)
    assert lines == [b"%d" % number * 65536 for number in range(30)]
    assert "has space again; 0 lines were dropped" in caplog.text
    assert counts.lines_dropped == 0
    spool.close()


def test_it_may_drop(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What has no room is dropped and counted, and said once."""
    counts = CollectCounts()
    spool = open_spool(tmp_path / "spool", counts=counts, drops=True)
    for _ in range(20):
        spool.append([b"x" * 100_000, b"y"])
    assert counts.lines_dropped > 0
    assert caplog.text.count("lines are dropped until it has space") == 1
    assert len(rest(spool)) + counts.lines_dropped == 40
    spool.close()


def test_a_disk_without_room_is_as_good_as_full(
    tmp_path: Path, monkeypatch: MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is written that might fill it up, and the writer goes on when there is room."""
    spool = open_spool(tmp_path / "spool")
    spool.append([b"one"])
    has_room = os.statvfs(tmp_path)
    monkeypatch.setattr(module, "_RETRY_S", 0.01)
    monkeypatch.setattr(os, "statvfs", lambda _path: os.statvfs_result((4096, 4096, 1, 1, 1, 1, 1, 1, 0, 255)))
    writing = threading.Thread(target=spool.append, args=[[b"two"]])
    writing.start()
    eventually(lambda: "its disk has no room" in caplog.text)
    monkeypatch.setattr(os, "statvfs", lambda _path: has_room)
    writing.join(10)
    assert rest(spool) == [b"one", b"two"]
    spool.close()


def test_a_disk_error_is_recovered_from(tmp_path: Path, monkeypatch: MonkeyPatch) -> None:
    """After a failed fsync the spool is opened again, and what is there is sent."""
    errors = [OSError(errno.EIO, "Input/output error")]

    def fsync(fd: int) -> None:
        if len(errors) == 1 and is_armed:
            raise errors.pop()
        os.fsync(fd)

    is_armed = False
    spool = open_spool(tmp_path / "spool", disk=DiskWith(fsync=fsync))
    spool.append([b"one"])
    is_armed = True
    assert rest(spool) == [b"one"]
    spool.append([b"two"])
    assert rest(spool) == [b"two"]
    assert not errors
    spool.close()


def test_what_is_corrupt_is_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The rest of its segment is lost, which is told and counted; the next ones are read."""
    spool = open_spool(tmp_path / "spool")
    for number in range(5):
        spool.append([b"%d" % number * 100_000])
    rest(spool)
    spool.close()
    first, second, *_ = sorted((tmp_path / "spool").glob("*.kafka"))
    data = bytearray(first.read_bytes())
    data[-1] ^= 1
    first.write_bytes(data)
    counts = CollectCounts()
    again = open_spool(tmp_path / "spool", counts=counts)
    assert [line[:1] for line in rest(again)] == [b"0", b"2", b"3", b"4"]
    assert counts.bytes_lost == 100_010
    assert f"is corrupt after offset {int(second.stem) - 100_010}" in caplog.text
    again.close()


def test_who_stops_need_not_wait(tmp_path: Path) -> None:
    """What was read already is kept beyond the bound."""
    counts = CollectCounts()
    spool = open_spool(tmp_path / "spool", counts=counts)
    spool.append([b"x" * (MIN_SPOOL_BYTES - 100)])
    writing = threading.Thread(target=spool.append, args=[[b"y" * 1000]])
    writing.start()
    eventually(lambda: is_waiting(writing))
    spool.interrupt()
    writing.join(10)
    assert rest(spool)[-1] == b"y" * 1000
    assert counts.lines_dropped == 0
    spool.close()


def test_nothing_is_left_when_all_is_confirmed(tmp_path: Path) -> None:
    """A spool that ends without anything waiting takes no room."""
    spool = open_spool(tmp_path / "spool")
    spool.append([b"x" * 10_000])
    found = spool.read()
    assert found is not None
    spool.confirm(found[1])
    spool.interrupt()
    spool.trim()
    spool.close()
    assert [path.stat().st_size for path in (tmp_path / "spool").iterdir()] == [0]
