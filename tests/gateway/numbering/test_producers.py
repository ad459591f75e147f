"""Which batches are appended, which are repeats, and which are refused."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from kafka2011.gateway.numbering.producers import ProducerStates, SequenceAnswer, SequenceVerdict
from kafka2011.gateway.numbering.senders import MOST_MARKS, Senders
from kafka2011.gateway.records.found import Origin
from tests.planted.patches import Defect, read_defects
from tests.planted.planting import planted

if TYPE_CHECKING:
    from collections.abc import Callable

APPEND = SequenceVerdict(SequenceAnswer.APPEND)
OUT_OF_ORDER = SequenceVerdict(SequenceAnswer.OUT_OF_ORDER)
FENCED = SequenceVerdict(SequenceAnswer.FENCED)
IN_FLIGHT = SequenceVerdict(SequenceAnswer.IN_FLIGHT)
WRAP = 2**31


def batch(first: int, records: int = 10, *, epoch: int = 0, producer: int = 7) -> Origin:
    return Origin(producer, epoch, first, records, b"12345678")


def having(*wrappers: tuple[Origin, int]) -> ProducerStates:
    states = ProducerStates()
    for origin, number in wrappers:
        assert not states.found(origin, number)
    return states


def repeat(first: int, last: int, records: int = 10) -> SequenceVerdict:
    return SequenceVerdict(SequenceAnswer.REPEAT, records, first, last)


def test_an_unknown_producer_may_begin_at_any_sequence() -> None:
    assert ProducerStates().check(batch(12345)) == APPEND


def test_a_producer_without_an_id_may_always_append() -> None:
    states = ProducerStates()
    plain = Origin(-1, -1, -1, 10, b"12345678")
    states.begin(plain)
    assert states.check(plain) == APPEND
    assert not states.found(plain, 0)
    assert not states.found(plain, 10)
    states.end(plain)


def test_the_next_batch_is_appended_and_a_gap_is_refused() -> None:
    states = having((batch(0), 100))
    assert states.check(batch(10)) == APPEND
    assert states.check(batch(11)) == OUT_OF_ORDER
    assert states.check(batch(20)) == OUT_OF_ORDER


def test_a_repeat_has_the_numbers_of_the_first_copy() -> None:
    states = having((batch(0), 100), (batch(10), 500))
    assert states.check(batch(0)) == repeat(100, 109)
    assert states.check(batch(10)) == repeat(500, 509)
    assert states.check(batch(13, 5)) == repeat(503, 507, 5)


def test_a_batch_in_pieces_that_do_not_adjoin_has_no_first_number() -> None:
    """Of a batch that was cut, the rest was appended behind other messages: base + i would be wrong."""
    states = having((batch(0, 6), 100), (batch(6, 4), 200))
    assert states.check(batch(0)) == repeat(-1, 203)
    adjoining = having((batch(0, 6), 100), (batch(6, 4), 106))
    assert adjoining.check(batch(0)) == repeat(100, 109)


def test_of_a_batch_that_was_cut_only_the_rest_is_appended() -> None:
    states = having((batch(0), 100), (batch(10, 4), 110))
    assert states.check(batch(10)) == SequenceVerdict(SequenceAnswer.APPEND, 4)


def test_what_was_appended_long_ago_is_a_duplicate_without_numbers() -> None:
    states = having(*((batch(10 * index), 1000 * index) for index in range(20)))
    for index in range(12, 20):
        assert states.check(batch(10 * index)) == repeat(1000 * index, 1000 * index + 9)
    for index in range(12):
        assert states.check(batch(10 * index)).answer is SequenceAnswer.DUPLICATE
    assert states.check(batch(200)) == APPEND


def test_what_lies_before_the_first_batch_that_is_known_is_refused() -> None:
    """Nobody knows whether it is in the log."""
    states = having((batch(100), 0))
    assert states.check(batch(90)) == OUT_OF_ORDER
    assert states.check(batch(95)) == OUT_OF_ORDER


def test_a_batch_in_flight_counts() -> None:
    states = having((batch(0), 100))
    states.begin(batch(10))
    assert states.check(batch(10)) == IN_FLIGHT
    assert states.check(batch(20)) == APPEND
    states.begin(batch(20))
    assert states.check(batch(20)) == IN_FLIGHT
    assert states.check(batch(30)) == APPEND
    assert states.check(batch(40)) == OUT_OF_ORDER
    assert states.check(batch(0)) == repeat(100, 109)
    states.end(batch(10))
    states.end(batch(20))
    assert states.check(batch(20)) == OUT_OF_ORDER
    assert states.check(batch(10)) == APPEND


def test_an_unknown_producer_s_batch_in_flight_counts() -> None:
    states = ProducerStates()
    states.begin(batch(5))
    assert states.check(batch(5)) == IN_FLIGHT
    assert states.check(batch(15)) == APPEND
    assert states.check(batch(3)) == OUT_OF_ORDER


def test_a_new_epoch_begins_at_sequence_0() -> None:
    states = having((batch(0), 100))
    assert states.check(batch(10, epoch=1)) == OUT_OF_ORDER
    assert states.check(batch(0, epoch=1)) == APPEND
    states.begin(batch(0, epoch=1))
    assert states.check(batch(10)) == FENCED
    assert states.check(batch(10, epoch=1)) == APPEND
    states.end(batch(0, epoch=1))
    assert not states.found(batch(0, epoch=1), 200)
    assert states.check(batch(0)) == FENCED
    assert states.check(batch(0, epoch=1)) == repeat(200, 209)


def test_sequences_wrap() -> None:
    states = having((batch(WRAP - 15), 0), (batch(WRAP - 5), 10))
    assert states.check(batch(5)) == APPEND
    assert states.check(batch(WRAP - 5)) == repeat(10, 19)
    assert not states.found(batch(5), 20)
    assert states.check(batch(0, 5)) == repeat(15, 19, 5)
    assert states.check(batch(WRAP - 15)) == repeat(0, 9)
    assert states.check(batch(16)) == OUT_OF_ORDER
    assert states.check(batch(15)) == APPEND


def test_sequences_may_go_around_more_than_once() -> None:
    states = ProducerStates()
    step = 2**27
    for index in range(40):
        assert states.check(batch(index * step % WRAP, step)) == APPEND
        assert not states.found(batch(index * step % WRAP, step), index * step)
    assert states.check(batch(39 * step % WRAP, step)) == repeat(39 * step, 40 * step - 1, step)


def test_in_the_log_a_second_copy_is_a_repeat_however_late() -> None:
    states = having(*((batch(10 * index), 1000 * index) for index in range(20)))
    for index in range(20):
        assert states.found(batch(10 * index), 10**6)
    assert states.check(batch(200)) == APPEND
    assert states.check(batch(190)) == repeat(19_000, 19_009)


def test_in_the_log_a_wrapper_of_an_older_epoch_is_a_repeat() -> None:
    """It comes late: its producer has sent the same again under the new epoch."""
    states = having((batch(0, epoch=1), 0))
    assert states.found(batch(50, epoch=0), 10)
    assert states.check(batch(10, epoch=1)) == APPEND


def test_in_the_log_what_lies_before_the_known_sequences_is_no_repeat_and_moves_nothing() -> None:
    states = having((batch(100), 0))
    assert not states.found(batch(50), 10)
    assert states.check(batch(110)) == APPEND


def test_in_the_log_a_gap_begins_a_new_row() -> None:
    """A damaged wrapper, or one that retention removed, lies in between."""
    states = having((batch(0), 0), (batch(30), 30))
    assert states.check(batch(40)) == APPEND
    assert states.check(batch(30)) == repeat(30, 39)
    assert states.check(batch(10)) == OUT_OF_ORDER


def test_the_producer_that_was_idle_longest_is_forgotten_first() -> None:
    states = ProducerStates(most=3)
    for producer in (1, 2, 3):
        states.found(batch(0, producer=producer), producer)
    states.found(batch(10, producer=1), 50)
    states.found(batch(0, producer=4), 60)
    assert states.check(batch(99, producer=2)) == APPEND
    assert states.check(batch(99, producer=1)) == OUT_OF_ORDER


def test_what_is_known_goes_through_json() -> None:
    states = having((batch(0), 100), (batch(10), 500), (batch(3, producer=8, epoch=2), 40))
    other = ProducerStates()
    other.load(json.loads(json.dumps(states.document())))
    for origin in (batch(0), batch(10), batch(20), batch(3, producer=8, epoch=2), batch(0, producer=8, epoch=1)):
        assert other.check(origin) == states.check(origin)
    other.forget()
    assert other.check(batch(99)) == APPEND


@pytest.mark.parametrize("others", [MOST_MARKS - 1, MOST_MARKS])
def test_marks_are_known_of_the_last_wrappers(others: int) -> None:
    senders = Senders()
    assert not senders.found(Origin(-1, -1, -1, 1, b"the mark"), 0, 0)
    for index in range(others):
        assert not senders.found(Origin(-1, -1, -1, 1, b"%08d" % index), 100 + index, 1 + index)
    assert senders.found(Origin(-1, -1, -1, 1, b"the mark"), 1000, 1000) == (others < MOST_MARKS)


def test_positions_of_repeats_are_known_until_retention_removes_them() -> None:
    senders = Senders()
    for position in (0, 100, 200, 300):
        senders.found(batch(0), position, position)
    other = Senders()
    other.load(json.loads(json.dumps(senders.document())))
    for known in (senders, other):
        assert [known.is_repeat(position) for position in (0, 50, 100, 200, 300, 400)] == [0, 0, 1, 1, 1, 0]
        known.drop_before(200)
        assert [known.is_repeat(position) for position in (100, 200, 300)] == [False, True, True]


DEFECTS = [
    defect for defect in read_defects("gateway_numbering").values() if defect.shows.get("file") == "test_producers"
]


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_a_defect_is_noticed(defect: Defect) -> None:
    """The scenario passes without it, and fails with it."""
    check: Callable[..., None] = globals()[defect.shows["noticed_by"]]
    with planted(defect), pytest.raises(AssertionError):
        check()
