"""What the demo does not take for a log."""

from __future__ import annotations

import bz2
import gzip
import lzma

import pytest

from kafka2011.demo.log_file import why_no_log


@pytest.mark.parametrize(
    ("beginning", "why"),
    [
        (gzip.compress(b"a\n", mtime=0), "compressed with gzip: unpack it first, with gunzip --keep"),
        (bz2.compress(b"a\n"), "compressed with bzip2: unpack it first, with bunzip2 --keep"),
        (lzma.compress(b"a\n"), "compressed with xz: unpack it first, with unxz --keep"),
        (b"\x7fELF\x02\x01\x01\x00", "no text: it has NUL bytes"),
        (b"a line\n", None),
        (b"caf\xe9\n", None),
        (b"", None),
    ],
)
def test_what_is_no_log_is_refused(beginning: bytes, why: str | None) -> None:
    """Compressed files with how to unpack them."""
    assert why_no_log(beginning) == why
