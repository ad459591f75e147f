"""What a file is, by its first bytes."""

from __future__ import annotations

import bz2
import gzip
import lzma
import random

import cramjam
import pytest

from kafka2011.collect.recognize import Packing, encoding_of, packing_of, why_no_text


@pytest.mark.parametrize(
    ("beginning", "packing"),
    [
        (gzip.compress(b"a\n", mtime=0), Packing.GZIP),
        (bz2.compress(b"a\n"), Packing.BZIP2),
        (bz2.compress(b""), Packing.BZIP2),
        (lzma.compress(b"a\n"), Packing.XZ),
        (lzma.compress(b"a\n", format=lzma.FORMAT_ALONE), Packing.LZMA),
        (bytes(cramjam.zstd.compress(b"a\n")), Packing.ZSTD),
        (bytes(cramjam.lz4.compress(b"a\n")), Packing.LZ4),
        (b"\x1f\x9d\x90", Packing.COMPRESS),
        (b"BZhang was here, and wrote this line\n", None),
        (b"a line\n", None),
        (b"", None),
    ],
)
def test_compressed_files_are_known_by_their_first_bytes(beginning: bytes, packing: Packing | None) -> None:
    assert packing_of(beginning) is packing


@pytest.mark.parametrize(
    ("codec", "name", "unit_bytes"),
    [("utf-8-sig", "utf-8", 1), ("utf-16", "utf-16-le", 2), ("utf-32", "utf-32-le", 4)],
)
def test_encodings_are_known_by_their_byte_order_mark(codec: str, name: str, unit_bytes: int) -> None:
    encoding = encoding_of("a\n".encode(codec))
    assert encoding is not None
    assert (encoding.codec, encoding.unit_bytes) == (name, unit_bytes)
    assert why_no_text("a\n".encode(codec)) is None


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"a line\n",
        b"\0" * 8192,
        b"\0" * 4000 + b"a line after a truncation\n" * 100,
        b"8=FIX.4.2\x019=65\x0135=A\x0149=a\x01\n" * 50,
        b"\x1b[31mred\x1b[0m\a\b\n" * 50,
        "ein Zeichen über zwei\n".encode("latin-1") * 50,
        "日本語のログ\n".encode("shift-jis") * 50,
        "журнал\n".encode("cp1251") * 50,
        ("é" * 4096).encode()[1:8191],
        "a\n".encode("utf-16-le") * 50,
        bytes(range(0x20)) + b" all controls, and valid UTF-8\n",
    ],
)
def test_text_is_text_whatever_its_encoding_and_with_nul_bytes(text: bytes) -> None:
    assert why_no_text(text) is None


@pytest.mark.parametrize(
    ("beginning", "what"),
    [
        (b"\x7fELF\x02\x01\x01\x00", "a program"),
        (b"PK\x03\x04", "a ZIP archive"),
        (b"logs/a.log" + b"\0" * 247 + b"ustar\00000", "a tar archive"),
        (b"\x89PNG\r\n", "an image"),
        (b"SQLite format 3\0", "an SQLite database"),
        (b"\x07\0\0\0\x34\x12\0\0pts/0", "a binary file, such as wtmp"),
        (random.Random(1).randbytes(8192), "a binary file"),
    ],
)
def test_what_is_no_text_is_named(beginning: bytes, what: str) -> None:
    assert why_no_text(beginning) == what
