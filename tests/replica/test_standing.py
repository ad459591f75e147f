from __future__ import annotations

import json

import pytest

from kafka2011.errors import ProtocolError
from kafka2011.replica.exchange import Ask, ReplicaFetch
from kafka2011.replica.standing import Standing, decode_answer, encode_answer, encode_request
from kafka2011.replica.state import Replica, ReplicaState
from kafka2011.replica.term import Term, TermRules
from kafka2011.wire.protocol import decode_response
from tests.models.replica.logs import ModelLog
from zk.cluster import TopicPartition

A, B, C = Replica("a", "9c2e"), Replica("b", "51f3"), Replica("c", "77")
VIEWS, CLICKS = TopicPartition("views", 3, 0), TopicPartition("clicks", 3, 0)


def test_the_request_is_four_bytes_in_a_frame() -> None:
    assert encode_request() == bytes.fromhex("00000002 0065")


def test_what_is_answered_is_read() -> None:
    standings = [Standing(B, True, 0, 0.25), Standing(C, False, 12345678901, 3600.0)]
    assert decode_answer(decode_response(encode_answer(standings)[4:], "it"), "a") == standings
    assert decode_answer(decode_response(encode_answer([])[4:], "it"), "a") == []


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"followers": 7},
        {"followers": [7]},
        {"followers": [{"replica": "b:51f3", "in_sync": 1, "bytes_behind": 0, "seconds_behind": 0}]},
        {"followers": [{"replica": "b", "in_sync": True, "bytes_behind": 0, "seconds_behind": 0}]},
        {"followers": [{"replica": "b:51f3", "in_sync": True, "bytes_behind": "0", "seconds_behind": 0}]},
        {"followers": [{"replica": "b:51f3", "in_sync": True, "bytes_behind": 0, "seconds_behind": None}]},
    ],
)
def test_what_makes_no_sense_names_the_leader(document: object) -> None:
    with pytest.raises(ProtocolError, match="the leader a does not say how its followers are"):
        decode_answer(json.dumps(document).encode(), "the leader a")
    with pytest.raises(ProtocolError, match="the leader a"):
        decode_answer(b"\xff{", "the leader a")


def test_a_leader_knows_how_far_each_follower_is_behind() -> None:
    """In bytes that it has yet to fsync, of all logs; in seconds since it had all that there was."""
    views, clicks = ModelLog(), ModelLog()
    views.append(b"m1m2m3", 0)
    clicks.append(b"m1", 0)
    clicks.begin_at(100)  # what is deleted at the leader nobody has to fetch
    clicks.append(b"m1", 100)
    for log in (views, clicks):
        log.flush()
    term = Term(
        A,
        ReplicaState(7, A, frozenset({A, B})),
        12,
        TermRules(4.0, 1, max_bytes=4),
        logs={VIEWS: views, CLICKS: clicks},
        readable={},
        now_s=10.0,
    )
    assert term.standings(11.5) == [Standing(B, True, 8, 1.5)]
    for now_s in (12.0, 13.0):
        term.answer(ReplicaFetch(7, B, {VIEWS: Ask(6, 6), CLICKS: Ask(102, 102)}), now_s)
    term.answer(ReplicaFetch(7, C, {VIEWS: Ask(4, 4), CLICKS: Ask(0, None)}), 13.0)
    assert term.standings(13.0) == [Standing(B, True, 0, 1.0), Standing(C, False, 4, 0.0)]
