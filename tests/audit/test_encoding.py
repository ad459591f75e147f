"""The monitoring event."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from kafka2011.audit.encoding import AUDIT_COUNT, InvalidReportError, report_from, to_event
from kafka2011.audit.progress_report import Acceptance, Ends, ProgressReport, Reported
from kafka2011.audit.report import AUDIT_TOPIC, MAX_REPORT_MESSAGES, AuditReport, Places
from kafka2011.audit.table_report import CommitKey, CommitPart, ListedCommit, TableDoubt, TableReport
from kafka2011.events.codec import Event, EventDecoder, EventEncoder, read_stamp
from zk.cluster import TopicPartition

if TYPE_CHECKING:
    from kafka2011.events.schemas import EventSchema

NOW_US = 1_700_000_000_000_000


class OneSchema:
    """Knows the schema of reports alone."""

    def schema_of(self, fingerprint: str) -> EventSchema:
        assert fingerprint == AUDIT_COUNT.fingerprint
        return AUDIT_COUNT

    def newest(self, topic: str) -> EventSchema:
        assert topic == AUDIT_TOPIC
        return AUDIT_COUNT


def report(messages: int = 3, places: Places | None = None, **fields: Any) -> AuditReport:
    ids = np.arange(2**64 - messages, 2**64, dtype=np.uint64) if messages else np.empty(0, np.uint64)
    chosen = {"tier": "live", "instance": "one", "topic": "views", "window_ms": 10, "start_ms": 20, **fields}
    return AuditReport(ids=ids, places=places, **chosen)


def through_bytes(given: AuditReport) -> AuditReport:
    payload = EventEncoder(OneSchema()).encode(AUDIT_TOPIC, to_event(given, NOW_US, "web1"))
    found = report_from(EventDecoder(OneSchema()).decode_payload(payload))
    assert isinstance(found, AuditReport)
    return found


def test_a_producers_report_comes_back_as_it_was() -> None:
    """With its id, by which a second copy of it is known."""
    given = report()
    found = through_bytes(given)
    assert (found.tier, found.instance, found.topic, found.window_ms, found.start_ms, found.report_id) == (
        "live",
        "one",
        "views",
        10,
        20,
        given.report_id,
    )
    assert found.ids.tolist() == given.ids.tolist()
    assert (found.where, found.places) == (None, None)
    payload = EventEncoder(OneSchema()).encode(AUDIT_TOPIC, to_event(given, NOW_US, "web1"))
    assert read_stamp(payload)[:2] == (NOW_US, given.report_id)


@pytest.mark.parametrize("indexes", [[0, 0, 0], [0, 1, 2]])
def test_a_readers_report_comes_back_as_it_was(indexes: list[int]) -> None:
    """With the partition, the range and each message's place."""
    where = TopicPartition("views", 2, 1)
    places = Places(np.array([5, 5, 2**40]), np.array(indexes, np.int32))
    part = CommitPart(CommitKey("id", 7, "a"), 2, 10)
    given = report(places=places, where=where, cluster="east", start_offset=5, end_offset=2**40 + 9, part=part)
    found = through_bytes(given)
    assert found.part == part
    assert (found.cluster, found.where, found.start_offset, found.end_offset) == ("east", where, 5, 2**40 + 9)
    assert found.places is not None
    assert (found.places.offsets.tolist(), found.places.indexes.tolist()) == ([5, 5, 2**40], indexes)


def test_the_largest_report_is_below_what_a_consumer_of_07_fetches() -> None:
    """300 KiB are fetched there at once, and a larger message stops the consumer."""
    messages = MAX_REPORT_MESSAGES
    places = Places(np.arange(messages), np.arange(messages, dtype=np.int32))
    given = report(messages, places, where=TopicPartition("views", 2, 1), start_offset=0, end_offset=messages)
    payload = EventEncoder(OneSchema()).encode(AUDIT_TOPIC, to_event(given, NOW_US, "web1"))
    assert len(payload) < 300 * 1024


def as_before(given: AuditReport) -> dict[str, Any]:
    """Return the fields of a report as it was written before there were layouts."""
    fields = {**to_event(given, NOW_US, "web1"), "ids": given.ids.astype("<u8").tobytes(), "layout": 0}
    if given.places is not None:
        fields["offsets"] = given.places.offsets.astype("<i8").tobytes()
        fields["indexes"] = given.places.indexes.astype("<i4").tobytes() if given.places.indexes.any() else b""
    return fields


@pytest.mark.parametrize("indexes", [[0, 0, 0], [0, 1, 2]])
def test_a_report_from_before_there_were_layouts(indexes: list[int]) -> None:
    """It is read as it was."""
    places = Places(np.array([5, 5, 2**40]), np.array(indexes, np.int32))
    given = report(places=places, where=TopicPartition("views", 2, 1), start_offset=5, end_offset=2**40 + 9)
    found = report_from(Event(AUDIT_COUNT, as_before(given)))
    assert isinstance(found, AuditReport)
    assert found.places is not None
    assert found.ids.tolist() == given.ids.tolist()
    assert [each.tolist() for each in found.places] == [each.tolist() for each in places]


def test_ids_and_places_come_back_sorted() -> None:
    """Each on their own, since sets are all that is compared; places by offset, then by number in the set."""
    places = Places(np.array([70, 5, 5]), np.array([0, 1, 0], np.int32))
    ids = np.array([9, 2**63, 1], np.uint64)
    given = replace(report(places=places, where=TopicPartition("views", 2, 1), start_offset=5, end_offset=90), ids=ids)
    found = through_bytes(given)
    assert found.places is not None
    assert found.ids.tolist() == [1, 9, 2**63]
    assert (found.places.offsets.tolist(), found.places.indexes.tolist()) == ([5, 5, 70], [0, 1, 0])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"ids": b"1234567"}, "7 bytes are not 3 packed numbers"),
        ({"ids": b"", "count": 0}, "count 0"),
        ({"count": 5}, "24 bytes are not 5 packed numbers"),
        ({"count": MAX_REPORT_MESSAGES + 1, "ids": b""}, "at most 10000 are reported at once"),
        ({"window_ms": 0}, "window_ms 0"),
        ({"partition": 0}, "broker_id None, partition 0"),
        ({"broker_id": 0, "partition": 0, "offsets": bytes(16)}, "16 bytes are not 3 packed numbers"),
        ({"layout": 2}, "layout 2 is not understood"),
        ({"layout": 0, "ids": bytes(23)}, "buffer size must be a multiple"),
        ({"layout": 0, "ids": b""}, "0 ids, count 3"),
        ({"layout": 0, "broker_id": 0, "partition": 0, "ids": bytes(24), "offsets": bytes(16)}, "2 offsets, count 3"),
        ({"tier": None}, "tier"),
    ],
)
def test_events_that_are_no_reports(change: dict[str, Any], words: str) -> None:
    """They are refused with their id, so that the audit goes on without them."""
    given = report()
    fields = {**to_event(given, NOW_US, "web1"), **change}
    if fields["tier"] is None:
        del fields["tier"]
    with pytest.raises(InvalidReportError, match=f"AuditCount {given.report_id} is not a report: .*{words}"):
        report_from(Event(AUDIT_COUNT, fields))


def test_what_is_said_beside_counting_comes_back_as_it_was() -> None:
    """Progress of sources and readers, and what an operator accepts."""
    where = TopicPartition("views", 3, 1)
    source = ProgressReport(
        tier="producer",
        instance="one",
        topic="views",
        number=7,
        clock_ms=2**41,
        first=5,
        at_ms=20,
        home="here",
        follows=("zero",),
        through_ms=10,
        is_last=True,
    )
    reader = ProgressReport(
        tier="mirror",
        instance="two",
        topic="views",
        number=0,
        first=0,
        at_ms=20,
        cluster="live",
        reported=(Reported(where, 0, 70),),
        ends_at_ms=19,
        ends=(Ends(where, 0, 70), Ends(TopicPartition("views", 4, 0), None, None)),
        copies="there",
    )
    table = TableReport(
        tier="load",
        topic="views",
        table="id",
        generation=2,
        sequence=5,
        at_ms=20,
        home="here",
        version=9,
        commits=(ListedCommit(4, "a", 3, 10), ListedCommit(2, "b")),
        is_whole=False,
        doubts=(TableDoubt("id/2", 30, "nobody counted it"), TableDoubt("id@8", 40, "DELETE", is_removal=True)),
        reported=(Reported(where, 0, 70),),
        earlier=(Reported(where, 0, 20),),
        ends_at_ms=19,
        ends=(Ends(where, 0, 70), Ends(TopicPartition("views", 4, 0), None, None)),
    )
    for given in (
        source,
        reader,
        Acceptance(accepted="one", at_ms=30),
        table,
        replace(table, ends_at_ms=None, ends=()),
    ):
        payload = EventEncoder(OneSchema()).encode(AUDIT_TOPIC, to_event(given, NOW_US, "web1"))
        assert report_from(EventDecoder(OneSchema()).decode_payload(payload)) == given


@pytest.mark.parametrize(("number", "first"), [(None, 0), (3, 4), (3, -1)])
def test_a_statement_without_numbers_that_make_sense(number: int | None, first: int) -> None:
    """It would prove something of nothing."""
    said = ProgressReport(tier="producer", instance="one", topic="views", number=3, first=0, at_ms=20)
    fields = to_event(said, NOW_US, "web1")
    fields |= {"number": number, "statement": {**fields["statement"], "first": first}}
    with pytest.raises(InvalidReportError, match=f"number {number}, first {first}"):
        report_from(Event(AUDIT_COUNT, fields))


def test_a_report_from_before_there_were_numbers_has_none() -> None:
    """It counts, and cannot be missed."""
    fields = as_before(report())
    for name in ("number", "statement", "accepted", "layout", "clock"):
        fields.pop(name, None)
    assert report_from(Event(AUDIT_COUNT, {"cluster": "", **fields})).number is None  # type: ignore[union-attr]
