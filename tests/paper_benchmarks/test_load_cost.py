"""Messages that loads are measured with, the ways to load them, and what the chapter makes of the figures."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from kafka2011.audit.counter import AuditCounter
from kafka2011.events.codec import EventDecoder, read_stamps
from kafka2011.events.schemas import KnownSchemas
from paper_benchmarks.experiments import load_cost
from paper_benchmarks.loads.messages import CASES, LINE, VISIT, Case, Form, events, lines, schema_of
from paper_benchmarks.loads.ways import NONE, NONE_AUDIT, WAYS, warm_topic
from paper_benchmarks.systems.kafka import KIND as KAFKA
from paper_benchmarks.systems.kafka2011 import OWN, KafkaBroker
from tests.support.audit_counters import ReportsInMemory

SMALL = Case(Form.EVENT, 100)
"""With room for little text."""
DECODER = EventDecoder(KnownSchemas({}, [LINE, VISIT]))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_messages_have_the_size_that_their_case_says(case: Case) -> None:
    """Lines to the byte; events on average, as their numbers differ."""
    assert {len(line) for line in lines(case, 0, 50)} == {case.size_bytes}
    found = events(case, 0, 500)
    assert sum(map(len, found)) / len(found) == pytest.approx(case.size_bytes, abs=2)


def test_no_two_events_are_alike() -> None:
    """A topic is filled by parts, and a codec must not find one event twice; the same number is the same event."""
    first, second = events(SMALL, 0, 300), events(SMALL, 300, 300)
    assert len({DECODER.decode_payload(payload).fields["id"] for payload in (*first, *second)}) == 600
    assert events(SMALL, 0, 300) == first


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_audit_counts_the_events(case: Case) -> None:
    """An id of another form would be left out, and counting would seem to cost nothing."""
    with AuditCounter("producer", ReportsInMemory()) as counter:
        counter.count(case.topic, [stamp for stamp in read_stamps(events(case, 0, 100)) if stamp is not None])
    counts = counter.counts()
    assert (counts["counted"], counts["unreadable"]) == (100, 0)


def test_each_load_is_a_tier_of_its_own() -> None:
    """One table of a tier is the only one; a load without the audit has no tier."""
    broker = KafkaBroker(OWN, "here", 1, zk_connect="zk:2181")
    jobs = {way.name: [way.job(SMALL, broker, "/w") for _ in range(2)] for way in WAYS if way.kind == OWN}
    tiers = [job["tier"] for job in jobs[NONE_AUDIT]]
    assert len({*tiers, ""}) == 3
    assert [job["tier"] for job in jobs[NONE]] == ["", ""]
    job = jobs[NONE][0]
    assert (job["topic"], job["warm_topic"], job["zk_connect"]) == (SMALL.topic, warm_topic(SMALL), "zk:2181")


def test_others_decode_events_alone() -> None:
    """Lines are text to them; each form has a way of every kind."""
    broker = KafkaBroker("some", "here", 9092)
    for form in Form:
        case = Case(form, 200)
        ways = [way for way in WAYS if way.kind == KAFKA.name and form in way.forms]
        assert len(ways) == (2 if form is Form.LINE else 3)
        schemas = {way.job(case, broker, "/w")["schema"] for way in ways}
        assert schemas == {schema_of(form).text if form is Form.EVENT else ""}
        assert {way.job(case, broker, "/w")["address"] for way in ways} == {"here:9092"}


def test_confluents_way_has_the_same_columns_whatever_decodes() -> None:
    """And the same values as our decoder."""
    for module in ("confluent_kafka", "pyruhvro"):
        pytest.importorskip(module)
    from paper_benchmarks.workers.load_delta_rs import decoder_of

    payloads = events(Case(Form.EVENT, 200), 0, 20)
    found = [decoder_of(library, VISIT.text)(payloads) for library in ("pyruhvro", "fastavro")]
    columns = [{name: column.to_pylist() for name, column in each.items()} for each in found]
    assert columns[0] == columns[1]
    expected = [DECODER.decode_payload(payload).fields for payload in payloads]
    for name in ("id", "member_id", "seconds", "url"):
        assert columns[0][name] == [event[name] for event in expected]
    assert decoder_of("text", "")([b"a line"])["line"].to_pylist() == ["a line"]


def body(**costs: list[float]) -> dict[str, Any]:
    """Return what was measured of one case: the client's costs by line, and 1 us of the broker's."""
    found = [
        {"line": line, "client_cpu_us": us, "server_cpu_us": [1.0], "rate": [1000.0], "file_bytes": [40.0]}
        for line, us in costs.items()
    ]
    cases = [{"form": "event", "size_bytes": 200, "messages": 5000, "lines": found}]
    return json.loads(json.dumps({"cases": cases, "lines_left_out": {"Spark": "no jars"}}))  # type: ignore[no-any-return]


def test_the_audits_share_is_that_of_each_round() -> None:
    """The difference to the load without it in the same round, as a part of the load with it."""
    found = load_cost.shares(body(**{NONE: [3.0, 2.0, 9.0], NONE_AUDIT: [4.0, 2.5, 10.0]}))
    assert found == {NONE: [pytest.approx(0.2)]}


def test_the_chapter_names_cases_lines_and_what_is_left_out() -> None:
    text = load_cost.chapter(body(**{NONE: [3.0, 2.0, 9.0], NONE_AUDIT: [4.0, 2.5, 10.0]}), Path("pictures"))
    assert "### Events of 200 bytes\n\n5,000 messages." in text
    assert f"| {NONE} | 3.00 (2.00 to 9.00) | 1.00 | 1,000 | 40.0 |" in text
    assert "Left out: Spark: no jars." in text
    assert f"| {NONE} | 20.0 |" in text


def test_every_line_says_what_differs_from_it() -> None:
    """The table has a cell for each of the three."""
    assert Counter(len(row) for row in load_cost.UNLIKE) == {4: len(load_cost.UNLIKE)}
    assert all(all(row) for row in load_cost.UNLIKE)
