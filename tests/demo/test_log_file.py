"""What the demo says of a log before it replays it."""

from __future__ import annotations

import bz2
import gzip
import lzma

import pytest

from kafka2011.demo.log_file import LOOKED_AT_LINES, understood, why_no_log

COMMON = b'192.0.2.7 - - [12/Jun/2011:00:00:00 +0000] "GET /a HTTP/1.1" 200 5'
COMBINED = COMMON + b' "-" "curl/7"'
OTHER = b"2011-06-12 00:00:00 status installed base-files"


@pytest.mark.parametrize(
    ("beginning", "why"),
    [
        (gzip.compress(b"a\n", mtime=0), "compressed with gzip: unpack it first, with gunzip --keep"),
        (bz2.compress(b"a\n"), "compressed with bzip2: unpack it first, with bunzip2 --keep"),
        (lzma.compress(b"a\n"), "compressed with xz: unpack it first, with unxz --keep"),
        (b"\x7fELF\x02\x01\x01\x00", "no text: it has NUL bytes"),
        (COMMON, None),
        (b"caf\xe9\n", None),
        (b"", None),
    ],
)
def test_what_is_no_log_is_refused(beginning: bytes, why: str | None) -> None:
    """Compressed files with how to unpack them."""
    assert why_no_log(beginning) == why


@pytest.mark.parametrize(("line", "name"), [(COMMON, "common"), (COMBINED, "combined")])
def test_an_access_log_is_known_by_its_lines(line: bytes, name: str) -> None:
    """Its format, a line that could be read, and why others could not."""
    assert list(understood([OTHER, line, line, b""])) == [
        f"an access log in the {name} format: 2 of 4 lines can be read as page views",
        f"first of them: {line.decode()}",
        "1 cannot be read as page views: time: not as in the combined log format",
        "1 cannot be read as page views: host: not as in the combined log format",
    ]


def test_another_log_is_replayed_as_it_is() -> None:
    """Nothing in it is sent to the terminal as it is; of a long log the beginning is looked at."""
    said = list(understood([b"\x1b[2J" + b"x" * 200] * (LOOKED_AT_LINES + 1)))
    assert said[0].startswith("this is no access log: none of the first 10,000 lines is a page view")
    assert said[1].startswith(r"first line: \x1b[2Jxxx")
    assert len(said[1]) < 130
