"""What a broker checks of a produced set, against a naive reference, and what checking costs."""

from __future__ import annotations

import gzip
import struct
import tracemalloc
import zlib
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kafka2011.broker.requests import message_check
from kafka2011.broker.requests.message_check import STEP_MESSAGES, CheckedSet, MessageChecker
from kafka2011.errors import InvalidMessageError, InvalidMessageSizeError, MessageSizeTooLargeError
from kafka2011.message.compression import CHUNK_BYTES, STORED_BYTES, Codec, compress, decompress
from kafka2011.message.message_set import MAX_NESTING, MessageSet, decode, encode, scan

if TYPE_CHECKING:
    from kafka2011.message.message_set import Scan

pytestmark = pytest.mark.usefixtures("each_code")

MIB = 1024 * 1024
LIMIT = 100
"""max.message.size of the random sets."""
HELLO = encode(b"hello")
OLD = encode(b"old", magic=0)


def wrapper(codec: Codec, opened: bytes) -> bytes:
    return encode(compress(codec, opened), codec)


def check(data: bytes, max_message_bytes: int = MIB, max_opened_bytes: int = 100 * MIB) -> CheckedSet:
    return MessageChecker(max_message_bytes, max_opened_bytes).check(data)


def naive_split(data: bytes, limit: int, depth: int) -> tuple[list[tuple[int, bytes]], bytes]:
    """Return (codec, payload) of each whole message, and the bytes of the partial one behind them."""
    messages = []
    while len(data) >= 4:
        length = int.from_bytes(data[:4], "big", signed=True)
        body = data[4 : 4 + length]
        is_strange = length < 5 or (len(data) > 4 and (data[4] > 1 or (data[4] == 1 and length < 6)))
        if length < 5 or (is_strange and (depth or len(body) == length)):
            raise InvalidMessageError("bad")
        if len(body) < length:
            break
        codec, rest = (body[1] % 4, body[2:]) if body[0] == 1 else (0, body[1:])
        if zlib.crc32(rest[4:]) != int.from_bytes(rest[:4], "big"):
            raise InvalidMessageError("bad")
        if len(rest) - 4 > limit:
            raise MessageSizeTooLargeError
        messages.append((codec, rest[4:]))
        data = data[4 + length :]
    return messages, data


def naive_count(data: bytes, limit: int, depth: int = 0) -> tuple[int, int]:
    """Return the size of the whole messages and how many they are, opening everything at once."""
    messages, rest = naive_split(data, limit, depth)
    if depth > MAX_NESTING or (not messages and len(data) >= (1 if depth else 4)):
        raise InvalidMessageError("bad")
    count = 0
    for codec, payload in messages:
        count += naive_count(decompress(codec, payload), 2**31, depth + 1)[1] if codec else 1
    return len(data) - len(rest), count


_PLAIN = st.builds(
    lambda payload, magic: encode(payload, magic=magic), st.binary(max_size=120), st.sampled_from([0, 1])
)
_ANY = st.recursive(
    _PLAIN,
    lambda inside: st.builds(
        lambda codec, parts, cut: wrapper(codec, b"".join(parts)[: None if cut == 0 else -cut]),
        st.sampled_from([Codec.GZIP, Codec.SNAPPY]),
        st.lists(inside, max_size=3),
        st.sampled_from([0, 0, 0, 1, 5]),
    ),
    max_leaves=8,
)


@st.composite
def produced(draw: st.DrawFn) -> bytes:
    """Draw a set as clients might send it: good, cut, with garbage behind it, or damaged."""
    data = bytearray(b"".join(draw(st.lists(_ANY, max_size=4))))
    kind = draw(st.sampled_from(["good", "cut", "tail", "damaged"]))
    if kind == "cut":
        del data[draw(st.integers(0, len(data))) :]
    elif kind == "tail":
        data += draw(st.binary(max_size=12))
    elif kind == "damaged" and data:
        data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    return bytes(data)


@given(produced())
@example(b"")
@example(b"\xff" * 3)
@example(HELLO + b"\0\0\0\x0b\2")
@example(HELLO + b"\0\0\0\x0b\2" + bytes(10))
@example(wrapper(Codec.GZIP, HELLO + b"\0\0\0\x0b\2"))
@example(HELLO + b"\0\0\0\x05\1")
@example(encode(bytes(LIMIT + 1)) + b"\xff" * 4)
@example(b"\xff" * 4 + encode(bytes(LIMIT + 1)))
@example(wrapper(Codec.GZIP, HELLO[:-1]))
def test_like_the_naive_reference(data: bytes) -> None:
    """Same messages, same count, same refusals as a check that opens everything at once."""
    try:
        end, messages = naive_count(data, LIMIT)
    except (InvalidMessageError, MessageSizeTooLargeError) as error:
        with pytest.raises(type(error)):
            check(data, LIMIT)
    else:
        assert check(data, LIMIT) == (data[:end], messages)


@given(produced())
def test_what_is_accepted_can_be_consumed(data: bytes) -> None:
    """Consumers decode exactly the sets that brokers take: none is stored that would stop them."""
    try:
        checked = check(data)
    except InvalidMessageError:
        try:
            decoded = list(decode(data, "t", 0, 0, 0))
        except (InvalidMessageError, InvalidMessageSizeError):
            return
        raise AssertionError(f"refused, although it decodes to {decoded}") from None
    assert len(list(decode(bytes(checked.data), "t", 0, 0, 0))) == checked.messages


@given(st.binary(max_size=200))
def test_garbage_raises_only_message_errors(data: bytes) -> None:
    """Random bytes are refused, or hold messages."""
    try:
        checked = check(data)
    except InvalidMessageError:
        return
    assert scan(data).end == len(checked.data)


@pytest.mark.parametrize("partial", [b"\0\0\0\x0b", b"\0\0\0\x0b\2", b"\0\0\0\x0b\xff12345", b"\0\0\0\5\1", b"\0\0\0"])
def test_whatever_is_cut_off_at_the_end_is_left_out(partial: bytes) -> None:
    """As 0.7.2 does: it looks at nothing of a message that is not all there."""
    assert check(HELLO + partial) == (HELLO, 1)
    with pytest.raises(InvalidMessageError):
        check(HELLO + b"\0\0\0\4\2" + bytes(9))
    if len(partial) >= 4:
        with pytest.raises(InvalidMessageError):
            check(partial)


@pytest.mark.parametrize("data", [b"\0", b"\xff\xff", b"\0\0\1"])
def test_a_few_bytes_are_an_empty_set(data: bytes) -> None:
    """As for 0.7.2: too few for a length, so there is nothing to look at."""
    assert check(data) == (b"", 0)


def test_a_set_that_is_whole_is_not_copied() -> None:
    """What goes to the log is the very object that was cut out of the frame."""
    data = HELLO * 3
    assert check(data).data is data
    compressed = wrapper(Codec.GZIP, data)
    assert check(compressed).data is compressed


def test_outer_payloads_are_held_against_max_message_size() -> None:
    """Exactly max.message.size passes; what a wrapper opens to has a limit of its own."""
    assert check(encode(bytes(100)), 100).messages == 1
    assert check(encode(bytes(100)) + wrapper(Codec.GZIP, HELLO), 100).messages == 2
    with pytest.raises(MessageSizeTooLargeError, match=r"101 bytes exceeds max\.message\.size 100"):
        check(HELLO + encode(bytes(101)), 100)
    assert check(wrapper(Codec.GZIP, encode(bytes(5000))), 100).messages == 1


def test_the_first_wrong_message_decides() -> None:
    """Before a fault, a payload over the limit drops the set; behind it, it does not matter: as 0.7.2 does it."""
    large, bad = encode(bytes(101)), HELLO[:-1] + b"?"
    with pytest.raises(MessageSizeTooLargeError):
        check(large + bad, 100)
    with pytest.raises(InvalidMessageError, match=r"CRC .* at position 15 of a set"):
        check(HELLO + bad + large, 100)


# Limits while opening


def peak_bytes(checker: MessageChecker, data: bytes) -> tuple[CheckedSet | None, int]:
    """Return what a check found, None if it refused, and the memory that it took."""
    tracemalloc.start()
    try:
        try:
            checked = checker.check(data)
        except InvalidMessageError:
            checked = None
        return checked, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_large_set_is_counted_in_little_memory() -> None:
    """64 MiB of messages from one GZIP payload are looked at chunk by chunk."""
    data = wrapper(Codec.GZIP, encode(bytes(MIB // 16)) * 1024)
    checked, peak = peak_bytes(MessageChecker(MIB, 100 * MIB), data)
    assert checked == (data, 1024)
    assert peak < 8 * CHUNK_BYTES


def test_a_bomb_is_refused_while_it_opens() -> None:
    """The same with a limit below what it opens to: refused, and no more memory taken."""
    data = wrapper(Codec.GZIP, encode(bytes(MIB // 16)) * 1024)
    with pytest.raises(InvalidMessageError, match="opens to more than"):
        check(data, max_opened_bytes=10 * MIB)
    assert peak_bytes(MessageChecker(MIB, 10 * MIB), data)[1] < 8 * CHUNK_BYTES


def test_one_huge_message_inside_is_held_once_and_told() -> None:
    """A message of 16 MiB must be whole for its CRC; `hold` hears of it while it grows, and of its end."""
    held: list[int] = []
    data = wrapper(Codec.GZIP, encode(bytes(16 * MIB)))
    checked, peak = peak_bytes(MessageChecker(MIB, 100 * MIB, hold=held.append), data)
    assert checked == (data, 1)
    assert 16 * MIB < max(held) < 17 * MIB
    assert held[-1] == 0
    steps = [after - before for before, after in pairwise([0, *held])]
    assert max(steps) <= 2 * CHUNK_BYTES
    assert peak < 3.5 * 16 * MIB


def test_hold_counts_every_depth() -> None:
    """What outer wrappers keep while inner ones open is part of the sum; at the end nothing is held."""
    held: list[int] = []
    inner = wrapper(Codec.GZIP, encode(bytes(100_000)))
    outer = wrapper(Codec.SNAPPY, encode(bytes(30_000)) + inner)
    assert MessageChecker(MIB, 100 * MIB, hold=held.append).check(outer).messages == 2
    assert max(held) > 100_000 + len(inner)
    assert held[-1] == 0
    assert all(before != after for before, after in pairwise(held))


def test_nothing_is_held_after_a_refusal() -> None:
    """However a check ends, at whatever depth."""
    bad = encode(bytes(100_000))[:-1] + b"?"
    for data in (wrapper(Codec.GZIP, bad), wrapper(Codec.GZIP, HELLO + wrapper(Codec.SNAPPY, bad))):
        held: list[int] = []
        with pytest.raises(InvalidMessageError, match="inside a compressed message"):
            MessageChecker(MIB, 100 * MIB, hold=held.append).check(data)
        assert held[-1] == 0


def test_hold_may_refuse() -> None:
    """What the memory budget raises comes through, and the memory is given back."""
    held: list[int] = []

    def hold(held_bytes: int) -> None:
        held.append(held_bytes)
        if held_bytes > 10 * MIB:
            raise RuntimeError("no memory")

    with pytest.raises(RuntimeError, match="no memory"):
        MessageChecker(MIB, 100 * MIB, hold=hold).check(wrapper(Codec.GZIP, encode(bytes(16 * MIB))))
    assert max(held) < 11 * MIB
    assert held[-1] == 0


def test_siblings_and_depths_share_one_limit() -> None:
    """Many small bombs in one set, side by side or in one another, are one bomb."""
    each = wrapper(Codec.GZIP, encode(bytes(MIB)))
    for data in (each * 20, wrapper(Codec.GZIP, each * 20)):
        assert check(data, max_opened_bytes=21 * MIB).messages == 20
        with pytest.raises(InvalidMessageError, match=r"opens to more than"):
            check(data, max_opened_bytes=20 * MIB)
        assert peak_bytes(MessageChecker(MIB, 10 * MIB), data)[1] < 6 * MIB
    nested = each
    for _ in range(3):
        nested = wrapper(Codec.GZIP, nested)
    assert check(nested, max_opened_bytes=MIB + 10_000).messages == 1
    with pytest.raises(InvalidMessageError, match=r"opens to more than"):
        check(nested, max_opened_bytes=MIB + 100)


def test_false_snappy_claims_are_refused() -> None:
    """A block that claims a gigabyte is refused without one."""
    for claim in (b"\xff\xff\xff\xff\x0f", b"\x80\x80\x80\x80\x04", b"\xff\xff\x7f"):
        data = encode(claim + b"\0x", Codec.SNAPPY)
        with pytest.raises(InvalidMessageError, match=r"claims to open to"):
            check(data)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY])
def test_nesting_has_a_limit(codec: Codec) -> None:
    """As deep as consumers open, and no deeper."""
    data = HELLO
    for _ in range(MAX_NESTING):
        data = wrapper(codec, data)
    assert check(data).messages == 1
    with pytest.raises(InvalidMessageError, match="nested"):
        check(wrapper(codec, data))


# Pauses


class Turns:
    """Counts pauses, and the most messages and bytes that were scanned between two."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pauses = self.messages = self.largest = self.largest_bytes = 0

        def counting(data: bytes, start: int, max_messages: int, *, max_bytes: int) -> Scan:
            found = scan(data, start, max_messages, max_bytes=max_bytes)
            self.largest_bytes = max(self.largest_bytes, found.end - start)
            self.messages += found.messages
            self.largest = max(self.largest, self.messages)
            return found

        monkeypatch.setattr(message_check, "scan", counting)

    def pause(self) -> None:
        self.pauses += 1
        self.messages = 0


@pytest.mark.parametrize(
    "data",
    [
        HELLO * (4 * STEP_MESSAGES + 1),
        wrapper(Codec.GZIP, HELLO * (4 * STEP_MESSAGES + 1)),
        wrapper(Codec.SNAPPY, HELLO * (4 * STEP_MESSAGES + 1)),
        # one block of snappy-java's raw form, and so one chunk
        encode(compress(Codec.SNAPPY, encode(b"")), Codec.SNAPPY) * 4096,
        wrapper(Codec.SNAPPY, wrapper(Codec.GZIP, HELLO * 2000) * 20),
    ],
    ids=["plain", "gzip", "snappy", "many wrappers", "nested"],
)
def test_others_get_their_turn(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    """Between two pauses lie few messages, however a set holds them."""
    turns = Turns(monkeypatch)
    MessageChecker(2 * MIB, 100 * MIB, pause=turns.pause).check(data)
    assert turns.pauses >= 4
    assert turns.largest <= 2 * STEP_MESSAGES


def test_large_messages_give_turns_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred megabytes in a hundred messages are few messages, but much work. They need not be copied for it."""
    turns = Turns(monkeypatch)
    data = memoryview(encode(bytes(MIB)) * 40)
    checked = MessageChecker(2 * MIB, 100 * MIB, pause=turns.pause).check(data)
    assert checked.data is data
    assert checked.messages == 40
    assert turns.pauses >= 8
    assert turns.largest_bytes <= 6 * MIB


def test_a_block_that_opens_at_once_is_still_counted_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A single Snappy block may hold a million messages; the codec gives them in one piece, the check does not."""
    import cramjam

    messages = 10 * STEP_MESSAGES
    data = encode(bytes(cramjam.snappy.compress_raw(HELLO * messages)), Codec.SNAPPY)
    turns = Turns(monkeypatch)
    assert MessageChecker(2 * MIB, 100 * MIB, pause=turns.pause).check(data).messages == messages
    assert turns.pauses >= 10
    assert turns.largest <= 2 * STEP_MESSAGES


def test_a_message_of_many_chunks_is_looked_at_when_it_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not again with each chunk, which would take the square of its size."""
    scanned_bytes: list[int] = []

    def counting(data: bytes, start: int, max_messages: int, *, max_bytes: int) -> Scan:
        scanned_bytes.append(len(data) - start)
        return scan(data, start, max_messages, max_bytes=max_bytes)

    monkeypatch.setattr(message_check, "scan", counting)
    assert check(wrapper(Codec.GZIP, HELLO + encode(bytes(16 * MIB)) + HELLO)).messages == 3
    assert sum(scanned_bytes) < 18 * MIB


def test_payloads_that_open_to_nothing_give_turns_too() -> None:
    """Megabytes of empty GZIP members are work without a message."""
    pauses: list[None] = []
    data = encode(gzip.compress(b"") * 60_000, Codec.GZIP)
    assert len(data) > STORED_BYTES
    assert MessageChecker(2 * MIB, MIB, pause=lambda: pauses.append(None)).check(data).messages == 0
    assert len(pauses) >= 60_000


@pytest.mark.parametrize("wrapped", [MIB // 2, 3 * MIB], ids=["in one piece", "in pieces"])
def test_stored_wrappers_are_held_while_they_are_counted(wrapped: int) -> None:
    """Those that open at once, too: what they open to is told, and is no more than they have and STORED_BYTES allow."""
    held: list[int] = []
    inside = encode(bytes(5000)) * (wrapped // 5010)
    data = encode(gzip.compress(inside, 0), Codec.GZIP)
    checked, peak = peak_bytes(MessageChecker(4 * MIB, 4 * MIB, hold=held.append), data)
    assert checked == (data, wrapped // 5010)
    assert 0 < max(held) <= min(len(data), STORED_BYTES)
    assert held[-1] == 0
    assert peak < max(held) + 4 * CHUNK_BYTES


def test_a_small_set_makes_no_pause() -> None:
    """The common request pays for nothing that only large ones need."""
    pauses: list[None] = []
    held: list[int] = []
    checker = MessageChecker(MIB, MIB, lambda: pauses.append(None), held.append)
    assert checker.check(bytes(MessageSet([b"x"] * 50))).messages == 50
    assert checker.check(struct.pack(">i", 100)[:0]).messages == 0
    assert pauses == held == []
