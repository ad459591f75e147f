"""What a client of today reads through gateways is accounted for apart from 0.7's bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from integration.chaos.account import order, repeats, today
from integration.chaos.account.summary import account_of
from integration.chaos.records import MessageId, Place, outcome_line, read_told, sent_line, told_line
from integration.chaos.replica_today import TodayClient, find_wrong
from integration.gateway.endless import Line
from tests.support.chaos_evidence import WHERE, good_evidence, happened, logged, message, sent

if TYPE_CHECKING:
    from pathlib import Path

    from integration.chaos.evidence import Evidence

PRODUCER = "today.1"
KEY = (WHERE.topic, 0, WHERE)


def evidence_of_today() -> Evidence:
    """Two messages of 0.7, and two records that a client of today sent, which lie and are read behind them."""
    evidence = good_evidence()
    evidence.groups.clear()
    evidence.sent += [sent(0, producer=PRODUCER), sent(1, producer=PRODUCER)]
    evidence.logged += [logged(2, 0, producer=PRODUCER), logged(3, 1, producer=PRODUCER)]
    evidence.told = {message(number, PRODUCER): (WHERE.topic, 0, 2 + number) for number in range(2)}
    evidence.read_today = {
        KEY: [(0, message(0)), (1, message(1)), (2, message(0, PRODUCER)), (3, message(1, PRODUCER))],
    }
    return evidence


def rules(evidence: Evidence) -> set[str]:
    return {violation.rule for violation in today.find_wrong_for_today(evidence)}


def test_nothing_is_wrong() -> None:
    evidence = evidence_of_today()
    assert rules(evidence) == set()
    assert account_of(evidence).figures["acknowledged by gateways"] == 2
    assert rules(good_evidence()) == set()


def test_a_record_that_was_acknowledged_is_not_read() -> None:
    """A power cut does not excuse that: it was flushed. Retention does."""
    evidence = evidence_of_today()
    del evidence.read_today[KEY][-1]
    evidence.vanished.add(message(1, PRODUCER))
    assert rules(evidence) == {today.LOST}
    evidence.logged[-1] = evidence.logged[-1]._replace(gone="retention")
    assert rules(evidence) == set()


def test_a_confirmed_message_of_2011_is_not_read() -> None:
    evidence = evidence_of_today()
    del evidence.read_today[KEY][0]
    assert rules(evidence) == {today.MISSED}
    evidence.logged[0] = evidence.logged[0]._replace(gone="retention")
    assert rules(evidence) == set()


def test_a_record_is_read_twice() -> None:
    """A message of 0.7 may be: its producer sent it again."""
    evidence = evidence_of_today()
    evidence.read_today[KEY].append((4, message(0)))
    assert rules(evidence) == set()
    evidence.read_today[KEY].append((5, message(1, PRODUCER)))
    assert rules(evidence) == {today.MISPLACED, today.DISORDER}


def test_a_record_is_not_where_its_producer_was_told() -> None:
    evidence = evidence_of_today()
    evidence.told[message(1, PRODUCER)] = (WHERE.topic, 0, 7)
    assert rules(evidence) == {today.MISPLACED}


def test_a_record_is_acknowledged_without_an_offset() -> None:
    """A client that got no answer may guess, and has to be right."""
    evidence = evidence_of_today()
    evidence.told[message(1, PRODUCER)] = (WHERE.topic, 0, -1)
    evidence.happened.append(happened("kill member", 0.5, 2.0, "steady-1"))
    assert rules(evidence) == {today.UNPLACED}
    evidence.happened.append(happened("kill gateway", 0.5, 2.0, "gateway-1"))
    assert rules(evidence) == set()
    assert today.count_guessed(evidence) == 1
    evidence.happened[-1] = happened("kill broker", 0.5, 2.0, "broker-0")
    assert rules(evidence) == set()
    del evidence.read_today[KEY][-1]
    assert rules(evidence) == {today.UNPLACED, today.LOST}


def test_the_java_producer_never_guesses() -> None:
    """An offset of -1 was in an answer."""
    evidence = evidence_of_today()
    evidence.sent.append(sent(2, producer="today.java"))
    evidence.read_today[KEY].append((4, message(2, "today.java")))
    evidence.happened.append(happened("kill gateway", 0.5, 2.0, "gateway-1"))
    evidence.told[message(2, "today.java")] = (WHERE.topic, 0, 4)
    assert rules(evidence) == set()
    evidence.told[message(2, "today.java")] = (WHERE.topic, 0, -1)
    assert rules(evidence) == {today.UNPLACED}


def test_after_retention_a_record_may_have_a_higher_offset() -> None:
    """A gateway that takes over cannot count what was removed before."""
    evidence = evidence_of_today()
    evidence.read_today[KEY][-1] = (7000, message(1, PRODUCER))
    assert rules(evidence) == {today.MISPLACED}
    evidence.happened.append(happened("retention", 2.0, 3.0, f"broker-{WHERE.broker_id}", "steady-1"))
    assert rules(evidence) == set()
    assert today.count_jumped(evidence) == 1
    evidence.told[message(1, PRODUCER)] = (WHERE.topic, 0, 7001)
    assert rules(evidence) == {today.MISPLACED}


def test_records_are_read_in_another_order() -> None:
    evidence = evidence_of_today()
    evidence.read_today[KEY][2:] = [(2, message(1, PRODUCER)), (3, message(0, PRODUCER))]
    evidence.told.clear()
    assert today.DISORDER in rules(evidence)


def read_by_java(*texts: str) -> Evidence:
    """Return evidence of a Java consumer that has written these lines, one a second, as `got keyed.1:0`."""
    evidence = evidence_of_today()
    pairs = [text.split(" ") for text in texts]
    evidence.endless[WHERE.topic] = [
        Line(float(at_s), what.encode(), "java-member", "0", value.encode()) for at_s, (what, value) in enumerate(pairs)
    ]
    return evidence


ALL_READ = ("has -", "got keyed.1:0", "got keyed.1:1", "got today.1:0", "got today.1:1")


def test_a_java_consumer_reads_all() -> None:
    """The consumer may read messages again that it had not committed."""
    assert rules(read_by_java(*ALL_READ, "done today.1:1")) == set()
    again = read_by_java(*ALL_READ, "done keyed.1:1", "has -", "got today.1:0", "got today.1:1")
    assert rules(again) == set()


def test_a_java_consumer_misses_a_message() -> None:
    assert rules(read_by_java(*ALL_READ[:-1])) == {today.MISSED_BY_JAVA}
    assert rules(read_by_java()) == {today.MISSED_BY_JAVA}


def test_a_java_consumer_reads_again_what_it_had_committed() -> None:
    """A message of 0.7 that lies twice is read twice."""
    again = read_by_java(*ALL_READ, "done today.1:0", "has -", "got today.1:0", "got today.1:1")
    assert rules(again) == {today.AGAIN_TO_JAVA}
    twice = read_by_java(*ALL_READ, "done today.1:1", "has -", "got keyed.1:0")
    assert rules(twice) == {today.AGAIN_TO_JAVA}
    twice.logged.append(logged(4, 0))
    twice.read_today[KEY].append((4, message(0)))
    assert rules(twice) == set()


def test_a_java_consumer_reads_what_nobody_sent() -> None:
    assert rules(read_by_java(*ALL_READ, "got ?")) == {today.ALTERED_TO_JAVA}


def test_what_retention_removed_may_be_missing_to_a_java_consumer() -> None:
    """The account allows that also if the consumer had read and committed it before."""
    evidence = read_by_java(*ALL_READ, "done keyed.1:0", "has -", "got keyed.1:1")
    evidence.logged[0] = evidence.logged[0]._replace(gone="retention")
    del evidence.read_today[KEY][0]
    assert rules(evidence) == set()


@pytest.mark.parametrize(("whom", "is_explained"), [("gateway-1", True), ("steady-1", False)])
def test_bytes_that_lie_twice_are_explained_by_a_gateway(whom: str, is_explained: bool) -> None:
    evidence = evidence_of_today()
    evidence.sent[-1] = evidence.sent[-1]._replace(resends=1)
    evidence.logged.append(logged(4, 1, producer=PRODUCER))
    evidence.happened.append(happened("kill gateway", 0.5, 2.0, whom))
    _, wrong = repeats.repeats_in_logs(evidence)
    assert (wrong == []) is is_explained


def test_what_a_producer_was_told_is_read_back() -> None:
    lines = [sent_line(1.0, 0, "chaos-1", "k1", ""), told_line(1.5, 0, 3, 17), sent_line(2.0, 1, "chaos-2", "k1", "")]
    told = read_told(PRODUCER, [line.decode() for line in lines])
    assert told == {MessageId(PRODUCER, 0): ("chaos-1", 3, 17)}
    assert MessageId(PRODUCER, 0).is_of_today
    assert not MessageId("keyed.1", 0).is_of_today


def test_with_replicas_each_rule_is_named_once() -> None:
    evidence = evidence_of_today()
    assert list(find_wrong(evidence)) == []
    evidence.read_today[KEY] += [(4, message(1, PRODUCER)), (5, message(1, PRODUCER))]
    evidence.logged[2:] = reversed(evidence.logged[2:])
    texts = list(find_wrong(evidence))
    assert [text.split(": ")[0] for text in texts] == [
        f"4 times {today.MISPLACED}",
        f"2 times {today.DISORDER}",
        f"1 times {order.BY_KEY}",
    ]


def test_what_a_client_of_today_wrote_down_is_accounted_for(tmp_path: Path) -> None:
    """With what was confirmed to producers of 0.7, and what the logs have."""
    client = TodayClient([], tmp_path)
    mine, other = MessageId(PRODUCER, 0), MessageId("p0", 0)
    lines = [sent_line(1.0, 0, "chaos-1", "k1", ""), told_line(2.0, 0, 3, 17), outcome_line(2.0, 0, "confirmed", 1)]
    (tmp_path / f"{PRODUCER}.notes").write_bytes(b"".join(lines))
    stored = {Place(WHERE, 70, 0): mine, Place(WHERE, 9, 1): other, Place(WHERE, 9, 0): None}
    evidence = client.evidence(stored, [other])
    assert {each.message for each in evidence.confirmed()} == {mine, other}
    assert [(each.place.offset, each.message, each.key) for each in evidence.logged] == [
        (9, None, "-"),
        (9, other, "-"),
        (70, mine, "k1"),
    ]
    assert evidence.told == {mine: ("chaos-1", 3, 17)}
