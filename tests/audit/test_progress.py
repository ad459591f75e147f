"""What an instance may say of itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka2011.audit.progress import Instance, Progress
from kafka2011.audit.progress_report import Ends, Reported
from kafka2011.audit.window_counts import WindowCounts
from kafka2011.audit.windows import Windows
from tests.support.audit_streams import TOPIC, Seen, count_sent
from zk.cluster import TopicPartition

if TYPE_CHECKING:
    from kafka2011.audit.report import AuditReport

IDS = [f"00000000-0000-4000-8000-00000000000{number}" for number in range(4)]
ONE, TWO = TopicPartition(TOPIC, 0, 0), TopicPartition(TOPIC, 1, 0)


def new_progress() -> Progress:
    return Progress(Instance("producer", "one", "here", follows=("zero",)), TOPIC)


def reports_of(*at_us: int) -> list[AuditReport]:
    counts = WindowCounts("producer", "one", "", Windows(10, 0))
    count_sent(counts, Seen(), list(zip(IDS, at_us, strict=False)))
    return counts.take()


def test_it_is_through_what_is_under_way() -> None:
    """An event that was stamped, and has neither arrived nor failed, may yet arrive."""
    progress = new_progress()
    stamped = progress.stamp(5_000)
    progress.stamp(7_000)
    assert progress.through(20_000, None).through_ms == 5
    progress.ended([stamped])
    assert progress.through(20_000, None).through_ms == 7


def test_it_is_through_what_is_numbered() -> None:
    """Counts that it holds have no number yet that could be missed."""
    assert new_progress().through(20_000, 10).through_ms == 10


def test_it_stamps_nothing_before_what_it_has_said() -> None:
    """Though the clock goes back; and it never takes anything back."""
    progress = new_progress()
    assert progress.through(20_000, None).through_ms == 20
    assert progress.stamp(3_000) == 20_000
    assert progress.through(4_000, 0).through_ms == 20


def test_it_is_through_what_it_can_never_count() -> None:
    """So it never closes, and an operator must accept that."""
    progress = new_progress()
    progress.uncounted([8_000, 6_000])
    said = progress.through(20_000, None, is_last=True)
    assert (said.through_ms, said.is_last) == (6, False)


def test_it_does_not_close_while_anything_is_under_way() -> None:
    progress = new_progress()
    [stamped] = [progress.stamp(5_000)]
    assert not progress.through(20_000, None, is_last=True).is_last
    progress.ended([stamped])
    assert progress.through(20_000, None, is_last=True).is_last


def test_everything_has_a_number_and_statements_name_the_first_that_matters() -> None:
    """To whoever looks at what was stamped since: earlier numbers count only what was stamped before."""
    progress = new_progress()
    assert (progress.through(0, None).number, progress.through(1_000, None).first) == (0, 1)
    numbered = progress.number(reports_of(5_000, 15_000, 35_000))
    assert [report.number for report in numbered] == [2, 3, 4]
    assert progress.through(20_000, None).first == 4
    said = progress.through(40_000, None)
    assert (said.number, said.first) == (6, 6)
    assert (said.home, said.follows) == ("here", ("zero",))


def test_a_reader_says_which_offsets_it_has_reported() -> None:
    """What was read on is one range, and what was passed over is named by its absence."""
    progress = new_progress()
    for where, start, end in ((ONE, 0, 10), (ONE, 10, 30), (ONE, 50, 60), (TWO, 7, 7)):
        progress.read(where, start, end)
    progress.number(reports_of(5_000))
    said = progress.covered(20, 19, {ONE: (0, 60), TWO: None})
    assert said.reported == (Reported(ONE, 0, 30), Reported(ONE, 50, 60), Reported(TWO, 7, 7))
    assert (said.ends_at_ms, said.ends) == (19, (Ends(ONE, 0, 60), Ends(TWO, None, None)))
    assert (said.number, said.first) == (1, 0)
    again = progress.covered(30)
    assert (again.number, again.first, again.reported, again.through_ms) == (2, 2, (), None)


def test_a_partition_that_was_read_to_its_end_is_named_each_time() -> None:
    """The report that said so first may be too old to be read; one that was not read to its end is not named."""
    progress = new_progress()
    progress.read(ONE, 0, 60)
    progress.read(TWO, 0, 7)
    progress.covered(20)
    assert progress.covered(30, 29, {ONE: (0, 60), TWO: (0, 8)}).reported == (Reported(ONE, 60, 60),)
    progress.read(ONE, 60, 70)
    assert progress.covered(40, 39, {ONE: (0, 70), TWO: None}).reported == (Reported(ONE, 60, 70),)
    assert progress.covered(50, 49, {ONE: (0, 60)}).reported == (), "its log was put back"
