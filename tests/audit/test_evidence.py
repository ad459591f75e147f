"""What is in doubt, alone; tests/models/audit tries all of it together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kafka2011.audit.evidence import AGAIN_MS, REMOVED, Doubt, Evidence, Reading, Rules
from kafka2011.audit.report import AUDIT_TOPIC, AuditReport
from kafka2011.audit.standing import Instance, Standing
from kafka2011.audit.statement import Acceptance, Statement
from zk.cluster import TopicPartition

TOPIC = "views"
RULES = Rules(margin_ms=100, dead_after_ms=1000)
NOW = Reading(at_ms=5000, home="here")
LATELY = Doubt(4900, "the topic audit was read then")
ONE, TWO = TopicPartition(TOPIC, 0, 0), TopicPartition(TOPIC, 1, 0)


def evidence_of(*said: AuditReport | Statement | Acceptance) -> Evidence:
    evidence = Evidence()
    for each in reversed(said):  # in any order
        evidence.add(each)
    return evidence


def doubts(evidence: Evidence, *tiers: str, reading: Reading = NOW, from_ms: int | None = None) -> list[Doubt]:
    """Return those beside that the newest is in doubt."""
    found = evidence.doubts(TOPIC, tiers, reading, from_ms, RULES)
    assert LATELY in found
    return [doubt for doubt in found if doubt != LATELY]


def producer(name: str = "p", home: str = "here", follows: tuple[str, ...] = ()) -> Standing:
    return Standing(Instance("producer", name, home, follows=follows), TOPIC)


def said_of(standing: Standing, *through_ms: int, is_closed: bool = True) -> list[Statement]:
    said = [standing.through(each * 1000, None) for each in through_ms]
    return [*said, standing.through(through_ms[-1] * 1000, None, is_last=True)] if is_closed else said


def report_of(number: int | None = None) -> AuditReport:
    ids = np.array([1], np.uint64)
    return AuditReport(tier="producer", instance="p", topic=TOPIC, window_ms=10, start_ms=0, ids=ids, number=number)


def test_who_has_closed_leaves_no_doubt() -> None:
    assert doubts(evidence_of(*said_of(producer(), 10, 20)), "producer") == []


def test_a_missing_number_is_missed() -> None:
    """All before it holds; and closing does not make up for it."""
    said = said_of(producer(), 10, 20, 30, 40)
    evidence = evidence_of(*said[:2], *said[3:])
    assert doubts(evidence) == [Doubt(20, "p 1 of its reports are missing", "p")]
    assert evidence.lost_reports(TOPIC, "producer") == 1


def test_numbers_that_count_nothing_new_do_not_matter() -> None:
    """Of an instance that runs for weeks the first reports were removed long ago."""
    said = said_of(producer(), *range(0, 100, 10))
    evidence = evidence_of(*said[5:])
    assert doubts(evidence, from_ms=60) == []
    assert doubts(evidence, from_ms=40) == [Doubt(50 - AGAIN_MS, "p 5 of its reports are missing", "p")]


@pytest.mark.parametrize(("at_ms", "why"), [(1040, "has said nothing since"), (1041, "died")])
def test_who_is_silent_has_died_in_the_end(at_ms: int, why: str) -> None:
    """What it may have stamped since is in doubt, before and after."""
    evidence = evidence_of(*said_of(producer(), 10, 40, is_closed=False))
    found = evidence.doubts(TOPIC, (), replace(NOW, at_ms=at_ms), None, RULES)
    assert Doubt(40, f"p {why}", "p") in found


def test_an_operator_accepts_a_death() -> None:
    """Until it is heard of again."""
    said = said_of(producer(), 10, 40, is_closed=False)
    assert doubts(evidence_of(*said, Acceptance(accepted="p", at_ms=40))) == []
    assert doubts(evidence_of(*said, Acceptance(accepted="p", at_ms=39))) != []


def test_a_process_that_goes_on_speaks_for_the_one_before() -> None:
    """What a collector has not reported it sends again."""
    said = said_of(producer("one"), 10, is_closed=False)
    follows = said_of(producer("two", follows=("one",)), 5)
    assert doubts(evidence_of(*said, *follows)) == []


def test_old_reports_prove_nothing() -> None:
    """They have no numbers, so none is missed."""
    assert doubts(evidence_of(report_of())) == [Doubt(None, "p does not number its reports", "p")]
    assert not doubts(evidence_of(report_of(1), *said_of(producer(), 0, is_closed=False)[:1], report_of(1)))[0].since_ms


def test_a_tier_that_nobody_has_heard_of_has_nothing() -> None:
    """Such as one that is misspelt."""
    evidence = evidence_of(*said_of(producer(), 10))
    assert doubts(evidence, "lvie") == [Doubt(None, "tier lvie has said nothing of topic views")]


def test_what_cannot_be_read_or_was_removed_may_say_anything() -> None:
    evidence = evidence_of(*said_of(producer(), 10))
    assert doubts(evidence, reading=replace(NOW, faults=("broker 2 is away",))) == [Doubt(None, "broker 2 is away")]
    cut = replace(NOW, since_ms=500)
    assert doubts(evidence, reading=cut, from_ms=500) == []
    why = "reports were removed before they were read"
    assert doubts(evidence, reading=cut, from_ms=499) == [Doubt(None, why, "removed reports")]
    evidence.add(Acceptance(accepted="removed reports", at_ms=500))
    assert doubts(evidence, reading=cut, from_ms=499) == []


def test_an_operator_accepts_that_reports_were_removed() -> None:
    """Until some were removed that might have been checked again after that."""
    cut = replace(NOW, since_ms=500 + AGAIN_MS)
    said = said_of(producer(), 10)
    assert doubts(evidence_of(*said, Acceptance(accepted=REMOVED, at_ms=500)), reading=cut, from_ms=499) == []
    assert doubts(evidence_of(*said, Acceptance(accepted=REMOVED, at_ms=499)), reading=cut, from_ms=499) == [
        Doubt(None, "reports were removed before they were read", REMOVED)
    ]


def reader(copies: str = "", topic: str = TOPIC) -> Standing:
    return Standing(Instance("live", "r", "here", "live", copies=copies), topic)


def test_a_tier_is_as_far_as_it_has_read_to_the_ends() -> None:
    """Of all partitions that were ever named; a gap ends it, unless it is accepted."""
    standing = reader()
    standing.read(ONE, 0, 10)
    standing.read(TWO, 0, 10)
    first = standing.covered(1000, 990, {ONE: (0, 10), TWO: (0, 10)})
    standing.read(ONE, 10, 20)
    second = standing.covered(2000, 1990, {ONE: (0, 20), TWO: (0, 30)})
    standing.read(TWO, 20, 30)
    third = standing.covered(3000, 2990, {ONE: (0, 20)})
    closed = said_of(producer(), 10)
    why = "tier live has not said that it has read all of topic views in live"
    assert doubts(evidence_of(*closed, first, second, third), "live") == [Doubt(890, why)]
    accepted = Acceptance(accepted=str(TWO), at_ms=1)
    assert doubts(evidence_of(*closed, first, second, third, accepted), "live") == [Doubt(2890, why)]
    assert doubts(evidence_of(*closed, first, third, accepted), "live") == [Doubt(890, why)]


def test_an_empty_partition_is_read() -> None:
    """Also one whose messages were all removed."""
    said = reader().covered(1000, 990, {ONE: (70, 70)})
    why = "tier live has not said that it has read all of topic views in live"
    assert doubts(evidence_of(*said_of(producer(), 10), said), "live") == [Doubt(890, why)]


def test_reports_of_another_cluster_need_the_word_of_a_mirror() -> None:
    """That says how far it has copied them, and is old enough for what it speaks of to be here."""
    closed = said_of(producer(home="there"), 10)
    unknown = Doubt(None, "reports of cluster there come by no mirror that says so", "there")
    assert doubts(evidence_of(*closed)) == [unknown]
    standing = reader("there", AUDIT_TOPIC)
    where = TopicPartition(AUDIT_TOPIC, 0, 0)
    standing.read(where, 0, 10)
    said = [standing.covered(4800, 4790, {where: (0, 10)}), standing.covered(4901, 4900, {where: (0, 10)})]
    evidence = evidence_of(*closed, *said)
    assert doubts(evidence) == [Doubt(4690, "reports of cluster there are copied by a mirror", "there")]
    evidence.add(Acceptance(accepted="there", at_ms=4901))
    assert doubts(evidence) == []
