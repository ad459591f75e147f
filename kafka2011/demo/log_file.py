"""The log that the demo replays: what it cannot be."""

from __future__ import annotations

_BEGINNINGS = {
    b"\x1f\x8b": "compressed with gzip: unpack it first, with gunzip --keep",
    b"BZh": "compressed with bzip2: unpack it first, with bunzip2 --keep",
    b"\xfd7zXZ": "compressed with xz: unpack it first, with unxz --keep",
    b"\x28\xb5\x2f\xfd": "compressed with Zstandard: unpack it first, with unzstd",
    b"PK\x03\x04": "a ZIP archive: unpack it first",
}


def why_no_log(beginning: bytes) -> str | None:
    """Say what a file is that begins like this, and is no log of lines; None for one that may be a log."""
    for mark, what in _BEGINNINGS.items():
        if beginning.startswith(mark):
            return what
    return "no text: it has NUL bytes" if b"\0" in beginning else None
