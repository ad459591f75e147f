"""The counts of a commit as bytes, and the reports that they become."""

from __future__ import annotations

import json
import zlib

import numpy as np
import pytest

from kafka2011.audit.counts_file import (
    CountedPart,
    MalformedCountsError,
    decode,
    encode,
    reports_of,
    windows_before,
)
from kafka2011.audit.report import Places
from kafka2011.audit.table_report import CommitKey, CommitPart
from zk.cluster import TopicPartition

ONE = TopicPartition("views", 3, 1)
KEY = CommitKey("table", 7, "attempt")


def part(start_ms: int, *offsets: int) -> CountedPart:
    ids = np.array([2**63 + offset for offset in offsets], np.uint64)
    places = Places(np.array(offsets, np.int64), np.zeros(len(offsets), np.int32))
    return CountedPart(10, start_ms, ONE, (None, None), ids, places)


def test_counts_come_back_as_they_were() -> None:
    """Each set sorted, as in a report."""
    found = decode(encode([part(10, 5, 1), part(20, 9)]), "views")
    assert [(each.start_ms, each.window_ms, each.where, each.read) for each in found] == [
        (10, 10, ONE, (None, None)),
        (20, 10, ONE, (None, None)),
    ]
    assert [each.ids.tolist() for each in found] == [[2**63 + 1, 2**63 + 5], [2**63 + 9]]
    assert [each.places.offsets.tolist() for each in found] == [[1, 5], [9]]


@pytest.mark.parametrize("cut", [0, 20, -1])
def test_bytes_that_are_cut_short_are_refused(cut: int) -> None:
    with pytest.raises(MalformedCountsError):
        decode(encode([part(10, 5, 1)])[:cut], "views")


def test_a_part_that_is_larger_than_a_report_is_refused() -> None:
    head, _, body = encode([part(10, 5, 1)]).partition(b"\n")
    document = json.loads(head)
    document["parts"][0][5] = 10_001
    with pytest.raises(MalformedCountsError, match="10001 messages"):
        decode(json.dumps(document).encode() + b"\n" + body, "views")
    with pytest.raises(MalformedCountsError, match="bytes of columns"):
        decode(head + b"\n" + zlib.compress(zlib.decompress(body) + b"x"), "views")


def test_parts_are_numbered_by_their_windows_in_all_files() -> None:
    """So that whoever has read the last ones knows whether earlier ones matter."""
    assert windows_before([[10, 30], [10, 20]]) == [[(0, None), (3, 20)], [(1, 10), (2, 10)]]


def test_a_report_has_the_same_id_each_time() -> None:
    """A loader that died may have published it; the next one publishes it again."""
    first, second = (
        reports_of(decode(encode([part(10, 5), part(20, 6)]), "views"), [(0, None), (1, 10)], "load", KEY)
        for _ in range(2)
    )
    assert [each.report_id for each in first] == [each.report_id for each in second]
    assert len({each.report_id for each in first}) == 2
    assert [each.part for each in first] == [CommitPart(KEY, 0, None), CommitPart(KEY, 1, 10)]
    [other] = reports_of([part(10, 5)], [(0, None)], "load", KEY._replace(attempt="other"))
    assert other.report_id not in {each.report_id for each in first}
