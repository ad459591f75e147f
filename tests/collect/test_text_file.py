"""Files that are opened to read their lines."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import threading
from typing import TYPE_CHECKING

import cramjam
import pytest

from kafka2011.collect.refused import NoTextError
from kafka2011.collect.text_file import open_text
from kafka2011.collect.unpack import UnpackError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LINES = [b"line %d \xc3\xa9" % number for number in range(20_000)]
TEXT = b"".join(line + b"\n" for line in LINES)
PACK: dict[str, Callable[[bytes], bytes]] = {
    "plain": bytes,
    "gzip": gzip.compress,
    "two gzip members": lambda data: gzip.compress(data[:99]) + gzip.compress(data[99:]),
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "zstd": lambda data: bytes(cramjam.zstd.compress(data)),
    "two zstd frames": lambda data: bytes(cramjam.zstd.compress(data[:99])) + bytes(cramjam.zstd.compress(data[99:])),
    "lz4": lambda data: bytes(cramjam.lz4.compress(data)),
}
packed = pytest.mark.parametrize("pack", PACK.values(), ids=PACK)


def lines_of(path: Path) -> list[bytes]:
    with path.open("rb") as file, open_text(file, str(path)) as text:
        return text.read().splitlines()


@packed
@pytest.mark.parametrize("codec", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_lines_are_utf_8_however_they_are_packed_and_encoded(
    pack: Callable[[bytes], bytes], codec: str, tmp_path: Path
) -> None:
    path = tmp_path / "log"
    path.write_bytes(pack(TEXT.decode().encode(codec)))
    assert lines_of(path) == LINES


@packed
def test_a_pipe_is_unpacked_too(pack: Callable[[bytes], bytes]) -> None:
    read_fd, write_fd = os.pipe()

    def write() -> None:
        with os.fdopen(write_fd, "wb") as writer:
            writer.write(pack(TEXT))

    writing = threading.Thread(target=write)
    writing.start()
    with os.fdopen(read_fd, "rb") as reader, open_text(reader, "a pipe") as text:
        assert text.read().splitlines() == LINES
    writing.join()


@packed
def test_a_cut_file_is_an_error_and_no_shorter_log(pack: Callable[[bytes], bytes], tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(pack(TEXT)[:-9])
    if pack is bytes:
        assert len(lines_of(path)) == len(LINES)
        return
    with pytest.raises(UnpackError, match=str(path)):
        lines_of(path)


@packed
def test_what_is_no_text_is_refused_also_within_a_compressed_file(
    pack: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    path = tmp_path / "log"
    path.write_bytes(pack(b"logs/a.log" + b"\0" * 247 + b"ustar\00000" + b"\0" * 300))
    with pytest.raises(NoTextError, match="a tar archive"):
        lines_of(path)
    with path.open("rb") as file, open_text(file, str(path), is_text=False) as content:
        assert content.read(10) == b"logs/a.log"


def test_a_format_that_nothing_reads_is_named(tmp_path: Path) -> None:
    path = tmp_path / "log.Z"
    path.write_bytes(b"\x1f\x9d\x90abc")
    with pytest.raises(UnpackError, match="nothing here reads files that are compressed with compress"):
        lines_of(path)
