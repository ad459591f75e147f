"""Lines of access logs that could not be parsed: counted once each, warned of at the first and at each tenfold."""

from __future__ import annotations

import pytest

from kafka2011.collect.access_log import page_view
from kafka2011.collect.counts import JUDGED_LINES, CollectCounts
from kafka2011.collect.placed import PlacedLine
from kafka2011.collect.unparsed import UnparsedLines

GOOD = b'192.0.2.7 - - [29/May/2017:19:02:48 +0000] "GET /a HTTP/1.1" 200 612 "-" "curl/8" "-"'
NO_REQUEST = GOOD.replace(b"GET /a HTTP/1.1", b"-")


def test_unparsed_lines_are_counted_and_warned_of_at_each_tenfold(caplog: pytest.LogCaptureFixture) -> None:
    counts = CollectCounts()
    unparsed = UnparsedLines(counts)
    for line in [b"no %d" % number for number in range(1000)] + [GOOD, NO_REQUEST, b"#Version: 1.0"]:
        unparsed.note(line, page_view(line))
    assert counts.lines_unparsed == 1000
    assert [record.getMessage().split(" could")[0] for record in caplog.records] == [
        "1 line",
        "10 lines",
        "100 lines",
        "1000 lines",
    ]
    assert "'no 99'" in caplog.text
    assert "identity: not as in the combined log format" not in caplog.messages[0]
    assert "user: not as in the combined log format" in caplog.messages[0]


def test_a_line_that_is_sent_again_counts_once() -> None:
    counts = CollectCounts()
    unparsed = UnparsedLines(counts)
    line = PlacedLine(b"nothing")
    for _ in range(3):
        unparsed.note(line, page_view(line))
    assert counts.lines_unparsed == 1


@pytest.mark.parametrize(
    ("sent", "unparsed", "most", "is_too_many"),
    [
        (JUDGED_LINES - 1, JUDGED_LINES - 1, 0.1, False),
        (JUDGED_LINES, 2, 0.1, False),
        (JUDGED_LINES, 3, 0.1, True),
        (1000, 1, 0.0, True),
        (1000, 0, 0.0, False),
        (1000, 1000, 1.0, False),
    ],
)
def test_a_share_of_unparsed_lines_is_too_large_from_some_lines_on(
    sent: int, unparsed: int, most: float, is_too_many: bool
) -> None:
    counts = CollectCounts(lines_sent=sent, lines_unparsed=unparsed)
    assert counts.too_many_unparsed(most) is is_too_many
