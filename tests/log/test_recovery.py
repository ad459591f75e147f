"""Recovery of a log's last segment after an unclean stop."""

from __future__ import annotations

import errno
import logging
import os
from pathlib import Path
from typing import Any

import pytest

from kafka2011.errors import LogError
from kafka2011.log import recovery as recovery_module
from kafka2011.log.recovery import Recovery, recover_last_segment
from kafka2011.log.segment import segment_path
from kafka2011.message.compression import Codec
from kafka2011.message.message_set import MessageSet, encode
from tests.support.disks import DiskWith

pytestmark = pytest.mark.usefixtures("each_code")

START = 5000
MESSAGES = [encode(b"hello"), encode(b""), encode(b"kafka 0.7"), encode(b"old", magic=0), encode(b"last one")]
WHOLE = b"".join(MESSAGES)


def recover(directory: Path, data: bytes, start: int = START) -> Recovery:
    segment_path(directory, start).write_bytes(data)
    found = recover_last_segment(directory)
    assert found is not None
    return found


def file_name(fd: int) -> str:
    return str(Path(f"/proc/self/fd/{fd}").readlink())


def remains(directory: Path, start: int = START) -> bytes:
    return segment_path(directory, start).read_bytes()


def cut_files(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.glob("*.cut")}


def test_a_good_segment_is_left_alone(tmp_path: Path) -> None:
    found = recover(tmp_path, WHOLE)
    assert (found.size_bytes, found.valid_bytes, found.messages) == (len(WHOLE), len(WHOLE), 5)
    assert (found.fault, found.cut_bytes, found.cut_path, found.is_corruption) == (None, 0, None, False)
    assert remains(tmp_path) == WHOLE
    assert cut_files(tmp_path) == {}


@pytest.mark.parametrize("messages", [2, 30, 1000, 5000])
@pytest.mark.parametrize("torn_bytes", [0, 1, 700])
def test_a_good_segment_of_any_size_keeps_all_its_messages(tmp_path: Path, messages: int, torn_bytes: int) -> None:
    """From two kilobytes to more than is in memory at a time; of a torn last message, all before it."""
    message = encode(bytes(1000))
    whole = message * messages
    found = recover(tmp_path, whole + message[:torn_bytes])
    assert (found.valid_bytes, found.messages, found.cut_bytes) == (len(whole), messages, torn_bytes)
    assert remains(tmp_path) == whole


def test_an_empty_segment_and_a_log_without_segments_are_fine(tmp_path: Path) -> None:
    assert recover_last_segment(tmp_path) is None
    assert recover(tmp_path, b"").messages == 0


@pytest.mark.parametrize("missing", range(1, len(MESSAGES[-1])))
def test_a_torn_tail_is_cut_and_kept(tmp_path: Path, missing: int, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever part of the last message is missing, the log ends behind the one before it."""
    torn = WHOLE[:-missing]
    good = len(WHOLE) - len(MESSAGES[-1])
    found = recover(tmp_path, torn)
    assert (found.valid_bytes, found.messages, found.cut_offset) == (good, 4, START + good)
    assert remains(tmp_path) == WHOLE[:good]
    assert cut_files(tmp_path) == {f"{START + good:020d}.cut": torn[good:]}
    assert found.cut_path is not None
    assert not found.cut_path.stat().st_mode & 0o111, "nobody may run it"
    assert not found.is_corruption
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


@pytest.mark.parametrize("position", range(len(MESSAGES[0])))
def test_a_flipped_bit_cuts_there_and_counts_as_corruption(
    tmp_path: Path, position: int, caplog: pytest.LogCaptureFixture
) -> None:
    """The message with a flipped bit and all behind it go; what is good among it is counted."""
    damaged = bytearray(WHOLE * 2)
    at = len(WHOLE) + position
    damaged[at] ^= 0x40
    found = recover(tmp_path, bytes(damaged))
    if position == 5:  # the attributes are not covered by the CRC, and bit 6 means nothing
        assert found.fault is None
        return
    assert found.valid_bytes == len(WHOLE)
    assert cut_files(tmp_path) == {f"{START + len(WHOLE):020d}.cut": bytes(damaged[len(WHOLE) :])}
    assert found.survivors is not None
    assert found.is_corruption
    # An empty message alone is not looked for, but what follows it is.
    start = len(WHOLE) + len(MESSAGES[0]) + len(MESSAGES[1])
    assert found.survivors.first_offset == START + start
    assert (found.survivors.messages, found.survivors.size_bytes) == (3, 2 * len(WHOLE) - start)
    assert found.survivors.complete
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert str(segment_path(tmp_path, START)) in caplog.text
    assert str(START + len(WHOLE)) in caplog.text


def test_the_count_of_good_messages_goes_on_behind_a_second_bad_one(tmp_path: Path) -> None:
    bad = bytearray(encode(b"damaged"))
    bad[-1] ^= 1
    found = recover(tmp_path, WHOLE + bytes(bad) + MESSAGES[0] + bytes(bad) + MESSAGES[2] * 2)
    assert found.survivors is not None
    assert found.survivors.messages == 3
    assert found.survivors.size_bytes == len(MESSAGES[0]) + 2 * len(MESSAGES[2])


@pytest.mark.parametrize(
    "junk", [b"\0" * 100, b"\0" * 3, b"\xff" * 50, b"\0\0\0\5\0\0\0\0\0"[:8], b"\x7f\xff\xff\xff" * 9]
)
def test_junk_behind_the_last_message_is_a_torn_tail(tmp_path: Path, junk: bytes) -> None:
    """Zeros, such as a power cut leaves, are no messages, and no good message lies among them."""
    found = recover(tmp_path, WHOLE + junk)
    assert found.valid_bytes == len(WHOLE)
    assert not found.is_corruption
    assert list(cut_files(tmp_path).values()) == [junk]


def test_an_unknown_magic_cuts(tmp_path: Path) -> None:
    strange = bytearray(MESSAGES[0])
    strange[4] = 2
    found = recover(tmp_path, MESSAGES[2] + bytes(strange))
    assert found.valid_bytes == len(MESSAGES[2])
    assert found.fault == "magic 2"


def test_compressed_payloads_stay_closed(tmp_path: Path) -> None:
    """A wrapper whose payload does not open is good as long as its CRC is right."""
    data = bytes(MessageSet([b"a", b"b"], Codec.GZIP)) + encode(b"no gzip at all", Codec.GZIP)
    found = recover(tmp_path, data)
    assert (found.messages, found.cut_bytes) == (2, 0)


def test_only_the_last_segment_is_looked_at(tmp_path: Path) -> None:
    segment_path(tmp_path, 0).write_bytes(b"x" * START)
    found = recover(tmp_path, WHOLE[:-1])
    assert found.start_offset == START
    assert segment_path(tmp_path, 0).read_bytes() == b"x" * START


def test_an_earlier_cut_is_never_written_over(tmp_path: Path) -> None:
    for junk in (b"one", b"two", b"three"):
        recover(tmp_path, WHOLE + junk)
    name = f"{START + len(WHOLE):020d}"
    assert cut_files(tmp_path) == {f"{name}.cut": b"one", f"{name}.2.cut": b"two", f"{name}.3.cut": b"three"}


@pytest.mark.parametrize("chunk_bytes", [16, 19, 20, 64, 256])
@pytest.mark.parametrize("magic", [0, 1])
def test_messages_larger_than_a_chunk_are_checked_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk_bytes: int, magic: int
) -> None:
    """What is found does not depend on how the file is read."""
    monkeypatch.setattr(recovery_module, "CHUNK_BYTES", chunk_bytes)
    large = encode(bytes(range(256)), magic=magic)
    data = large + WHOLE + large + MESSAGES[0]
    found = recover(tmp_path, data)
    assert (found.messages, found.cut_bytes) == (8, 0)
    damaged = bytearray(data)
    damaged[len(large) + len(WHOLE) + 200] ^= 1
    found = recover(tmp_path, bytes(damaged))
    assert (found.messages, found.valid_bytes) == (6, len(large) + len(WHOLE))
    assert found.is_corruption
    found = recover(tmp_path, data + large[:-1])
    assert (found.messages, found.valid_bytes, found.is_corruption) == (8, len(data), False)


@pytest.mark.parametrize("missing", [0, 1])
def test_a_large_message_may_end_with_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: int) -> None:
    """It is cut only if a byte of it is missing."""
    monkeypatch.setattr(recovery_module, "CHUNK_BYTES", 64)
    large = encode(bytes(range(256)))
    found = recover(tmp_path, WHOLE + large[: len(large) - missing])
    assert found.valid_bytes == len(WHOLE) + (0 if missing else len(large))


def test_the_search_begins_right_behind_the_start_of_the_bad_message(tmp_path: Path) -> None:
    """Nothing of the good message before it counts."""
    found = recover(tmp_path, WHOLE + b"\xff" + MESSAGES[2])
    assert found.survivors is not None
    assert (found.survivors.messages, found.survivors.first_offset) == (1, START + len(WHOLE) + 1)
    inside = encode(b"ends with a zero\0")
    found = recover(tmp_path, inside + MESSAGES[2][1:])
    assert (found.valid_bytes, found.is_corruption) == (len(inside), False)


@pytest.mark.parametrize("call", ["pread", "sendfile"])
def test_a_file_that_becomes_shorter_meanwhile_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """Rather than a loop without end."""
    monkeypatch.setattr(recovery_module, "CHUNK_BYTES", 64)
    real = getattr(os, call)
    calls: list[None] = []

    def shorter(*arguments: Any) -> Any:
        calls.append(None)
        assert len(calls) < 10, "it goes on and on"
        return real(*arguments) if call == "pread" and len(calls) == 1 else real(*arguments) * 0

    monkeypatch.setattr(os, call, shorter)
    with pytest.raises(LogError, match="became shorter"):
        recover(tmp_path, encode(b"x" * 1000) + b"torn")


@pytest.mark.parametrize("filler", range(40))
def test_good_messages_are_found_across_the_seams_of_the_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, filler: int
) -> None:
    monkeypatch.setattr(recovery_module, "SEARCH_CHUNK_BYTES", 32)
    junk = b"\xff" * (60 + filler)
    found = recover(tmp_path, WHOLE + junk + MESSAGES[2])
    assert found.survivors is not None
    assert found.survivors.first_offset == START + len(WHOLE) + len(junk)


def test_the_search_for_good_messages_ends_when_its_allowance_is_used_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(recovery_module, "SEARCH_CHUNK_BYTES", 100)
    monkeypatch.setattr(recovery_module, "MAX_SEARCHED_BYTES", 1000)
    found = recover(tmp_path, WHOLE + b"\xff" * 2000 + MESSAGES[2])
    assert found.survivors is not None
    assert (found.survivors.messages, found.survivors.complete) == (0, False)
    assert "ended early" in caplog.text
    monkeypatch.setattr(recovery_module, "MAX_SEARCHED_BYTES", 10_000)
    monkeypatch.setattr(recovery_module, "MAX_CANDIDATES", 10)
    decoys = b"\0\0\0\x08\1\0 not a message".ljust(20) * 20
    found = recover(tmp_path, WHOLE + b"\xff" + decoys + MESSAGES[2])
    assert found.survivors is not None
    assert (found.survivors.messages, found.survivors.complete) == (0, False)


def test_the_allowance_is_for_places_that_may_be_messages_and_for_all_that_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A length that reaches beyond the file is told at once, and costs nothing."""

    def is_complete(decoy: bytes, count: int, max_candidates: int, max_bytes: int) -> bool:
        monkeypatch.setattr(recovery_module, "MAX_CANDIDATES", max_candidates)
        monkeypatch.setattr(recovery_module, "MAX_SEARCHED_BYTES", max_bytes)
        found = recover(tmp_path, WHOLE + b"\xff" + decoy * count + MESSAGES[2])
        assert found.survivors is not None
        assert found.survivors.messages == found.survivors.complete
        return found.survivors.complete

    far = b"\0\x1f\xff\xff\1\0".ljust(20, b"\xff")
    assert is_complete(far, 20, 5, 10_000)
    near = b"\0\0\0\x08\1\0".ljust(20, b"\xff")
    assert is_complete(near, 20, 30, 10_000)
    long = b"\0\0\1\0\1\0".ljust(300, b"\xff")  # 260 bytes are read of each
    assert is_complete(long, 20, 100, 13_000)
    assert not is_complete(long, 20, 100, 9_000)


def test_progress_adds_up_to_the_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery_module, "CHUNK_BYTES", 64)
    for tail in (b"", b"\0" * 17, encode(b"x" * 100)):
        steps: list[int] = []
        segment_path(tmp_path, START).write_bytes(WHOLE + tail)
        recover_last_segment(tmp_path, progress=steps.append)
        assert sum(steps) == len(WHOLE + tail)
        assert len(steps) > 1


def test_the_cut_is_on_disk_before_the_segment_is_shortened(tmp_path: Path) -> None:
    """A power cut in the middle of recovery loses nothing."""
    path = segment_path(tmp_path, START)
    path.write_bytes(WHOLE + b"tail")
    synced: list[tuple[str, int]] = []

    def fsync(fd: int) -> None:
        target = file_name(fd)
        synced.append((target, path.stat().st_size))
        os.fsync(fd)

    found = recover_last_segment(tmp_path, DiskWith(fsync=fsync))
    assert found is not None
    whole, good = len(WHOLE) + 4, len(WHOLE)
    assert synced[-3:] == [(str(found.cut_path), whole), (str(tmp_path), whole), (str(path), good)]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("call", ["open", "sendfile"])
def test_a_full_disk_drops_the_copy_of_what_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, number: int, call: str
) -> None:
    """Else a broker that filled its disk could never start again, and each try would leave one more empty file."""
    real = getattr(os, call)

    def full(*arguments: Any) -> Any:
        if call == "open" and not arguments[1] & os.O_CREAT:
            return real(*arguments)
        raise OSError(number, os.strerror(number))

    torn = WHOLE[:-3]
    good = len(WHOLE) - len(MESSAGES[-1])
    segment_path(tmp_path, START).write_bytes(torn)
    with monkeypatch.context() as patch:
        patch.setattr(os, call, full)
        found = recover_last_segment(tmp_path)
    assert found is not None
    assert (found.valid_bytes, found.cut_path) == (good, None)
    assert remains(tmp_path) == WHOLE[:good]
    assert cut_files(tmp_path) == {}
    assert "dropped, since the disk has no room" in caplog.text


def test_any_other_error_leaves_the_segment_and_no_half_of_a_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_arguments: object) -> int:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "sendfile", broken)
    segment_path(tmp_path, START).write_bytes(WHOLE + b"torn")
    with pytest.raises(LogError, match="Input/output error"):
        recover_last_segment(tmp_path)
    assert remains(tmp_path) == WHOLE + b"torn"
    assert cut_files(tmp_path) == {}


def test_what_remains_is_on_disk(tmp_path: Path) -> None:
    """After a kill bytes and names are in the page cache only, but they are about to be readable."""
    path = segment_path(tmp_path, START)
    path.write_bytes(WHOLE)
    synced: list[str] = []
    recover_last_segment(tmp_path, DiskWith(fsync=lambda fd: synced.append(file_name(fd))))
    assert sorted(synced) == [str(tmp_path), str(path)]


@pytest.mark.parametrize("is_covered", [True, False])
def test_what_was_synced_with_all_others_is_not_synced_again(tmp_path: Path, *, is_covered: bool) -> None:
    """Unless it lies elsewhere; what recovery itself changes always is."""
    path = segment_path(tmp_path, START)
    path.write_bytes(WHOLE + b"tail")
    synced: list[str] = []
    disk = DiskWith(fsync=lambda fd: synced.append(file_name(fd)), covers=lambda _fd: is_covered)
    recover_last_segment(tmp_path, disk, is_synced=True)
    before = [] if is_covered else [str(tmp_path), str(path)]
    [cut] = cut_files(tmp_path)
    assert [Path(each).name for each in synced] == [
        *(Path(each).name for each in before),
        *(cut, tmp_path.name, path.name),
    ]


def test_a_page_cache_that_looks_clean_is_not_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After an fsync that failed it may hold pages that never reached the disk, marked as if they had."""
    on_disk = WHOLE[:-3] + b"\0\0\0"
    segment_path(tmp_path, START).write_bytes(on_disk)
    pread = os.pread
    believed: list[str] = ["cached"]

    def fadvise(fd: int, offset: int, size: int, advice: int) -> None:
        if (offset, size, advice) == (0, 0, os.POSIX_FADV_DONTNEED) and "synced" in believed:
            believed.remove("cached")

    def cached_pread(fd: int, size: int, position: int) -> bytes:
        return WHOLE[position : position + size] if "cached" in believed else pread(fd, size, position)

    monkeypatch.setattr(os, "posix_fadvise", fadvise)
    monkeypatch.setattr(os, "pread", cached_pread)
    # Only clean pages can be dropped, so what is dirty must be written first.
    found = recover_last_segment(tmp_path, DiskWith(fsync=lambda fd: believed.append("synced")))
    assert found is not None
    assert found.valid_bytes == len(WHOLE) - len(MESSAGES[-1])


def test_an_error_names_the_path(tmp_path: Path) -> None:
    path = segment_path(tmp_path, START)
    path.write_bytes(WHOLE)

    def fsync(fd: int) -> None:
        raise OSError(5, "Input/output error")

    with pytest.raises(LogError, match=str(path)):
        recover_last_segment(tmp_path, DiskWith(fsync=fsync))
    with pytest.raises(LogError, match="absent"):
        recover_last_segment(tmp_path / "absent")
