"""Messages beside their bytes."""

from __future__ import annotations

import json
from random import Random

import pytest

from kafka2011.message.compression import Codec
from kafka2011.message.message_set import MessageSet
from kafka2011.ui.annotated import MOST_INSIDE, MOST_SHOWN_BYTES, annotate, first_message, text_of

HOSTILE = b"<script>alert(1)</script>"


def none(_payload: bytes) -> str | None:
    return None


@pytest.mark.parametrize("magic", [0, 1])
def test_every_byte_belongs_to_a_field(magic: int) -> None:
    """One after the other, from the first to the last; offsets follow one another."""
    names = ["length", "magic", *(["attributes"] if magic else []), "crc", "payload"]
    data = bytes(MessageSet([b"one", HOSTILE], magic=magic))
    first, second = annotate(data, 700, none)
    for each in (first, second):
        assert [field.name for field in each.fields] == names
        assert [field.start for field in each.fields[1:]] == [field.end for field in each.fields[:-1]]
        assert (each.fields[0].start, each.fields[-1].end, each.fault) == (0, each.size, "")
    assert (first.offset, second.offset, second.offset + second.size) == (700, 700 + first.size, 700 + len(data))
    assert bytes.fromhex(first.data + second.data) == data
    assert second.text == HOSTILE.decode()


def test_an_event_s_mark_and_fingerprint_are_fields() -> None:
    """And what it says comes from who can decode it."""
    payload = b"\xc3\x01" + bytes(range(8)) + b"body"
    [found] = annotate(bytes(MessageSet([payload])), 0, lambda each: f"decoded {len(each)}")
    assert [field.name for field in found.fields[-3:]] == ["mark", "fingerprint", "body"]
    assert "0001020304050607" in found.fields[-2].meaning
    assert found.text == "decoded 14"


def test_a_compressed_set_is_opened_so_far() -> None:
    """The first messages are shown, the others counted."""
    [found] = annotate(bytes(MessageSet([b"%d" % number for number in range(25)], Codec.GZIP)), 0, none)
    assert found.inside == [*map(str, range(MOST_INSIDE)), "and 5 more"]
    assert "compression: gzip" in found.fields[2].meaning


def test_what_is_wrong_is_said() -> None:
    """A flipped bit, a set that does not open or is a bomb, a message cut off, bytes that are none."""
    data = bytearray(bytes(MessageSet([b"payload"])))
    data[-1] ^= 1
    [flipped] = annotate(bytes(data), 0, none)
    assert "have changed" in flipped.fault
    assert "but the payload has" in flipped.fields[3].meaning
    [bomb] = annotate(bytes(MessageSet([b"\0" * 5_000_000], Codec.GZIP)), 0, none)
    assert (bomb.inside, bool(bomb.fault)) == ([], True)
    [cut] = annotate(bytes(MessageSet([b"payload"]))[:-3], 0, none)
    assert cut.fault == "only 14 of its 17 bytes were fetched"
    [junk] = annotate(b"\xff" * 30, 5, none)
    assert (junk.offset, junk.fields, "not a message" in junk.fault) == (5, [], True)
    [short] = annotate(b"\0\0\0", 0, none)
    assert "less than a header" in short.fault


def test_long_payloads_are_cut() -> None:
    """As bytes and as text."""
    [found] = annotate(bytes(MessageSet([b"x" * 100_000])), 0, none)
    assert (len(found.data), found.size) == (2 * (10 + MOST_SHOWN_BYTES), 100_010)
    assert found.text.endswith("… (100000 characters)")


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        (b'{"a": [1]}', json.dumps({"a": [1]}, indent=1)),
        (b"{not json", "{not json"),
        (b"[" * 1000, "[" * 1000),
        (b"\xff\xfe", "2 bytes that are not text"),
        ("grüße".encode(), "grüße"),
        (b"", ""),
    ],
)
def test_payloads_as_people_read_them(payload: bytes, text: str) -> None:
    """JSON with its lines, text as it is."""
    assert text_of(payload, none) == text


def test_the_first_message_is_found_from_the_middle_of_one() -> None:
    """Wherever the bytes begin; compressed sets are messages like others."""
    random = Random(7)
    parts = [
        bytes(MessageSet([random.randbytes(random.randrange(60)) for _ in range(3)], codec))
        for codec in (Codec.NONE, Codec.GZIP, Codec.NONE)
    ]
    data = b"".join(parts)
    starts = [each.offset for each in annotate(data, 0, none)]
    for begin in range(len(data)):
        expected = next((start - begin for start in starts if start >= begin), None)
        assert first_message(data[begin:]) == expected
    assert first_message(b"\0" * 100) is None
