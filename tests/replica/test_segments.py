"""What replicas ask each other about damage, as bytes."""

from __future__ import annotations

import pytest

from kafka2011.errors import ProtocolError
from kafka2011.replica.codec import WaitingFetch, decode_fetch, encode_fetch
from kafka2011.replica.exchange import ReplicaFetch
from kafka2011.replica.segments import (
    MOST_BYTES,
    Asker,
    DamageAsk,
    DamageGiven,
    DamageState,
    DigestAsk,
    DigestGiven,
    SegmentAsk,
    SegmentGiven,
    decode_comparison,
    decode_damage,
    decode_segment,
    decode_segment_ask,
    encode_comparison,
    encode_damage,
    encode_segment,
    encode_segment_ask,
)
from kafka2011.replica.state import Replica
from kafka2011.wire.protocol import decode_request, decode_response
from zk.cluster import TopicPartition

ID = 3
ASKER = Asker(7, Replica("b", "51f3"), TopicPartition("größe", ID, 2))
BYTES = SegmentAsk(ASKER, 2**40, 1000, 600, 400)
DAMAGE = DamageAsk(ASKER, 2**41)
DIGEST = DigestAsk(BYTES, b"d" * 32)
LISTED = DamageGiven.listed(2**40, 2**41, 2**42, b"damaged")


@pytest.mark.parametrize(("ask", "kind"), [(BYTES, 1), (DAMAGE, 2), (DIGEST, 3)])
def test_a_question_is_read_as_it_was_written(ask: SegmentAsk | DamageAsk | DigestAsk, kind: int) -> None:
    frame = encode_segment_ask(ask)
    assert frame[4:7] == b"\0\x66" + bytes([kind])
    assert decode_segment_ask(frame[4:], ID) == ask
    assert decode_segment_ask(memoryview(frame)[4:], ID) == ask


@pytest.mark.parametrize("given", [SegmentGiven(b"m1m2"), SegmentGiven(refusal="it is damaged there too")])
def test_bytes_of_a_segment_are_read_as_they_were_written(given: SegmentGiven) -> None:
    response = b"".join(part for part in encode_segment(given) if isinstance(part, bytes))
    assert decode_segment(decode_response(response[4:], "it")) == given


@pytest.mark.parametrize("given", [DamageGiven(DamageState.GOOD), DamageGiven(DamageState.REPAIRING, end=5), LISTED])
def test_what_is_damaged_is_read_as_it_was_written(given: DamageGiven) -> None:
    assert decode_damage(decode_response(encode_damage(given)[4:], "it")) == given


def test_damaged_bytes_are_known_by_their_digest() -> None:
    assert LISTED.is_whole
    assert not LISTED._replace(data=b"damagec").is_whole
    assert not DamageGiven(DamageState.LISTED).is_whole


def test_it_is_a_request_that_others_do_not_know() -> None:
    """Neither brokers of 0.7 nor replicas of 0.2.0: they are not asked."""
    frame = encode_segment_ask(BYTES)[4:]
    with pytest.raises(ProtocolError, match="type 102"):
        decode_request(frame)
    with pytest.raises(ProtocolError, match="type 102"):
        decode_fetch(frame, ID)


def test_the_request_of_older_releases_has_not_changed() -> None:
    """Byte for byte: 0.2.0 refuses what has anything more."""
    fetch = WaitingFetch(ReplicaFetch(7, Replica("b", "5")), 500)
    assert encode_fetch(fetch) == (b"\0\0\0\x18\0\x64\0\0\0\0\0\0\0\x07\0\0\x01\xf4\0\x01b\0\x015\0\0\0\0")


@pytest.mark.parametrize(
    "ask",
    [
        BYTES._replace(wanted_bytes=401),
        BYTES._replace(wanted_bytes=0),
        BYTES._replace(segment=-1),
        BYTES._replace(size_bytes=2**40, wanted_bytes=MOST_BYTES + 1),
        DAMAGE._replace(offset=-1),
    ],
)
def test_a_question_that_makes_no_sense_is_refused(ask: SegmentAsk | DamageAsk) -> None:
    with pytest.raises(ProtocolError):
        decode_segment_ask(encode_segment_ask(ask)[4:], ID)


@pytest.mark.parametrize("given", [DigestGiven(is_same=True), DigestGiven(is_same=False, refusal="it was deleted")])
def test_a_comparison_is_read_as_it_was_written(given: DigestGiven) -> None:
    body = encode_comparison(given)[6:]
    assert decode_comparison(body) == given
    with pytest.raises(ProtocolError):
        decode_comparison(body[:-1])
    with pytest.raises(ProtocolError):
        decode_comparison(body[:-1] + b"\2")


@pytest.mark.parametrize("ask", [BYTES, DAMAGE, DIGEST])
def test_a_question_that_is_cut_off_or_too_long_is_refused(ask: SegmentAsk | DamageAsk | DigestAsk) -> None:
    frame = encode_segment_ask(ask)[4:]
    for end in range(len(frame)):
        with pytest.raises(ProtocolError):
            decode_segment_ask(frame[:end], ID)
    with pytest.raises(ProtocolError, match="too many"):
        decode_segment_ask(frame + b"\0", ID)


def test_an_answer_that_is_cut_off_is_refused() -> None:
    body = encode_damage(LISTED)[6:]
    for end in range(len(body)):
        with pytest.raises(ProtocolError):
            decode_damage(body[:end])
    with pytest.raises(ProtocolError):
        decode_damage(b"\x07" + body[1:])
