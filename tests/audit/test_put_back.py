"""A topic audit that was put back to an earlier copy."""

from __future__ import annotations

from dataclasses import replace

from kafka2011.audit.progress import Instance, Progress
from kafka2011.audit.progress_report import Acceptance, ProgressReport
from kafka2011.audit.put_back import before_put_back
from kafka2011.audit.received import ReceivedReports
from kafka2011.audit.report import AUDIT_TOPIC
from kafka2011.audit.scan import AuditScan, Rules, Unknown
from kafka2011.audit.unknowns import Unknowns
from zk.cluster import TopicPartition

ONE, TWO = TopicPartition(AUDIT_TOPIC, 0, 0), TopicPartition(AUDIT_TOPIC, 1, 0)
SCAN = AuditScan(at_ms=5000, clock_ms=5000, home="here")


def said_of(instance: str, *looks: tuple[int, int, int]) -> list[ProgressReport]:
    """Return what a mirror says that has begun a ms before its first look: times, and where two partitions end."""
    progress = Progress(Instance("mirror", instance, "here", "there", copies="there"), AUDIT_TOPIC)
    said = [replace(progress.covered(looks[0][0] - 1), clock_ms=looks[0][0] - 1)]
    for at_ms, one, two in looks:
        progress.read(ONE, 0, one)
        progress.read(TWO, 0, two)
        ends = {ONE: (0, one), TWO: (0, two)}
        said.append(replace(progress.covered(at_ms, at_ms, ends), clock_ms=at_ms))
    return said


def newest(said: list[ProgressReport], accepted_ms: int | None = None) -> tuple[int, bool]:
    """Return when ends were looked up for the last time that counts, and whether reports may be lost."""
    found = before_put_back(said, accepted_ms)
    return max(each.ends_at_ms or 0 for each in found.progress_reports), found.is_put_back


def test_a_log_that_grows_was_not_put_back() -> None:
    """Nor if two mirrors look one after the other, and the first says it later."""
    assert newest(said_of("a", (100, 5, 5), (200, 5, 6), (300, 9, 9))) == (300, False)
    fast = [replace(each, clock_ms=99) for each in said_of("a", (100, 5, 5), (100, 6, 6))]
    assert newest(fast) == (100, False), "all in one ms"
    late = said_of("b", (150, 3, 3))
    late[-1] = replace(late[-1], clock_ms=250)
    assert newest([*said_of("a", (200, 5, 5)), *late]) == (200, False)
    assert newest([*said_of("a", (200, 5, 5)), *late[1:]]) == (200, False), "nobody knows when it began"


def test_what_was_said_before_a_log_was_put_back_counts() -> None:
    """By the same mirror, or by one that has begun later. It does not matter how much the log has grown since."""
    assert newest(said_of("a", (100, 5, 5), (200, 5, 4), (300, 9, 9))) == (100, True)
    after = said_of("b", (200, 4, 9), (300, 9, 9))
    assert newest([*after, *said_of("a", (100, 5, 5))]) == (100, True)


def test_an_operator_accepts_that_reports_are_lost() -> None:
    """Until it happens again."""
    said = said_of("a", (100, 5, 5), (200, 2, 2), (300, 3, 3))
    assert newest(said, 200) == (300, False)
    assert newest(said, 199) == (100, True)
    assert newest([*said, *said_of("b", (400, 3, 4))], 200) == (400, False)
    assert newest([*said, *said_of("b", (400, 1, 3))], 200) == (300, True)


def test_what_is_lost_is_unknown() -> None:
    """Of all that was published since the mirror looked last."""
    received, producer = ReceivedReports(), Progress(Instance("producer", "p", "there"), "views")
    received.add(producer.through(9_000_000, None, is_last=True))
    for each in said_of("a", (100, 5, 5), (200, 5, 4), (300, 9, 9)):
        received.add(each)
    rules = Rules(margin_ms=10, dead_after_ms=1000)
    why = "the topic audit of cluster there was put back, and reports may be lost with it"
    assert Unknown(90, why, "there") in Unknowns(received, SCAN, rules).of_topic("views", ())
    received.add(Acceptance(accepted="there", at_ms=299))
    why = "reports of cluster there are copied by a mirror"
    assert Unknown(290, why, "there") in Unknowns(received, SCAN, rules).of_topic("views", ())
