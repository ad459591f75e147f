"""What is unknown, alone; tests/models/audit tries all of it together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kafka2011.audit.progress import Instance, Progress
from kafka2011.audit.progress_report import Acceptance, ProgressReport
from kafka2011.audit.received import ReceivedReports
from kafka2011.audit.report import AUDIT_TOPIC, AuditReport
from kafka2011.audit.scan import AGAIN_MS, REMOVED, AuditScan, Rules, Unknown
from kafka2011.audit.unknowns import Unknowns
from zk.cluster import TopicPartition

TOPIC = "views"
RULES = Rules(margin_ms=100, dead_after_ms=1000)
NOW = AuditScan(at_ms=5000, home="here")
LATELY = Unknown(4900, "the topic audit was read then")
ONE, TWO = TopicPartition(TOPIC, 0, 0), TopicPartition(TOPIC, 1, 0)


def received_of(*said: AuditReport | ProgressReport | Acceptance) -> ReceivedReports:
    received = ReceivedReports()
    for each in reversed(said):  # in any order
        received.add(each)
    return received


def unknowns(
    received: ReceivedReports, *tiers: str, scan: AuditScan = NOW, from_ms: int | None = None
) -> list[Unknown]:
    """Return those beside that the newest is unknown."""
    found = Unknowns(received, scan, RULES).of_topic(TOPIC, tiers, from_ms)
    assert LATELY in found
    return [unknown for unknown in found if unknown != LATELY]


def producer(name: str = "p", home: str = "here", follows: tuple[str, ...] = ()) -> Progress:
    return Progress(Instance("producer", name, home, follows=follows), TOPIC)


def said_of(progress: Progress, *through_ms: int, is_closed: bool = True) -> list[ProgressReport]:
    said = [progress.through(each * 1000, None) for each in through_ms]
    return [*said, progress.through(through_ms[-1] * 1000, None, is_last=True)] if is_closed else said


def report_of(number: int | None = None) -> AuditReport:
    ids = np.array([1], np.uint64)
    return AuditReport(tier="producer", instance="p", topic=TOPIC, window_ms=10, start_ms=0, ids=ids, number=number)


def test_who_has_closed_leaves_nothing_unknown() -> None:
    assert unknowns(received_of(*said_of(producer(), 10, 20)), "producer") == []


def test_a_missing_number_is_missed() -> None:
    """All before it holds; and closing does not make up for it."""
    said = said_of(producer(), 10, 20, 30, 40)
    received = received_of(*said[:2], *said[3:])
    assert unknowns(received) == [Unknown(20, "p 1 of its reports are missing", "p")]
    assert received.lost_reports(TOPIC, "producer") == 1


def test_numbers_that_count_nothing_new_do_not_matter() -> None:
    """Of an instance that runs for weeks the first reports were removed long ago."""
    said = said_of(producer(), *range(0, 100, 10))
    received = received_of(*said[5:])
    assert unknowns(received, from_ms=60) == []
    assert unknowns(received, from_ms=40) == [Unknown(50 - AGAIN_MS, "p 5 of its reports are missing", "p")]


@pytest.mark.parametrize(("at_ms", "why"), [(1040, "has said nothing since"), (1041, "died")])
def test_who_is_silent_has_died_in_the_end(at_ms: int, why: str) -> None:
    """What it may have stamped since is unknown, before and after."""
    received = received_of(*said_of(producer(), 10, 40, is_closed=False))
    found = Unknowns(received, replace(NOW, at_ms=at_ms), RULES).of_topic(TOPIC, ())
    assert Unknown(40, f"p {why}", "p") in found


def test_an_operator_accepts_a_death() -> None:
    """Until it is heard of again."""
    said = said_of(producer(), 10, 40, is_closed=False)
    assert unknowns(received_of(*said, Acceptance(accepted="p", at_ms=40))) == []
    assert unknowns(received_of(*said, Acceptance(accepted="p", at_ms=39))) != []


def test_a_process_that_goes_on_speaks_for_the_one_before() -> None:
    """What a collector has not reported it sends again."""
    said = said_of(producer("one"), 10, is_closed=False)
    follows = said_of(producer("two", follows=("one",)), 5)
    assert unknowns(received_of(*said, *follows)) == []


def test_old_reports_prove_nothing() -> None:
    """They have no numbers, so none is missed."""
    assert unknowns(received_of(report_of())) == [Unknown(None, "p does not number its reports", "p")]
    assert not unknowns(received_of(report_of(1), *said_of(producer(), 0, is_closed=False)[:1], report_of(1)))[
        0
    ].since_ms


def test_a_tier_that_nobody_has_heard_of_has_nothing() -> None:
    """Such as one that is misspelt."""
    received = received_of(*said_of(producer(), 10))
    assert unknowns(received, "lvie") == [Unknown(None, "tier lvie has said nothing of topic views")]


def test_what_cannot_be_read_or_was_removed_may_say_anything() -> None:
    received = received_of(*said_of(producer(), 10))
    assert unknowns(received, scan=replace(NOW, faults=("broker 2 is away",))) == [Unknown(None, "broker 2 is away")]
    cut = replace(NOW, since_ms=500)
    assert unknowns(received, scan=cut, from_ms=500) == []
    why = "reports were removed before they were read"
    assert unknowns(received, scan=cut, from_ms=499) == [Unknown(None, why, "removed reports")]
    received.add(Acceptance(accepted="removed reports", at_ms=500))
    assert unknowns(received, scan=cut, from_ms=499) == []


def test_an_operator_accepts_that_reports_were_removed() -> None:
    """Until some were removed that might have been checked again after that."""
    cut = replace(NOW, since_ms=500 + AGAIN_MS)
    said = said_of(producer(), 10)
    assert unknowns(received_of(*said, Acceptance(accepted=REMOVED, at_ms=500)), scan=cut, from_ms=499) == []
    assert unknowns(received_of(*said, Acceptance(accepted=REMOVED, at_ms=499)), scan=cut, from_ms=499) == [
        Unknown(None, "reports were removed before they were read", REMOVED)
    ]


def reader(copies: str = "", topic: str = TOPIC) -> Progress:
    return Progress(Instance("live", "r", "here", "live", copies=copies), topic)


def test_a_tier_is_as_far_as_it_has_read_to_the_ends() -> None:
    """Of all partitions that were ever named; a gap ends it, unless it is accepted."""
    progress = reader()
    progress.read(ONE, 0, 10)
    progress.read(TWO, 0, 10)
    first = progress.covered(1000, 990, {ONE: (0, 10), TWO: (0, 10)})
    progress.read(ONE, 10, 20)
    second = progress.covered(2000, 1990, {ONE: (0, 20), TWO: (0, 30)})
    progress.read(TWO, 20, 30)
    third = progress.covered(3000, 2990, {ONE: (0, 20)})
    closed = said_of(producer(), 10)
    why = "tier live has not said that it has read all of topic views in live"
    assert unknowns(received_of(*closed, first, second, third), "live") == [Unknown(890, why)]
    accepted = Acceptance(accepted=str(TWO), at_ms=1)
    assert unknowns(received_of(*closed, first, second, third, accepted), "live") == [Unknown(2890, why)]
    assert unknowns(received_of(*closed, first, third, accepted), "live") == [Unknown(890, why)]


def test_an_empty_partition_is_read() -> None:
    """Also one whose messages were all removed."""
    said = reader().covered(1000, 990, {ONE: (70, 70)})
    why = "tier live has not said that it has read all of topic views in live"
    assert unknowns(received_of(*said_of(producer(), 10), said), "live") == [Unknown(890, why)]


def test_reports_of_another_cluster_need_the_word_of_a_mirror() -> None:
    """That says how far it has copied them, and is old enough for what it speaks of to be here."""
    closed = said_of(producer(home="there"), 10)
    unknown = Unknown(None, "reports of cluster there come by no mirror that says so", "there")
    assert unknowns(received_of(*closed)) == [unknown]
    progress = reader("there", AUDIT_TOPIC)
    where = TopicPartition(AUDIT_TOPIC, 0, 0)
    progress.read(where, 0, 10)
    said = [progress.covered(4800, 4790, {where: (0, 10)}), progress.covered(4901, 4900, {where: (0, 10)})]
    received = received_of(*closed, *said)
    assert unknowns(received) == [Unknown(4690, "reports of cluster there are copied by a mirror", "there")]
    received.add(Acceptance(accepted="there", at_ms=4901))
    assert unknowns(received) == []


def test_what_comes_by_two_mirrors_is_as_old_as_the_second_one_is_far() -> None:
    """The word of the first may overtake what it speaks of, in another partition that the second has not copied yet."""
    where = TopicPartition(AUDIT_TOPIC, 0, 0)
    closed = said_of(producer(home="far"), 10)
    first = Progress(Instance("mirror", "one", "middle", "far", copies="far"), AUDIT_TOPIC)
    said = replace(first.covered(3000, 2900, {where: (0, 0)}), clock_ms=3000)
    second = Progress(Instance("mirror", "two", "here", "middle", copies="middle"), AUDIT_TOPIC)
    why = "reports of cluster far are copied by a mirror"
    early = second.covered(4000, 3099, {where: (0, 0)})
    received = received_of(*closed, said, early)
    assert Unknown(None, why, "far") in unknowns(received)
    received.add(second.covered(4100, 3100, {where: (0, 0)}))
    assert Unknown(2800, why, "far") in unknowns(received)
    received = received_of(*closed, said, early, Acceptance(accepted="middle", at_ms=4000))
    assert Unknown(2800, why, "far") in unknowns(received), "that no more comes from there was accepted"


def test_the_first_offsets_count_as_missing_if_a_report_of_them_is() -> None:
    """Else whoever lost its first counts would seem to have begun later."""
    progress = reader()
    progress.number([report_of()])  # it is lost
    progress.read(ONE, 0, 10)
    first = progress.covered(1000, 990, {ONE: (0, 10)})
    progress.read(ONE, 10, 20)
    second = progress.covered(2000, 1990, {ONE: (0, 20)})
    why = "tier live has not said that it has read all of topic views in live"
    assert unknowns(received_of(*said_of(producer(), 10), first, second), "live") == [Unknown(None, why)]
    again = Progress(Instance("live", "s", "here", "live"), TOPIC)
    again.read(ONE, 0, 12)
    assert unknowns(received_of(*said_of(producer(), 10), first, second, again.covered(3000)), "live") == [
        Unknown(1890, why)
    ]


def test_groups_in_two_clusters_are_told_apart() -> None:
    """Their partitions have the same names, and neither names its cluster."""
    here, there = (Progress(Instance("live", home, home), TOPIC) for home in ("here", "there"))
    here.read(ONE, 0, 10)
    there.read(ONE, 0, 3)
    copied = reader("there", AUDIT_TOPIC).covered(4800, 4900, {TopicPartition(AUDIT_TOPIC, 0, 0): (0, 0)})
    said = [here.covered(1000, 990, {ONE: (0, 10)}), there.covered(1000, 990, {ONE: (0, 9)}), copied]
    found = unknowns(received_of(*said_of(producer(), 10), *said), "live")
    why = "tier live has not said that it has read all of topic views in"
    assert [unknown for unknown in found if "read all" in unknown.why] == [
        Unknown(890, f"{why} here"),
        Unknown(None, f"{why} there"),
    ]


def test_what_is_accepted_is_what_was_said_by_the_clock_of_who_said_it() -> None:
    """So a death can be accepted of somebody whose clock was a day ahead, and not of somebody who goes on."""
    fast = said_of(producer(), 86_400_000, 86_400_010, is_closed=False)
    copied = Progress(Instance("mirror", "m", "here", "there", copies="there"), AUDIT_TOPIC).covered(70)
    received = received_of(*fast, copied)
    assert received.last_said() == {"p": 86_400_010, "m": 70, "there": 70}
    accepted = Acceptance(accepted="p", at_ms=received.last_said()["p"])
    assert [unknown for unknown in unknowns(received_of(*fast, accepted)) if unknown.accept == "p"] == []
    later = producer().through(86_400_011_000, None)
    assert [unknown.accept for unknown in unknowns(received_of(*fast, accepted, later))] == ["p"]
