"""The counter of one process."""

from __future__ import annotations

import os
import random
import uuid
from typing import TYPE_CHECKING

import pytest

from kafka2011.audit.counter import AuditCounter, CounterLimits
from kafka2011.audit.progress_report import Ends, Reported
from kafka2011.audit.report import AUDIT_TOPIC, AuditReport
from kafka2011.audit.windows import Windows
from kafka2011.errors import KafkaError
from kafka2011.events.codec import Stamp
from tests.support.audit_counters import TOPIC, EndsInMemory, ReportsInMemory, messages_of, new_stamp, payload_of
from tests.support.clocks import ManualClock
from tests.support.waiting import eventually
from zk.cluster import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture
def sink() -> ReportsInMemory:
    return ReportsInMemory()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def open_counter(sink: ReportsInMemory, clock: ManualClock) -> Iterator[Callable[..., AuditCounter]]:
    opened: list[AuditCounter] = []

    def make(**options: int) -> AuditCounter:
        opened.append(AuditCounter("live", sink, clock=clock, **options))  # type: ignore[arg-type]
        return opened[-1]

    yield make
    sink.is_away = False
    for counter in opened:
        counter.close()


@pytest.fixture
def stamps() -> list[Stamp]:
    chance = random.Random(3)
    return [new_stamp(chance) for _ in range(100)]


def test_what_was_sent_is_reported_by_window(
    open_counter: Callable[..., AuditCounter], sink: ReportsInMemory, stamps: list[Stamp]
) -> None:
    """Single messages and lists are the same to it."""
    counter = open_counter()
    counter.count(TOPIC, stamps[:1])
    counter.count(TOPIC, stamps[1:10])
    counter.report()
    [report] = sink.reports
    assert (report.tier, report.instance, report.topic, report.count) == ("live", counter.instance, TOPIC, 10)
    assert (report.window_ms, report.start_ms) == (10_000, 1_700_000_000_000)
    assert report.where is None
    counter.report()
    assert len(sink.reports) == 1


def test_what_was_read_is_reported_with_its_places(
    open_counter: Callable[..., AuditCounter], sink: ReportsInMemory, stamps: list[Stamp]
) -> None:
    """Of each partition for itself."""
    counter = open_counter()
    payloads = [payload_of(stamp) for stamp in stamps[:3]]
    counter.count_messages(messages_of(payloads, partition=1, first_offset=70))
    counter.count_messages(messages_of(payloads[:1], partition=2))
    counter.report()
    first, second = sink.reports
    assert (first.where, second.where) == (TopicPartition(TOPIC, 0, 1), TopicPartition(TOPIC, 0, 2))
    assert first.places is not None
    assert first.places.offsets.tolist() == [70, 80, 90]
    assert (first.start_offset, first.end_offset) == (70, 100)
    assert first.ids[0] == second.ids[0]


def test_messages_of_two_partitions_are_refused(open_counter: Callable[..., AuditCounter], stamps: list[Stamp]) -> None:
    """A list of a stream is of one."""
    payload = payload_of(stamps[0])
    with pytest.raises(ValueError, match="give those of one partition"):
        open_counter().count_messages([*messages_of([payload]), *messages_of([payload], partition=1)])


def test_a_window_is_reported_by_itself_when_it_is_over(
    open_counter: Callable[..., AuditCounter], sink: ReportsInMemory, clock: ManualClock, stamps: list[Stamp]
) -> None:
    """By a steady clock, and what comes late is one more report."""
    counter = open_counter()
    counter.count(TOPIC, stamps[:5])
    clock.now_s = 9.0
    counter.wake.set()
    eventually(lambda: not counter.wake.is_set())
    counter.count(TOPIC, stamps[5:6])
    assert sink.reports == []
    clock.now_s = 30.0
    counter.wake.set()
    eventually(lambda: sink.counted == 6, what="the first report")
    counter.count(TOPIC, stamps[6:7])
    clock.now_s = 60.0
    eventually(lambda: counter.counts()["counted"] == 7)
    clock.now_s = 90.0
    counter.wake.set()
    eventually(lambda: sink.counted == 7, what="the second report")


def test_reports_that_do_not_arrive_are_published_again(
    open_counter: Callable[..., AuditCounter], sink: ReportsInMemory, stamps: list[Stamp]
) -> None:
    """Whoever commits offsets hears of it, and nothing is lost; the same reports, should they have arrived."""
    counter = open_counter()
    counter.count(TOPIC, stamps)
    sink.is_away = True
    with pytest.raises(KafkaError, match="the broker is away"):
        counter.report()
    counter.count(TOPIC, stamps[:1])
    held = [each.report_id for each in counter.unconfirmed if isinstance(each, AuditReport)]
    sink.is_away = False
    counter.report()
    assert [report.count for report in sink.reports] == [100, 1]
    assert sink.reports[0].report_id == held[0]


def test_reports_to_a_cluster_that_is_away_go_on_when_it_is_back(
    open_counter: Callable[..., AuditCounter], sink: ReportsInMemory, stamps: list[Stamp]
) -> None:
    """The counter's own thread outlives any error."""
    counter = open_counter(limits=CounterLimits(max_messages=100))
    sink.is_away = True
    counter.count(TOPIC, stamps[:60])
    eventually(lambda: counter.counts()["failed_reports"] > 0)
    sink.is_away = False
    eventually(lambda: sink.counted == 60)


def test_a_producer_is_never_stopped(
    open_counter: Callable[..., AuditCounter],
    sink: ReportsInMemory,
    stamps: list[Stamp],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """What is more than may be held is dropped, counted and logged; it was never counted."""
    counter = open_counter(limits=CounterLimits(max_messages=50))
    sink.is_away = True
    counter.count(TOPIC, stamps[:50])
    counter.count(TOPIC, stamps[50:])
    assert counter.counts()["dropped"] == 50
    assert "Messages of topic views are not counted: 50 wait to be reported" in caplog.text
    sink.is_away = False
    counter.report()
    assert sink.counted == 50


def test_a_reader_reports_before_it_holds_too_much(
    open_counter: Callable[..., AuditCounter], sink: ReportsInMemory, stamps: list[Stamp]
) -> None:
    """It is told when that does not help, since it must not commit then."""
    counter = open_counter(limits=CounterLimits(max_messages=20))
    messages = messages_of([payload_of(stamp) for stamp in stamps[:10]])
    counter.count_messages(messages)
    assert sink.counted == 10
    sink.is_away = True
    with pytest.raises(KafkaError, match="the broker is away"):
        counter.count_messages(messages)


def test_a_reader_of_old_events_holds_few_windows(
    open_counter: Callable[..., AuditCounter], sink: ReportsInMemory
) -> None:
    """A year of events that is read at once has millions of windows."""
    counter = open_counter(limits=CounterLimits(max_windows=10))
    chance = random.Random(7)
    for day in range(5):
        stamp = new_stamp(chance, published_at_us=day * 86_400_000_000)
        counter.count_messages(messages_of([payload_of(stamp)], first_offset=10 * day))
    assert len(sink.reports) == 5


def test_what_cannot_be_counted_is_told(
    open_counter: Callable[..., AuditCounter],
    sink: ReportsInMemory,
    stamps: list[Stamp],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Payloads that are no events, ids that are no UUIDs, and times out of all bounds; the others are counted."""
    counter = open_counter()
    strange = [payload_of(Stamp(5, "no-uuid", 5)), b"a line of text", b""]
    counter.count_messages(messages_of([*strange, *map(payload_of, stamps[:2])], first_offset=40))
    assert "3 messages of topic views from offset 40 on cannot be counted" in caplog.text
    counter.count(TOPIC, [Stamp(2**70, stamps[0].id, 0), stamps[1]])
    counter.report()
    assert counter.counts()["unreadable"] == 4
    assert sink.counted == 3
    assert sink.reports[0].places is not None
    assert sink.reports[0].places.offsets.tolist() == [70, 80]


def test_reports_are_not_counted(
    open_counter: Callable[..., AuditCounter], sink: ReportsInMemory, stamps: list[Stamp]
) -> None:
    """Else each report would be followed by one about it."""
    counter = open_counter()
    counter.count(AUDIT_TOPIC, stamps)
    counter.count_messages(messages_of([payload_of(stamps[0])], topic=AUDIT_TOPIC))
    counter.report()
    assert sink.reports == []


def test_closing_reports_the_rest(sink: ReportsInMemory, stamps: list[Stamp]) -> None:
    """And lets go of the producer, also when it cannot."""
    with AuditCounter("producer", sink, windows=Windows(5)) as counter:
        counter.count(TOPIC, stamps)
    assert (sink.counted, sink.is_closed) == (100, True)
    counter.close()
    another = AuditCounter("producer", ReportsInMemory())
    another.publisher.is_away = True  # type: ignore[attr-defined]
    another.count(TOPIC, stamps)
    with pytest.raises(KafkaError, match="the broker is away"):
        another.close()
    assert another.publisher.is_closed  # type: ignore[attr-defined]


def test_a_forked_child_counts_for_itself(
    open_counter: Callable[..., AuditCounter], sink: ReportsInMemory, stamps: list[Stamp]
) -> None:
    """It reports under a name of its own, and nothing of what its parent has counted."""
    counter = open_counter()
    counter.count(TOPIC, stamps[:5])
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            counter.count(TOPIC, stamps[5:6])
            counter.report()
            os.write(writing, f"{[report.count for report in sink.reports]} {counter.instance}".encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    text = os.read(reading, 1000).decode()
    os.close(reading)
    os.close(writing)
    assert text.startswith("[1] ")
    assert counter.instance not in text
    counter.report()
    assert sink.counted == 5


def test_nothing_is_stamped_before_it_is_known_who_begins(
    open_counter: Callable[..., AuditCounter], sink: ReportsInMemory
) -> None:
    """Nobody would miss what an instance has published of which nobody has heard."""
    counter = open_counter()
    sink.is_away = True
    with pytest.raises(KafkaError, match="the broker is away"):
        counter.stamp(TOPIC, 5_000)
    sink.is_away = False
    assert counter.stamp(TOPIC, 7_000) == 7_000
    assert [(each.number, each.through_ms) for each in sink.progress_reports[:1]] == [(0, 5)]
    assert counter.has_begun(TOPIC)
    assert not counter.has_begun("clicks")


def test_it_is_through_what_has_ended(
    open_counter: Callable[..., AuditCounter], sink: ReportsInMemory, clock: ManualClock
) -> None:
    """What it has stamped may be counted, or fail; it says so each window, and stamps nothing before that."""
    counter = open_counter()
    one, two = counter.stamp(TOPIC, 5_000), counter.stamp(TOPIC, 6_000)
    clock.now_s = 20
    counter.report()
    counter.ended(TOPIC, [one])
    clock.now_s = 40
    counter.report()
    counter.ended(TOPIC, [two])
    clock.now_s = 60
    counter.report()
    assert [each.through_ms for each in sink.progress_reports] == [5, 5, 6, 60_000]
    assert counter.stamp(TOPIC, 7_000) == 60_000_000
    assert counter.stamp(AUDIT_TOPIC, 7_000) == 7_000


def test_what_was_dropped_is_never_through(
    open_counter: Callable[..., AuditCounter], sink: ReportsInMemory, clock: ManualClock
) -> None:
    """Nobody can tell what it was, so it does not close either."""
    counter = open_counter(limits=CounterLimits(max_messages=2))
    sink.is_away = True
    stamps = [Stamp(number * 1_000_000, str(uuid.uuid4()), 0) for number in range(5, 8)]
    counter.count(TOPIC, stamps)
    sink.is_away = False
    clock.now_s = 50
    counter.close()
    assert (sink.progress_reports[-1].through_ms, sink.progress_reports[-1].is_last) == (5_000, False)


def test_closing_says_that_nothing_more_comes(
    open_counter: Callable[..., AuditCounter], sink: ReportsInMemory, stamps: list[Stamp]
) -> None:
    """Once."""
    counter = open_counter()
    counter.count(TOPIC, stamps)
    counter.close()
    counter.close()
    assert [each.is_last for each in sink.progress_reports] == [False, True]
    assert [sink.reports[0].number, sink.progress_reports[-1].number] == [1, 2]


def test_a_reader_says_what_it_has_reported_and_where_partitions_end(
    sink: ReportsInMemory, stamps: list[Stamp], clock: ManualClock
) -> None:
    """What it has read only says that with all its reports; where partitions end, it says each window."""
    where = TopicPartition(TOPIC, 0, 0)
    lookup = EndsInMemory({where: (0, 50)})
    with AuditCounter("live", sink, clock=clock, home="here", ends_lookup=lookup) as counter:
        counter.count_messages(messages_of([payload_of(stamp) for stamp in stamps[:3]]))
        counter.report()
        begun, reported = sink.progress_reports
        assert (begun.reported, begun.ends) == ((), ())
        assert (reported.reported, reported.ends) == ((Reported(where, 0, 30),), ())
        assert (reported.home, reported.first, reported.number) == ("here", 1, 2)
        clock.now_s = 11
        counter.wake.set()
        eventually(lambda: len(sink.progress_reports) == 3, what="a lookup")
        assert (sink.progress_reports[-1].ends_at_ms, sink.progress_reports[-1].ends) == (11_000, (Ends(where, 0, 50),))
    assert lookup.is_closed


@pytest.mark.parametrize(
    ("cluster_ms", "at_ms"),
    [(5_000, 5_000), (11_000, 11_000), (400_000, 11_000), (None, None)],
    ids=["this clock is ahead", "both agree", "this clock is behind", "the cluster does not say"],
)
def test_ends_are_as_of_the_earlier_clock(
    sink: ReportsInMemory, stamps: list[Stamp], clock: ManualClock, cluster_ms: int | None, at_ms: int | None
) -> None:
    """A reader that is late and whose clock is ahead would else claim to have read what came after its look."""
    lookup = EndsInMemory({TopicPartition(TOPIC, 0, 0): (0, 50)}, cluster_ms)
    with AuditCounter("live", sink, clock=clock, home="here", ends_lookup=lookup) as counter:
        counter.count_messages(messages_of([payload_of(stamp) for stamp in stamps[:3]]))
        counter.report()
        clock.now_s = 11
        counter.wake.set()
        eventually(lambda: len(sink.progress_reports) == 3 or lookup.asked > 0, what="a lookup")
        counter.report()
    said = {each.ends_at_ms for each in sink.progress_reports if each.ends}
    assert said == ({at_ms} if at_ms else set())


def test_a_mirror_says_which_reports_it_has_copied(
    open_counter: Callable[..., AuditCounter], sink: ReportsInMemory, stamps: list[Stamp]
) -> None:
    """It counts none of them."""
    counter = open_counter()
    counter.begin_reading(AUDIT_TOPIC, "there")
    counter.count_messages(messages_of([payload_of(stamps[0])], topic=AUDIT_TOPIC))
    counter.report()
    assert [each.copies for each in sink.progress_reports] == ["there", "there"]
    assert sink.progress_reports[1].reported == (Reported(TopicPartition(AUDIT_TOPIC, 0, 0), 0, 10),)
    assert sink.reports == []
