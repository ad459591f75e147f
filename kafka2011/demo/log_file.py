"""The log that the demo replays: what it is, and what it cannot be."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kafka2011.collect.access_log import page_view
from kafka2011.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

LOOKED_AT_LINES = 10_000
_SHOWN_CHARS = 100
_SHOWN_REASONS = 3
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


def understood(lines: Sequence[bytes]) -> Iterator[str]:
    """Say what the first lines of a log are: their format, one of them, and which cannot be read as page views."""
    looked_at = lines[:LOOKED_AT_LINES]
    views = [page_view(line) for line in looked_at]
    reasons = Counter(view["parse_error"] for view in views if "parse_error" in view)
    read = [view for view in views if "parse_error" not in view]
    of = f"{len(looked_at):,}" if len(looked_at) == len(lines) else f"the first {len(looked_at):,}"
    if not read:
        yield f"this is no access log: none of {of} lines is a page view, so reports will be empty"
        yield f"first line: {_shown(looked_at[0])}"
    else:
        with_agents = sum(view["referrer"] is not None or view["user_agent"] is not None for view in read)
        name = "combined" if with_agents else "common"
        yield f"an access log in the {name} format: {len(read):,} of {of} lines can be read as page views"
        yield f"first of them: {_shown(str(read[0]['line']).encode())}"
    for reason, count in reasons.most_common(_SHOWN_REASONS):
        yield f"{count:,} cannot be read as page views: {reason}"


def _shown(line: bytes) -> str:
    text = printable(line.decode("utf-8", "backslashreplace"))
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}…"
