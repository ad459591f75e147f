"""What a gap in the coverage may be, by what the log holds there."""

from __future__ import annotations

import pytest

from kafka2011.errors import OffsetOutOfRangeError
from kafka2011.message.compression import Codec, compress
from kafka2011.message.message_set import MessageSet, encode
from kafka2011.warehouse.errors import CoverageError
from kafka2011.warehouse.loading.coverage import Gap
from kafka2011.warehouse.loading.gaps import Explained, explain
from zk.cluster import TopicPartition

ONE = TopicPartition("views", 1, 0)
START = 1000
EMPTY = encode(compress(Codec.GZIP, b""), Codec.GZIP)
FULL = bytes(MessageSet([b"a", b"b"], Codec.GZIP))


def look(log: bytes, start: int = START, end: int | None = None, earliest: int = START) -> Explained:
    """Explain a gap in a log that begins at START, unless it was cut since."""

    def fetch(offset: int, max_bytes: int) -> bytes:
        if not earliest <= offset <= START + len(log):
            raise OffsetOutOfRangeError("not there")
        return log[offset - START :][:max_bytes]

    gap = Gap(ONE, start, START + len(log) if end is None else end)
    return explain(gap, earliest, fetch, max_message_bytes=10_000_000)


def test_compressed_sets_without_a_message_are_empty() -> None:
    """They have no rows, and are no loss."""
    assert look(EMPTY * 3) == Explained(0, 3 * len(EMPTY))


def test_a_set_larger_than_a_fetch_is_looked_at_whole() -> None:
    large = encode(compress(Codec.SNAPPY, b"") + bytes(0), Codec.SNAPPY)
    assert look(large + EMPTY) == Explained(0, len(large) + len(EMPTY))
    filled = bytes(MessageSet([bytes(range(256)) * 10_000], Codec.NONE))
    with pytest.raises(CoverageError, match="the log has messages from offset 1000 on"):
        look(filled)


def test_what_the_log_no_longer_has_is_lost() -> None:
    assert look(EMPTY * 3, earliest=START + len(EMPTY)) == Explained(len(EMPTY), 2 * len(EMPTY))
    assert look(EMPTY * 3, earliest=START + 10_000) == Explained(3 * len(EMPTY), 0)


@pytest.mark.parametrize("log", [encode(b"one"), FULL, EMPTY + encode(b"one") + EMPTY, EMPTY + FULL])
def test_a_message_that_was_missed_fails_the_load(log: bytes) -> None:
    with pytest.raises(CoverageError, match=r"views/1-0: nothing was written for offsets 1000 to .* has messages"):
        look(log)


@pytest.mark.parametrize("log", [EMPTY + b"garbage" * 9, EMPTY + encode(b"not gzip", Codec.GZIP), EMPTY + b"\0\0"])
def test_what_makes_no_sense_fails_the_load(log: bytes) -> None:
    """It should be in quarantine."""
    with pytest.raises(CoverageError, match="nothing was committed"):
        look(log)


def test_a_log_that_ends_too_early_fails_the_load() -> None:
    with pytest.raises(CoverageError, match="nothing that can be read"):
        look(EMPTY, end=START + 10 * len(EMPTY))
