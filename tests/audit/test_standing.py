"""What an instance may say of itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka2011.audit.standing import Instance, Standing
from kafka2011.audit.statement import Ends, Reported
from kafka2011.audit.tally import Tally
from kafka2011.audit.windows import Windows
from tests.support.audit_streams import TOPIC, Seen, count_sent
from zk.cluster import TopicPartition

if TYPE_CHECKING:
    from kafka2011.audit.report import AuditReport

IDS = [f"00000000-0000-4000-8000-00000000000{number}" for number in range(4)]
ONE, TWO = TopicPartition(TOPIC, 0, 0), TopicPartition(TOPIC, 1, 0)


def new_standing() -> Standing:
    return Standing(Instance("producer", "one", "here", follows=("zero",)), TOPIC)


def reports_of(*at_us: int) -> list[AuditReport]:
    tally = Tally("producer", "one", "", Windows(10, 0))
    count_sent(tally, Seen(), list(zip(IDS, at_us, strict=False)))
    return tally.take()


def test_it_is_through_what_is_under_way() -> None:
    """An event that was stamped, and has neither arrived nor failed, may yet arrive."""
    standing = new_standing()
    stamped = standing.stamp(5_000)
    standing.stamp(7_000)
    assert standing.through(20_000, None).through_ms == 5
    standing.ended([stamped])
    assert standing.through(20_000, None).through_ms == 7


def test_it_is_through_what_is_numbered() -> None:
    """Counts that it holds have no number yet that could be missed."""
    assert new_standing().through(20_000, 10).through_ms == 10


def test_it_stamps_nothing_before_what_it_has_said() -> None:
    """Though the clock goes back; and it never takes anything back."""
    standing = new_standing()
    assert standing.through(20_000, None).through_ms == 20
    assert standing.stamp(3_000) == 20_000
    assert standing.through(4_000, 0).through_ms == 20


def test_it_is_through_what_it_can_never_count() -> None:
    """So it never closes, and an operator must accept that."""
    standing = new_standing()
    standing.uncounted([8_000, 6_000])
    said = standing.through(20_000, None, is_last=True)
    assert (said.through_ms, said.is_last) == (6, False)


def test_it_does_not_close_while_anything_is_under_way() -> None:
    standing = new_standing()
    [stamped] = [standing.stamp(5_000)]
    assert not standing.through(20_000, None, is_last=True).is_last
    standing.ended([stamped])
    assert standing.through(20_000, None, is_last=True).is_last


def test_everything_has_a_number_and_statements_name_the_first_that_matters() -> None:
    """To whoever looks at what was stamped since: earlier numbers count only what was stamped before."""
    standing = new_standing()
    assert (standing.through(0, None).number, standing.through(1_000, None).first) == (0, 1)
    numbered = standing.number(reports_of(5_000, 15_000, 35_000))
    assert [report.number for report in numbered] == [2, 3, 4]
    assert standing.through(20_000, None).first == 4
    said = standing.through(40_000, None)
    assert (said.number, said.first) == (6, 6)
    assert (said.home, said.follows) == ("here", ("zero",))


def test_a_reader_says_which_offsets_it_has_reported() -> None:
    """What was read on is one range, and what was passed over is named by its absence."""
    standing = new_standing()
    for where, start, end in ((ONE, 0, 10), (ONE, 10, 30), (ONE, 50, 60), (TWO, 7, 7)):
        standing.read(where, start, end)
    standing.number(reports_of(5_000))
    said = standing.covered(20, 19, {ONE: (0, 60), TWO: None})
    assert said.reported == (Reported(ONE, 0, 30), Reported(ONE, 50, 60), Reported(TWO, 7, 7))
    assert (said.ends_at_ms, said.ends) == (19, (Ends(ONE, 0, 60), Ends(TWO, None, None)))
    assert (said.number, said.first) == (1, 0)
    again = standing.covered(30)
    assert (again.number, again.first, again.reported, again.through_ms) == (2, 2, (), None)
