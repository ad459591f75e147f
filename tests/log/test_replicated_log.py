"""What a replicated log does that the model does not show: readers at work, counters, what is kept, and older logs."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Any

import pytest

from kafka2011.errors import LogError
from kafka2011.log.log import LogFailedError, Place
from kafka2011.log.log_manager import LogManager
from kafka2011.log.log_settings import LogSettings
from kafka2011.log.replicated_log import ReplicatedLog
from kafka2011.log.segment import segment_path
from kafka2011.message.message_set import decode, encode
from tests.support.bytes_of_07 import SEGMENTS
from tests.support.clocks import ManualClock
from tests.support.disks import DiskWith
from tests.support.files import no_more_files
from tests.support.logs import new_log, new_log_manager

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from kafka2011.log.log import Log

MESSAGE = encode(b"x" * 90)
"""100 bytes."""


@pytest.fixture
def make_log(tmp_path: Path) -> Iterator[Callable[..., ReplicatedLog]]:
    made: list[ReplicatedLog] = []

    def make(
        on_flushed: Callable[[Log], None] = lambda _log: None, clock: ManualClock | None = None, **options: Any
    ) -> ReplicatedLog:
        settings = LogSettings(flush_interval=1_000_000)
        clock = clock or ManualClock()
        log = new_log(tmp_path / "t-0", settings, clock=clock, on_flushed=on_flushed, **options)
        copy = ReplicatedLog(log, clock)
        made.append(copy)
        return copy

    yield make
    for copy in made:
        copy.log.close()


def fill(copy: ReplicatedLog, segments: int = 3) -> None:
    """Append a message to each of so many segments, as a follower."""
    for number in range(segments):
        copy.append_at(Place(number * 100, number * 100), MESSAGE, 1)


def test_a_flush_is_told_with_its_end_and_lets_nobody_read(make_log: Callable[..., ReplicatedLog]) -> None:
    flushed: list[int] = []
    readable: list[int] = []
    copy = make_log(
        lambda log: flushed.append(log.flushed_end_offset), on_readable=lambda log: readable.append(log.end_offset)
    )
    copy.log.append(MESSAGE, 1)
    copy.log.flush()
    assert (flushed, readable) == ([100], [])
    assert (copy.log.flushed_end_offset, copy.log.end_offset, copy.log.read(0, 1000).size) == (100, 0, 0)
    copy.log.let_read(100)
    copy.log.let_read(50)
    assert readable == [100]
    assert copy.log.end_offset == 100


def test_counters_go_on_after_a_cut(make_log: Callable[..., ReplicatedLog]) -> None:
    copy = make_log()
    fill(copy)
    assert (copy.log.appended_bytes, copy.log.appended_messages, copy.log.unflushed_messages) == (300, 3, 1)
    copy.cut(100)
    assert (copy.log.appended_bytes, copy.log.appended_messages, copy.log.unflushed_messages) == (300, 3, 0)
    copy.append_at(Place(100, 0), MESSAGE, 1)
    assert (copy.log.appended_bytes, copy.log.appended_messages, copy.log.unflushed_messages) == (400, 4, 1)
    copy.begin_at(5000)
    assert (copy.log.appended_bytes, copy.log.appended_messages, copy.log.unflushed_messages) == (400, 4, 0)


def test_what_is_cut_is_kept_by_segments(make_log: Callable[..., ReplicatedLog]) -> None:
    copy = make_log()
    fill(copy)
    copy.append_at(Place(300, 200), encode(b"y"), 1)
    copy.cut(200)
    copy.append_at(Place(200, 100), encode(b"z" * 100), 1)
    copy.cut(200)
    kept = {path.name: path.read_bytes() for path in copy.log.directory.glob("*.cut")}
    assert kept == {
        "00000000000000000200.cut": MESSAGE + encode(b"y"),
        "00000000000000000200.2.cut": encode(b"z" * 100),
    }
    assert copy.log.segment_offsets == (0, 100)


def test_a_cut_waits_for_readers_of_what_goes_and_can_be_tried_again(make_log: Callable[..., ReplicatedLog]) -> None:
    copy = make_log()
    fill(copy)
    _, waiting = copy.read_appended(200, 100)
    waiting.park()
    with pytest.raises(LogError, match=r"cannot cut t-0 at offset 100 for now, in .*/t-0: it waits to be sent"):
        copy.cut(100)
    waiting.release()
    _, reading = copy.read_appended(100, 100)
    with reading, pytest.raises(LogError, match=r"cannot cut t-0 at offset 100 for now, in .*/t-0: it is being read"):
        copy.cut(100)
    assert copy.log.appended_end_offset == 300
    copy.cut(100)
    assert (copy.log.appended_end_offset, copy.log.failure) == (100, None)
    copy.append_at(Place(100, 0), MESSAGE, 1)


def test_without_a_free_descriptor_nothing_changes(make_log: Callable[..., ReplicatedLog]) -> None:
    copy = make_log()
    fill(copy)
    with no_more_files():
        for change, offset in ((copy.cut, 200), (copy.begin_at, 700)):
            with pytest.raises(LogError, match=rf"t-0 at offset {offset} for now, in .*ulimit"):
                change(offset)
        with pytest.raises(LogError, match="ulimit"):
            copy.cut(150)
        with pytest.raises(LogError, match=r"cannot roll t-0 at offset 300 for now, in"):
            copy.append_at(Place(300, 300), MESSAGE, 1)
    assert (copy.log.segment_offsets, copy.log.appended_end_offset, copy.log.waits_for_files) == ((0, 100, 200), 300, 3)
    copy.append_at(Place(300, 300), MESSAGE, 1)


def test_an_error_in_a_cut_ends_the_log(make_log: Callable[..., ReplicatedLog]) -> None:
    def fail(_path: Path) -> None:
        raise OSError(5, "Input/output error")

    disk = DiskWith()
    copy = make_log(disk=disk)
    fill(copy)
    disk.replace(unlink=fail)
    with pytest.raises(LogFailedError, match="could not cut"):
        copy.cut(100)
    with pytest.raises(LogFailedError, match="t-0 takes no more since"):
        copy.log.append(MESSAGE, 1)


def test_who_is_stopped_in_a_cut_leaves_a_log_that_has_to_recover(make_log: Callable[..., ReplicatedLog]) -> None:
    def stop(_path: Path) -> None:
        raise KeyboardInterrupt

    disk = DiskWith()
    copy = make_log(disk=disk)
    fill(copy)
    disk.replace(unlink=stop)
    with pytest.raises(KeyboardInterrupt):
        copy.cut(100)
    assert copy.log.failure is not None


@pytest.mark.parametrize("offset", [-1, 301])
def test_a_cut_outside_names_the_log_and_the_offset(make_log: Callable[..., ReplicatedLog], offset: int) -> None:
    copy = make_log()
    fill(copy)
    with pytest.raises(LogError, match=rf"t-0 cannot be cut at offset {offset}: it has 0 to 300"):
        copy.cut(offset)
    with pytest.raises(LogError, match="t-0 cannot begin at offset -5"):
        copy.begin_at(-5)


def test_rot_is_where_the_message_that_has_it_starts(make_log: Callable[..., ReplicatedLog]) -> None:
    """So that what comes after it is cut, as nothing there can be told from rot."""
    copy = make_log()
    copy.log.append(MESSAGE * 5, 5)
    copy.log.flush()
    path = segment_path(copy.log.directory, 0)
    damaged = bytearray(path.read_bytes())
    damaged[250] ^= 1
    path.write_bytes(damaged)
    assert [copy.message_start(offset) for offset in (199, 250, 299, 300, 499, 500)] == [100, 200, 200, 200, 200, 500]
    copy.cut(200)
    assert copy.log.appended_end_offset == 200


def test_segments_that_cannot_be_read_yet_are_no_offsets_before_a_time(make_log: Callable[..., ReplicatedLog]) -> None:
    copy = make_log()
    fill(copy)
    copy.log.flush()
    assert copy.log.offsets_before(-1, 10) == [0]
    copy.log.let_read(150)
    assert copy.log.offsets_before(-1, 10) == [150, 100, 0]
    assert copy.log.offsets_before(-2, 10) == [0]


# Directories of 0.7.2, and of replicas


def test_a_copy_is_as_old_as_what_it_is_a_copy_of(make_log: Callable[..., ReplicatedLog]) -> None:
    """If that is long ago; what has just been written keeps the time of this disk."""
    now_ms = 3_600_000.0
    copy = make_log(clock=ManualClock(wall_lead_s=now_ms / 1000))
    fill(copy, 1)
    written_ms = copy.modified_ms(0)
    for modified_ms in (0, int(now_ms) - 1000):
        copy.note_modified(modified_ms)
        assert copy.modified_ms(0) == written_ms
    copy.note_modified(60_000)
    assert copy.modified_ms(0) == 60_000
    copy.append_at(Place(100, 100), MESSAGE, 1)
    assert copy.modified_ms(0) == copy.modified_ms(99) == 60_000 != copy.modified_ms(100)


def write_dir_of_07(log_dir: Path) -> None:
    for name in ("cap-0", "capgz-0", "capsn-0"):
        (log_dir / name).mkdir(parents=True)
        segment_path(log_dir / name, 0).write_bytes(SEGMENTS[name])
    (log_dir / ".kafka_cleanshutdown").touch()


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_replica_starts_from_a_directory_that_0_7_2_wrote(tmp_path: Path, is_clean: bool) -> None:
    """All of it is on disk, a digest is that of any other copy, and it can be cut and go on."""
    write_dir_of_07(tmp_path)
    if not is_clean:
        (tmp_path / ".kafka_cleanshutdown").unlink()
    copy_dir = tmp_path / "copy"
    with (
        new_log_manager(tmp_path, on_flushed=lambda _log: None, is_others=lambda name: name == "copy") as manager,
        new_log_manager(copy_dir, on_flushed=lambda _log: None) as follower,
    ):
        for copy in replicated(manager.logs()):
            data = SEGMENTS[f"{copy.log.topic}-0"]
            assert (copy.log.start_offset, copy.log.flushed_end_offset, copy.log.end_offset) == (0, len(data), 0)
            [other] = replicated([follower.get_or_create(copy.log.topic, 0)])
            other.append_at(Place(0, 0), data, 1)
            assert copy.digest(0, len(data)) == other.digest(0, len(data))
            second = copy.message_start(len(data) - 1)
            copy.cut(second)
            copy.append_at(Place(second, second), data, 1)
            copy.log.flush()
            copy.log.let_read(copy.log.flushed_end_offset)
            [_, last] = copy.log.segment_offsets if second else [0, 0]
            with copy.log.read(last, 1000) as piece:
                found = os.pread(piece.fd, piece.size, piece.position)
            payloads = [message.payload for message in decode(found, "t", None, 0, 0)]
            assert payloads == [b"hello", b"kafka 0.7"]


@pytest.mark.parametrize("is_known", [True, False])
def test_the_file_of_a_replica_is_none_of_a_log_s_business(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, is_known: bool
) -> None:
    """Who knows nothing of replicas opens the directory as before, and says what it has skipped, as 0.7.2 does."""
    write_dir_of_07(tmp_path)
    text = b'{"replica": "a:9c2e", "epoch": 3, "readable": []}'
    (tmp_path / "replica").write_bytes(text)
    with (
        caplog.at_level(logging.WARNING),
        LogManager(tmp_path, is_others=lambda name: is_known and name == "replica") as manager,
    ):
        assert {f"{log.topic}-0": log.end_offset for log in manager.logs()} == {
            name: len(data) for name, data in SEGMENTS.items() if name in {"cap-0", "capgz-0", "capsn-0"}
        }
        assert not any(log.has_copies for log in manager.logs())
    assert (tmp_path / "replica").read_bytes() == text
    assert ("replica: not a log directory" in caplog.text) is not is_known


def replicated(logs: list[Log]) -> list[ReplicatedLog]:
    return [ReplicatedLog(log, ManualClock()) for log in logs]
