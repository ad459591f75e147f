"""Recognizes by a file's first bytes what it is: compressed, text in another encoding, or no text at all."""

from __future__ import annotations

import codecs
import re
from enum import StrEnum
from typing import NamedTuple

SNIFFED_BYTES = 8192
"""How many bytes of a file's beginning are judged."""


class Packing(StrEnum):
    """A way in which files are compressed."""

    GZIP = "gzip"
    BZIP2 = "bzip2"
    XZ = "xz"
    LZMA = "lzma"
    ZSTD = "Zstandard"
    LZ4 = "LZ4"
    COMPRESS = "compress"


_PACKINGS = {
    b"\x1f\x8b\x08": Packing.GZIP,
    b"BZh": Packing.BZIP2,
    b"\xfd7zXZ\0": Packing.XZ,
    b"\x5d\0\0": Packing.LZMA,
    b"\x28\xb5\x2f\xfd": Packing.ZSTD,
    b"\x04\x22\x4d\x18": Packing.LZ4,
    b"\x1f\x9d": Packing.COMPRESS,
    b"\x1f\xa0": Packing.COMPRESS,
}
_BZIP2_BLOCK = (b"\x31\x41\x59\x26\x53\x59", b"\x17\x72\x45\x38\x50\x90")


class Encoding(NamedTuple):
    """An encoding of text, known by the byte order mark at a file's beginning."""

    codec: str
    mark: bytes
    unit_bytes: int


_ENCODINGS = (
    Encoding("utf-8", codecs.BOM_UTF8, 1),
    Encoding("utf-32-le", codecs.BOM_UTF32_LE, 4),  # before UTF-16, whose mark it begins with
    Encoding("utf-32-be", codecs.BOM_UTF32_BE, 4),
    Encoding("utf-16-le", codecs.BOM_UTF16_LE, 2),
    Encoding("utf-16-be", codecs.BOM_UTF16_BE, 2),
)

_BINARY = (
    (re.compile(rb"PK\x03\x04|PK\x05\x06"), "a ZIP archive"),
    (re.compile(rb"7z\xbc\xaf\x27\x1c"), "a 7z archive"),
    (re.compile(rb"Rar!\x1a\x07"), "a RAR archive"),
    (re.compile(rb".{257}ustar", re.DOTALL), "a tar archive"),
    (re.compile(rb"\x7fELF"), "a program"),
    (re.compile(rb"\x89PNG|GIF8[79]a|\xff\xd8\xff"), "an image"),
    (re.compile(rb"%PDF-"), "a PDF document"),
    (re.compile(rb"SQLite format 3\0"), "an SQLite database"),
    (re.compile(rb"PAR1"), "a Parquet file"),
    (re.compile(rb"Obj\x01"), "an Avro file"),
    (re.compile(rb"LPKSHHRH"), "a journal of systemd: use journalctl"),
    (re.compile(rb"[\x01-\x09]\0{3}"), "a binary file, such as wtmp"),
)
_CONTROLS = bytes([*range(0x04, 0x07), *range(0x0E, 0x1A), 0x7F])
"""Control characters that no text has. Those left out separate fields, colour words, or end a page."""
_MOST_CONTROLS = 1 / 33
"""The share of them that a text in an unknown encoding may have; of random bytes they are one in 16."""


def packing_of(beginning: bytes) -> Packing | None:
    """Return how a file is compressed that begins like this; None if it is not."""
    for mark, packing in _PACKINGS.items():
        if beginning.startswith(mark):
            is_text = packing is Packing.BZIP2 and beginning[4:10] not in _BZIP2_BLOCK
            return None if is_text else packing
    return None


def encoding_of(beginning: bytes) -> Encoding | None:
    """Return the encoding that a byte order mark names; None without one."""
    return next((encoding for encoding in _ENCODINGS if beginning.startswith(encoding.mark)), None)


def why_no_text(beginning: bytes) -> str | None:
    """Say what a file is that begins like this and holds no lines of text; None for one that may hold some.

    NUL bytes tell nothing: files that were preallocated, or truncated under their writers, have them too.
    """
    beginning = beginning[:SNIFFED_BYTES]
    if encoding_of(beginning) is not None:
        return None
    for pattern, what in _BINARY:
        if pattern.match(beginning):
            return what
    text = beginning.replace(b"\0", b"")
    controls = len(text) - len(text.translate(None, _CONTROLS))
    if controls > 1 and controls > len(text) * _MOST_CONTROLS and not _is_utf_8(text):
        return "a binary file"
    return None


def _is_utf_8(text: bytes) -> bool:
    """Whether bytes are UTF-8, but for a character that is cut at their end."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(text)
    except UnicodeDecodeError:
        return False
    return True
