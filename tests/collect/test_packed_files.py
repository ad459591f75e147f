"""Compressed files and files in other encodings, named or found: read as text, and what was read is not read again."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import shutil
from typing import TYPE_CHECKING

import cramjam
import pytest

from kafka2011.collect import content as content_module
from kafka2011.collect.content import OpenFiles, PackedFile, PlainFile, fingerprint
from kafka2011.collect.lines import Nul
from kafka2011.collect.placed import PlacedLine
from kafka2011.collect.positions import CountedBytes, FileKey
from kafka2011.collect.watched_files import COMPRESSING_S
from tests.support.watched_reader import Reader, rotate, write

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PACK: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": lambda data: bytes(cramjam.zstd.compress(data)),
    "lz4": lambda data: bytes(cramjam.lz4.compress(data)),
}
packed = pytest.mark.parametrize("suffix", PACK)


def compress(path: Path, suffix: str = "gz", *, keep: bool = False) -> Path:
    """Compress a file as gzip does: the new one has its time, and it is removed unless it is kept."""
    status = path.stat()
    target = path.with_name(f"{path.name}.{suffix}")
    target.write_bytes(PACK[suffix](path.read_bytes()))
    os.utime(target, ns=(status.st_mtime_ns, status.st_mtime_ns // 10**9 * 10**9))
    if not keep:
        path.unlink()
    return target


def age(path: Path, seconds: int) -> None:
    """Have a file be some seconds older than it is."""
    status = path.stat()
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns - seconds * 10**9))


def run(directory: Path, *names: str, follow: bool = False) -> list[bytes]:
    """Read files as a new collector does, and return the lines; nothing may be lost or fail."""
    reader = Reader(directory, *names, follow=follow)
    lines = [line for _ in range(3) for line in reader.read()]
    reader.positions.save()
    assert reader.counts.all_is_well, reader.counts
    reader.close()
    return lines


def names_in(directory: Path) -> list[str]:
    """Return what a shell makes of a.log*."""
    return sorted(path.name for path in directory.iterdir() if path.name.startswith("a.log"))


@packed
@pytest.mark.parametrize("name", ["a.log.2.{}", "without a suffix"])
@pytest.mark.parametrize("follow", [False, True])
def test_a_compressed_file_is_read_by_its_content_and_once(
    tmp_path: Path, suffix: str, name: str, follow: bool
) -> None:
    path = tmp_path / name.format(suffix)
    path.write_bytes(PACK[suffix](b"one\ntwo\nthree"))
    assert run(tmp_path, path.name, follow=follow) == [b"one", b"two", b"three"]
    assert run(tmp_path, path.name, follow=follow) == []
    state = json.loads((tmp_path / "state" / "positions.json").read_text())
    assert [(file["counted"], file["position"]) for file in state["files"]] == [("unpacked", 13)]


@packed
@pytest.mark.parametrize("follow", [False, True])
@pytest.mark.parametrize("is_reversed", [False, True])
def test_rotated_files_that_a_shell_names_are_read_once_whatever_they_become(
    tmp_path: Path, suffix: str, follow: bool, is_reversed: bool
) -> None:
    """Between runs each file is renamed, one is compressed, and a new one begins."""
    write(tmp_path / "a.log.2", "oldest\n")
    age(tmp_path / "a.log.2", 200)
    compress(tmp_path / "a.log.2", suffix)
    write(tmp_path / "a.log.1", "older\n")
    age(tmp_path / "a.log.1", 100)
    write(tmp_path / "a.log", "new\n")
    seen = run(tmp_path, *sorted(names_in(tmp_path), reverse=is_reversed), follow=follow)
    assert sorted(seen) == [b"new", b"older", b"oldest"]
    for number in range(4):
        for generation in range(number + 2, 1, -1):
            former = tmp_path / f"a.log.{generation}.{suffix}"
            former.rename(tmp_path / f"a.log.{generation + 1}.{suffix}")
        (tmp_path / "a.log.1").rename(tmp_path / "a.log.2")
        compress(tmp_path / "a.log.2", suffix)
        write(tmp_path / "a.log", f"late {number}\n")
        rotate(tmp_path / "a.log", generations=0)
        write(tmp_path / "a.log", f"new {number}\n")
        seen = run(tmp_path, *sorted(names_in(tmp_path), reverse=is_reversed), follow=follow)
        assert sorted(seen) == [b"late %d" % number, b"new %d" % number]


@packed
def test_a_file_that_was_half_read_is_read_on_after_it_was_compressed(tmp_path: Path, suffix: str) -> None:
    write(tmp_path / "a.log.1", "one\n")
    assert run(tmp_path, "a.log.1") == [b"one"]
    write(tmp_path / "a.log.1", "two\n")
    (tmp_path / "a.log.1").rename(tmp_path / "a.log.2")
    compress(tmp_path / "a.log.2", suffix)
    assert run(tmp_path, f"a.log.2.{suffix}") == [b"two"]
    assert run(tmp_path, f"a.log.2.{suffix}") == []


def test_a_copy_is_not_read_again(tmp_path: Path) -> None:
    """A copy has the time of its source, or its name; a file that only has the same content is another one."""
    write(tmp_path / "a.log", "one\n")
    assert run(tmp_path, "a.log") == [b"one"]
    compress(tmp_path / "a.log", keep=True)
    shutil.copy2(tmp_path / "a.log", tmp_path / "a-2.log")
    write(tmp_path / "a-3.log", "one\n")
    age(tmp_path / "a-3.log", -100)
    assert run(tmp_path, "a.log", "a.log.gz", "a-2.log", "a-3.log") == [b"one"]
    assert run(tmp_path, "a.log", "a.log.gz", "a-2.log", "a-3.log") == []
    write(tmp_path / "a-2.log", "two\n")
    assert run(tmp_path, "a.log", "a.log.gz", "a-2.log", "a-3.log") == [b"two"]


@pytest.mark.parametrize("follow", [False, True])
def test_a_file_and_its_compressed_copy_are_read_once_at_the_first_run_too(tmp_path: Path, follow: bool) -> None:
    write(tmp_path / "a.log.1", "one\n")
    compress(tmp_path / "a.log.1", keep=True)
    assert run(tmp_path, "a.log.1", "a.log.1.gz", follow=follow) == [b"one"]


def test_a_file_that_is_being_compressed_is_read_from_its_source(tmp_path: Path) -> None:
    write(tmp_path / "a.log.1", "one\n" * 1000)
    unfinished = compress(tmp_path / "a.log.1", keep=True)
    unfinished.write_bytes(unfinished.read_bytes()[:-9])
    assert run(tmp_path, "a.log.1", "a.log.1.gz") == [b"one"] * 1000


def test_a_compressed_file_that_is_cut_is_an_error_and_others_go_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "cut.gz").write_bytes(gzip.compress(b"one\n" * 1000)[:-9])
    (tmp_path / "old.Z").write_bytes(b"\x1f\x9d\x90abc")
    write(tmp_path / "good", "good\n")
    reader = Reader(tmp_path, "cut.gz", "old.Z", "good", follow=False)
    assert reader.read() == [b"good"]
    assert reader.counts.failed_reads == 2
    assert f"cannot read {tmp_path}/cut.gz: it cannot be unpacked: Compressed file ended" in caplog.text
    assert f"cannot read {tmp_path}/old.Z: nothing here reads files that are compressed with compress" in caplog.text
    assert reader.files.are_done
    reader.close()


def test_a_followed_file_may_be_compressed_slowly(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It is read once it is whole, and an error only if it stays as it is."""
    path = tmp_path / "a.log.1.gz"
    whole = gzip.compress(b"one\n" * 1000)
    reader = Reader(tmp_path, path.name)
    for part in (whole[:0], whole[:30], whole[:-1]):
        path.write_bytes(part)
        os.utime(path, (reader.clock.wall_s(), reader.clock.wall_s() - len(part) / 100))
        assert reader.read() == []
    assert reader.counts.all_is_well
    reader.clock.now_s += COMPRESSING_S + 1
    assert reader.read() == []
    assert f"cannot read {path}: it cannot be unpacked" in caplog.text
    path.write_bytes(whole)
    assert reader.read() == [b"one"] * 1000
    reader.close()


def test_a_followed_compressed_file_is_unpacked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []

    class Counting(PackedFile):
        def __init__(self, path: str, key: FileKey) -> None:
            opened.append(path)
            super().__init__(path, key)

    monkeypatch.setattr(content_module, "PackedFile", Counting)
    (tmp_path / "a.log.1.gz").write_bytes(gzip.compress(b"one\n"))
    reader = Reader(tmp_path, "a.log.1.gz")
    assert reader.read(confirm=False) == [b"one"]
    for _ in range(5):
        assert reader.read() == []
    assert len(opened) == 1
    reader.close()


def state_of_0_2_0(reader: Reader) -> None:
    """Save positions as 0.2.0 did, which did not say what they count."""
    reader.positions.save(whole=True)
    path = reader.state / "positions.json"
    document = json.loads(path.read_text())
    for file in document["files"]:
        del file["counted"]
    path.write_text(json.dumps(document))
    reader.close()


@pytest.mark.parametrize("share", [1, 2])
def test_a_file_that_0_2_0_sent_as_it_is_is_neither_sent_again_nor_from_within_a_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, share: int
) -> None:
    path = tmp_path / "a.log.2.gz"
    path.write_bytes(gzip.compress(b"".join(b"line %d\n" % number for number in range(1000))))
    reader = Reader(tmp_path, path.name, follow=False)
    reader.read()
    saved = reader.positions.files[FileKey.of(path.stat())]
    saved.position = path.stat().st_size // share  # of the compressed bytes
    plain = PlainFile(str(path), saved.key, OpenFiles(1))
    saved.fingerprint = fingerprint(plain, saved.position) or ""
    plain.close()
    saved.size_bytes = path.stat().st_size
    state_of_0_2_0(reader)
    assert run(tmp_path, path.name) == []
    assert f"{path} was sent as it is, compressed, by an earlier version, and is not sent again" in caplog.text
    caplog.clear()
    assert run(tmp_path, path.name) == []
    assert "by an earlier version" not in caplog.text


def test_a_file_that_0_2_0_unpacked_after_a_rotation_is_read_on(tmp_path: Path) -> None:
    path = tmp_path / "a.log.2.gz"
    path.write_bytes(gzip.compress(b"one\ntwo\n"))
    reader = Reader(tmp_path, path.name, follow=False)
    reader.read(confirm=False)
    saved = reader.positions.files[FileKey.of(path.stat())]
    unpacked = PackedFile(str(path), saved.key)
    saved.position, saved.fingerprint = 4, fingerprint(unpacked, 4) or ""
    unpacked.close()
    state_of_0_2_0(reader)
    assert run(tmp_path, path.name) == [b"two"]


MARK = "\ufeff"
ENCODINGS = ["utf-8-sig", "utf-16", "utf-16-be", "utf-32", "utf-32-be"]


def encoded(text: str, codec: str, *, marked: bool = True) -> bytes:
    """Return text in an encoding, with a byte order mark unless it goes on."""
    name = codec.removesuffix("-sig") if codec.endswith(("be", "sig")) else f"{codec}-le"
    return f"{MARK * marked}{text}".encode(name)


@pytest.mark.parametrize("codec", ENCODINGS)
def test_text_with_a_byte_order_mark_becomes_utf_8_and_is_read_on(tmp_path: Path, codec: str) -> None:
    """Also in pieces that end within letters and newlines; U+0A0A is a letter whose bytes are two newlines."""
    log = tmp_path / "a.log"
    reader = Reader(tmp_path, "a.log", nul=Nul.REFUSE)
    text = "één\n\u0a0a\u0a0a 𝄞\r\n\ntwo\n"
    found: list[bytes] = []
    for byte in encoded(text, codec):
        with log.open("ab") as file:
            file.write(bytes([byte]))
        if log.stat().st_size > 4:
            found += reader.read()
    assert found == [*text.encode().split(b"\n")[:-1]]
    reader.die()
    with log.open("ab") as file:
        file.write(encoded("half", codec, marked=False))
    assert reader.read() == []
    reader.die()
    with log.open("ab") as file:
        file.write(encoded(" whole\n", codec, marked=False))
    assert reader.read() == [b"half whole"]
    assert reader.counts.all_is_well
    reader.close()


@pytest.mark.parametrize("codec", ENCODINGS)
@pytest.mark.parametrize("suffix", ["", "gz"])
def test_encoded_text_is_read_whole_in_one_run(tmp_path: Path, codec: str, suffix: str) -> None:
    log = tmp_path / "a.log"
    lines = [f"line {number} é𝄞\u0a0a" for number in range(30_000)]
    log.write_bytes(encoded("\n".join(lines), codec))
    if suffix:
        log = compress(log, suffix)
    assert run(tmp_path, log.name) == [line.encode() for line in lines]


@pytest.mark.parametrize("codec", ENCODINGS)
def test_places_of_encoded_lines_are_those_in_the_file(tmp_path: Path, codec: str) -> None:
    log = tmp_path / "a.log"
    texts = ["first é\n", "x" * 90 + "\n", "x" * 200 + "\n", "last"]
    log.write_bytes(b"".join(encoded(text, codec, marked=not number) for number, text in enumerate(texts)))
    reader = Reader(tmp_path, "a.log", follow=False, places=True)
    places = [int(line.place.rpartition(":")[2]) for line in reader.read() if isinstance(line, PlacedLine)]
    unit = len(encoded("a", codec, marked=False))
    mark = len(encoded("", codec))
    first = mark + len(encoded(texts[0], codec, marked=False))
    assert places == [mark, first, first + 91 * unit, first + 91 * unit + 201 * unit]
    reader.close()


@pytest.mark.parametrize(("codec", "newline_byte"), [("utf-16", 1), ("utf-16-be", 2)])
def test_a_place_of_0_2_0_within_a_newline_of_utf_16_is_read_on_after_it(
    tmp_path: Path, codec: str, newline_byte: int
) -> None:
    log = tmp_path / "a.log"
    log.write_bytes(encoded("one\ntwo\n", codec))
    reader = Reader(tmp_path, "a.log", follow=False)
    reader.read(confirm=False)
    saved = reader.positions.files[FileKey.of(log.stat())]
    saved.position = 2 + 3 * 2 + newline_byte
    plain = PlainFile(str(log), saved.key, OpenFiles(1))
    saved.fingerprint = fingerprint(plain, saved.position) or ""
    plain.close()
    state_of_0_2_0(reader)
    assert run(tmp_path, "a.log") == [b"two"]


def test_what_is_no_text_is_refused_by_its_first_block_and_others_go_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "program").write_bytes(b"\x7fELF\x02\x01\x01\x00" + b"\n" * 100)
    tar = b"logs/a.log" + b"\0" * 247 + b"ustar\00000" + b"\0" * 300
    (tmp_path / "logs.tar.gz").write_bytes(gzip.compress(tar))
    (tmp_path / "preallocated").write_bytes(b"one\n" + b"\0" * 10_000)
    (tmp_path / "truncated").write_bytes(b"\0" * 10_000 + b"two\n")
    names = ("program", "logs.tar.gz", "preallocated", "truncated")
    reader = Reader(tmp_path, *names, follow=False)
    assert sorted(reader.read()) == [b"", b"one", b"two"]
    assert reader.counts.files_refused == 2
    assert not reader.counts.all_is_well
    assert f"not collected: {tmp_path}/program holds no lines of text: it is a program" in caplog.text
    assert f"not collected: {tmp_path}/logs.tar.gz holds no lines of text: it is a tar archive" in caplog.text
    reader.close()


def test_a_state_says_what_its_positions_count(tmp_path: Path) -> None:
    write(tmp_path / "a.log", "one\n")
    (tmp_path / "b.gz").write_bytes(gzip.compress(b"two\n"))
    run(tmp_path, "a.log", "b.gz")
    reader = Reader(tmp_path)
    assert {saved.watched[-4:]: saved.counted for saved in reader.positions.files.values()} == {
        ".log": CountedBytes.FILE,
        "b.gz": CountedBytes.UNPACKED,
    }
    reader.close()
