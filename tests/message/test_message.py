"""Messages and message sets: golden bytes, round trips, offsets, and wrong bytes."""

from __future__ import annotations

import contextlib
import itertools
import struct
import zlib
from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kafka2011.errors import InvalidMessageError, InvalidMessageSizeError
from kafka2011.message.compression import Codec, compress
from kafka2011.message.message_set import MAX_NESTING, OPENED_RUN_MESSAGES, Message, MessageSet, decode, encode, scan

if TYPE_CHECKING:
    from kafka2011.message.header import AnyBytes

pytestmark = pytest.mark.usefixtures("each_code")

# Written out by hand: length, magic, attributes (magic 1), CRC, payload.
HELLO_1 = bytes.fromhex("0000000b 01 00 3610a686 68656c6c6f")
HELLO_0 = bytes.fromhex("0000000a 00 3610a686 68656c6c6f")
EMPTY_1 = bytes.fromhex("00000006 01 00 00000000")
EMPTY_0 = bytes.fromhex("00000005 00 00000000")
# HELLO_1 in a snappy-java stream of one block: 17 bytes, opening to 15, of which 15 are a literal.
SNAPPY_HELLO = bytes.fromhex("0000002b 01 02 bfb064de 82534e4150505900 00000001 00000001 00000011 0f38" + HELLO_1.hex())
RAW_SNAPPY_HELLO = bytes.fromhex("00000017 01 02 004aab73 0f38" + HELLO_1.hex())
# HELLO_1 in a GZIP member of one stored block; the last eight bytes are its own CRC and size.
GZIP_HELLO = bytes.fromhex(
    "0000002c 01 01 74e565fd 1f8b0800000000000000 01 0f00 f0ff" + HELLO_1.hex() + "50b0ff5a 0f000000"
)


def payloads(data: bytes) -> list[bytes]:
    return [message.payload for message in decode(data, "t", 0, 0, 0)]


def wrapper(codec: Codec, opened: bytes) -> bytes:
    return encode(compress(codec, opened), codec)


class Built(NamedTuple):
    """A message, or a wrapper with all it holds, as bytes, and the payloads that it must give."""

    data: bytes
    payloads: list[bytes]
    is_wrapper: bool


def _wrap(codec: Codec, inside: list[Built]) -> Built:
    opened = b"".join(each.data for each in inside)
    return Built(wrapper(codec, opened), [payload for each in inside for payload in each.payloads], True)


_PLAIN = st.builds(
    lambda payload, magic: Built(encode(payload, magic=magic), [payload], False),
    st.binary(max_size=40),
    st.sampled_from([0, 1]),
)
_ANY = st.recursive(
    _PLAIN,
    lambda inside: st.builds(_wrap, st.sampled_from([Codec.GZIP, Codec.SNAPPY]), st.lists(inside, max_size=4)),
    max_leaves=12,
)
SETS = st.lists(_ANY, max_size=6)


def expected(built: list[Built], offset: int) -> list[Message]:
    """Return what a consumer must get: inside a wrapper all but the last are consumed up to the wrapper's start."""
    messages = []
    for each in built:
        end = offset + len(each.data)
        last = len(each.payloads) - 1
        for index, payload in enumerate(each.payloads):
            messages.append(Message("t", 3, 7, offset, end if index == last else offset, index, payload))
        offset = end
    return messages


@pytest.mark.parametrize(
    ("payload", "magic", "golden"),
    [(b"hello", 1, HELLO_1), (b"hello", 0, HELLO_0), (b"", 1, EMPTY_1), (b"", 0, EMPTY_0)],
)
def test_messages_have_the_golden_bytes(payload: bytes, magic: int, golden: bytes) -> None:
    """Both magics cost what the format says, 9 or 10 bytes, and read back."""
    assert encode(payload, magic=magic) == golden
    assert bytes(MessageSet([payload], magic=magic)) == golden
    assert len(golden) == len(payload) + 9 + magic
    assert list(decode(golden, "t", 3, 7, 100)) == [Message("t", 3, 7, 100, 100 + len(golden), 0, payload)]


@pytest.mark.parametrize("golden", [SNAPPY_HELLO, RAW_SNAPPY_HELLO, GZIP_HELLO], ids=["snappy", "raw snappy", "gzip"])
def test_golden_wrappers_open(golden: bytes) -> None:
    """What was written out by hand opens; a snappy-java payload may lack its stream header."""
    assert list(decode(golden, "t", 3, 7, 100)) == [Message("t", 3, 7, 100, 100 + len(golden), 0, b"hello")]


def test_snappy_is_written_with_snappy_javas_header() -> None:
    """The stream header, then blocks with their lengths."""
    data = bytes(MessageSet([b"hello"], Codec.SNAPPY))
    assert data == SNAPPY_HELLO


def test_snappy_blocks_hold_32_kib_at_most() -> None:
    """snappy-java's own block size, so that any reader's buffer is large enough."""
    stream = compress(Codec.SNAPPY, bytes(100_000))
    position, opened_bytes = 16, []
    while position < len(stream):
        (size,) = struct.unpack_from(">i", stream, position)
        varint = stream[position + 4 :]
        shift = value = 0
        for byte in varint:
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        opened_bytes.append(value)
        position += 4 + size
    assert opened_bytes == [32768, 32768, 32768, 1696]


@pytest.mark.parametrize("attributes", [0x04, 0x80, 0xFC])
def test_other_attribute_bits_are_ignored(attributes: int) -> None:
    """Only bits 0 and 1 say how a payload is compressed."""
    assert payloads(HELLO_1[:5] + bytes([attributes]) + HELLO_1[6:]) == [b"hello"]
    assert payloads(SNAPPY_HELLO[:5] + bytes([attributes | 2]) + SNAPPY_HELLO[6:]) == [b"hello"]


@pytest.mark.parametrize(("codec", "magic"), [(Codec.GZIP, 0), (Codec.NONE, 2), (Codec.NONE, -1)])
def test_formats_that_do_not_exist_are_not_written(codec: Codec, magic: int) -> None:
    """Magic 0 has no attributes to name a codec in, and there is no magic 2."""
    with pytest.raises(InvalidMessageError, match="not a message format"):
        encode(b"", codec, magic)


@given(SETS, st.integers(0, 2**62))
def test_sets_read_back_with_07s_offsets(built: list[Built], offset: int) -> None:
    """Any mix of magics, codecs and nesting gives its payloads, each with offset, next offset and index."""
    data = b"".join(each.data for each in built)
    assert list(decode(data, "t", 3, 7, offset)) == expected(built, offset)


@given(SETS)
def test_scan_and_decode_agree(built: list[Built]) -> None:
    """A scan finds the same ends as a decode, and which messages are wrappers."""
    data = b"".join(each.data for each in built)
    found = scan(data)
    assert (found.end, found.messages, found.fault, found.partial_bytes) == (len(data), len(built), None, 0)
    assert len(found.wrappers) == sum(each.is_wrapper for each in built)
    for start, payload_start, end, codec in found.wrappers:
        assert encode(data[payload_start:end], Codec(codec)) == data[start:end]
    assert found.largest_payload_bytes == max((len(each.data) - _overhead(each.data) for each in built), default=0)


def _overhead(data: bytes) -> int:
    return 9 + data[4]


@given(SETS, st.data())
def test_a_set_may_be_cut_anywhere(built: list[Built], drawn: st.DataObject) -> None:
    """The complete prefix counts; when not even the first message is complete, the error names the size needed."""
    data = b"".join(each.data for each in built)
    cut = drawn.draw(st.integers(0, len(data)))
    whole: list[Built] = []
    end = 0
    for each in built:
        if end + len(each.data) > cut:
            break
        whole.append(each)
        end += len(each.data)
    found = scan(data[:cut])
    assert (found.end, found.messages, found.fault, found.partial_bytes) == (end, len(whole), None, cut - end)
    if end == 0 < cut:
        needed = str(len(built[0].data)) if cut >= 4 else "too small"
        with pytest.raises(InvalidMessageSizeError, match=needed):
            list(decode(data[:cut], "t", 3, 7, 0))
    else:
        assert list(decode(data[:cut], "t", 3, 7, 0)) == expected(whole, 0)


@given(SETS.filter(bool), st.data())
def test_damage_leaves_what_stands_before_it(built: list[Built], drawn: st.DataObject) -> None:
    """With one bit flipped, all messages that end before it come out as they were, and only message errors follow."""
    data = bytearray(b"".join(each.data for each in built))
    at = drawn.draw(st.integers(0, len(data) - 1))
    data[at] ^= 1 << drawn.draw(st.integers(0, 7))
    ends = list(itertools.accumulate(len(each.data) for each in built))
    before = expected(built[: sum(end <= at for end in ends)], 0)
    got: list[Message] = []
    with contextlib.suppress(InvalidMessageError, InvalidMessageSizeError):
        got.extend(decode(bytes(data), "t", 3, 7, 0))
    assert got[: len(before)] == before


@given(st.one_of(st.binary(max_size=300), st.binary(max_size=60).map(lambda tail: HELLO_1 + SNAPPY_HELLO + tail)))
@example(b"\x00\x00\x00\x05\x01\x00\x00\x00\x00")
@example(struct.pack(">i", -1) + bytes(20))
@example(struct.pack(">i", 2**31 - 1) + bytes(20))
@example(bytes(4))
def test_garbage_raises_only_message_errors(data: bytes) -> None:
    """Random bytes end in one of the two message errors, or give what good messages there are; scan never raises."""
    found = scan(data)
    assert 0 <= found.end <= len(data)
    try:
        ends = [message.next_offset for message in decode(data, "t", 0, 0, 0)]
    except (InvalidMessageError, InvalidMessageSizeError):
        return
    assert found.fault is None
    assert max(ends, default=0) <= found.end


@given(st.sampled_from([Codec.GZIP, Codec.SNAPPY, 3]), st.binary(max_size=200), st.booleans())
def test_garbage_in_a_wrapper_raises_only_message_errors(codec: int, garbage: bytes, has_header: bool) -> None:
    """A wrapper with a good CRC around bytes that do not open is one error, with topic, partition and offset."""
    if has_header:
        garbage = (compress(Codec.GZIP, b"")[:10] if codec == Codec.GZIP else compress(Codec.SNAPPY, b"")) + garbage
    data = struct.pack(">iBBI", len(garbage) + 6, 1, codec, zlib.crc32(garbage)) + garbage
    assert scan(data).end == len(data)
    try:
        got = payloads(data)
    except InvalidMessageError as error:
        assert "t/0-0 at offset 0" in str(error)  # noqa: PT017 (it may as well open)
    else:
        assert codec in {Codec.GZIP, Codec.SNAPPY}
        assert got == []


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (bytes.fromhex("00000004 00 00000000"), "length 4"),
        (bytes.fromhex("ffffffff 01 00 00000000"), "length -1"),
        (bytes.fromhex("80000000"), "length -2147483648"),
        (bytes.fromhex("00000005 01 00 00000000"), "length 5"),  # no room for the attributes
        (bytes.fromhex("00000006 02 00 00000000"), "magic 2"),
        (bytes.fromhex("0000000b 01 00 3610a687 68656c6c6f"), "0x3610a687"),
        (bytes.fromhex("0000000a 00 3610a687 68656c6c6f"), "0x3610a687"),
    ],
)
def test_faults_are_told_with_their_place(data: bytes, fault: str) -> None:
    """The messages before a fault are given, then an error says what is wrong in which topic, partition and where."""
    found = scan(HELLO_1 + data + HELLO_0)
    assert (found.end, found.messages) == (len(HELLO_1), 1)
    assert fault in (found.fault or "")
    messages = decode(HELLO_1 + data + HELLO_0, "views", 3, 7, 1000)
    assert next(messages).payload == b"hello"
    with pytest.raises(InvalidMessageError, match=f"views/3-7 at offset 1015: .*{fault}"):
        next(messages)


def test_good_messages_before_a_fault_inside_a_wrapper_are_given() -> None:
    """A corrupt message inside a wrapper does not take its good neighbours along; all carry the wrapper's start."""
    inside = HELLO_1 + EMPTY_0 + HELLO_1[:-1] + b"?"
    messages = decode(HELLO_0 + wrapper(Codec.GZIP, inside), "t", 0, 0, 0)
    got = [next(messages) for _ in range(3)]
    assert [(message.next_offset, message.index_in_set, message.payload) for message in got] == [
        (14, 0, b"hello"),
        (14, 0, b"hello"),
        (14, 1, b""),
    ]
    place = len(HELLO_1 + EMPTY_0)
    with pytest.raises(InvalidMessageError, match=f"t/0-0 at offset 14 does not open: .* at offset {place}: CRC"):
        next(messages)


def test_any_number_of_messages_fits_into_a_wrapper() -> None:
    """More than are decoded at once, too."""
    items = [b"%d" % number for number in range(OPENED_RUN_MESSAGES + 1)]
    data = bytes(MessageSet(items, Codec.GZIP))
    got = list(decode(data, "t", 3, 7, 100))
    assert [(message.index_in_set, message.payload) for message in got] == list(enumerate(items))
    assert {message.next_offset for message in got[:-1]} == {100}
    assert got[-1].next_offset == 100 + len(data)


def test_a_wrapper_without_a_whole_message_is_corrupt() -> None:
    """It would be asked for again and again if it passed as an empty set; a really empty one passes."""
    with pytest.raises(InvalidMessageError, match="does not open"):
        payloads(wrapper(Codec.SNAPPY, HELLO_1[:-1]))
    assert payloads(wrapper(Codec.SNAPPY, b"")) == []
    assert payloads(wrapper(Codec.GZIP, HELLO_1 + HELLO_1[:-1])) == [b"hello"]


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY])
def test_nesting_has_a_limit(codec: Codec) -> None:
    """So many wrappers in one another open, one more does not."""
    data = HELLO_1
    for _ in range(MAX_NESTING):
        data = wrapper(codec, data)
    assert payloads(data) == [b"hello"]
    with pytest.raises(InvalidMessageError, match="nested"):
        payloads(wrapper(codec, data))


def test_what_wrappers_open_to_has_a_limit_at_every_depth() -> None:
    """An inner wrapper may open to what the outer one has left, so that both together stay within the limit."""
    inner = wrapper(Codec.GZIP, encode(bytes(1000)))
    nested = wrapper(Codec.SNAPPY, inner)
    limit = len(inner) + len(encode(bytes(1000)))
    assert len(list(decode(nested, "t", 0, 0, 0, limit))) == 1
    with pytest.raises(InvalidMessageError, match="t/0-0 at offset 0 does not open"):
        list(decode(nested, "t", 0, 0, 0, limit - 1))


def test_scan_stops_after_so_many_messages() -> None:
    """A caller may work through a large set in steps."""
    data = HELLO_1 + HELLO_0 + EMPTY_1
    first = scan(data, max_messages=2)
    assert (first.end, first.messages, first.partial_bytes) == (29, 2, 0)
    rest = scan(data, first.end, 2)
    assert (rest.end, rest.messages, rest.partial_bytes) == (len(data), 1, 0)


def test_scan_uses_the_checksum_it_is_given() -> None:
    """`dump-log --verify` gives the second implementation."""
    seen: list[bytes] = []

    def checksum(payload: AnyBytes) -> int:
        seen.append(bytes(payload))
        return zlib.crc32(payload)

    assert scan(HELLO_1 + HELLO_0, checksum=checksum).messages == 2
    assert seen == [b"hello", b"hello"]
    assert scan(HELLO_1, checksum=lambda _: 0).fault is not None


@given(st.lists(st.binary(max_size=60), max_size=8), st.sampled_from(list(Codec)), st.sampled_from([0, 1]))
def test_message_sets_give_back_their_payloads(items: list[bytes], codec: Codec, magic: int) -> None:
    """From payloads, or from its own bytes, a set iterates over the payloads, and knows its largest outer one."""
    made = MessageSet(iter(items), codec, magic)
    assert list(made) == items
    again = MessageSet.from_bytes(bytes(made))
    assert again == made
    assert hash(again) == hash(made)
    assert made.largest_payload_bytes == again.largest_payload_bytes == scan(bytes(made)).largest_payload_bytes


def test_a_pass_ends_after_so_many_messages_or_bytes() -> None:
    """Of whatever magic they are; where it ends so, nothing is said of the rest."""
    old = encode(b"hello", magic=0)
    mixed = old + HELLO_1 * 2 + old + HELLO_1 * 3
    assert [scan(mixed, 0, most).messages for most in range(9)] == [0, 1, 2, 3, 4, 5, 6, 7, 7]
    found = scan(HELLO_1 * 3, max_bytes=2 * len(HELLO_1))
    assert (found.messages, found.end, found.partial_bytes) == (2, 2 * len(HELLO_1), 0)
    assert scan(HELLO_1 * 3, max_bytes=2 * len(HELLO_1) + 1).messages == 3


def test_a_fetch_of_a_length_alone_says_what_is_needed() -> None:
    """So that fetch.size can be set."""
    with pytest.raises(InvalidMessageSizeError, match=r"a fetch of 4 bytes .* needs 36"):
        list(decode(b"\0\0\0\x20", "t", 0, 0, 0))
    with pytest.raises(InvalidMessageSizeError, match="a fetch of 3 bytes is too small for any message"):
        list(decode(b"\0\0\0", "t", 0, 0, 0))


@pytest.mark.parametrize("payloads", ["text", b"bytes", bytearray(b"bytes")])
def test_one_payload_is_not_taken_for_many(payloads: object) -> None:
    """Iterating over it would make a message of each character, or fail far from the mistake."""
    with pytest.raises(TypeError, match=f"not {type(payloads).__name__}: give one payload as"):
        MessageSet(payloads)  # type: ignore[arg-type] # what callers do all the same


def test_sets_are_equal_by_their_bytes() -> None:
    """And to nothing that is no set."""
    assert MessageSet([b"a"]) == MessageSet([b"a"])
    assert MessageSet([b"a"]) != MessageSet([b"b"])
    assert MessageSet([b"a"]) != bytes(MessageSet([b"a"]))


def test_a_compressed_set_is_one_wrapper() -> None:
    """However many payloads; and no payloads make no bytes."""
    made = bytes(MessageSet([b"x" * 500] * 20, Codec.GZIP))
    assert len(scan(made).wrappers) == scan(made).messages == 1
    assert len(made) < 500
    assert bytes(MessageSet([], Codec.GZIP)) == b""


@pytest.mark.parametrize(("codec", "outer"), [(Codec.NONE, [0, 1, 3]), (Codec.GZIP, [0, 1, 1])])
def test_a_set_knows_how_many_messages_a_broker_sees(codec: Codec, outer: list[int]) -> None:
    """A compressed set is one message, whether it was made here or came as bytes."""
    made = [MessageSet([b"x"] * count, codec) for count in (0, 1, 3)]
    assert [each.outer_messages for each in made] == outer
    assert [MessageSet.from_bytes(bytes(each)).outer_messages for each in made] == outer


@pytest.mark.parametrize("data", [HELLO_1[:-1], HELLO_1 + b"\0", b"\0" * 20, HELLO_1 + HELLO_1[:9]])
def test_bytes_that_are_no_complete_set_are_refused(data: bytes) -> None:
    """A producer never sends what a broker would refuse or shorten."""
    with pytest.raises(InvalidMessageError, match="not a message set"):
        MessageSet.from_bytes(data)


def test_a_set_keeps_its_own_bytes() -> None:
    """Changing the buffer that a set was made from does not change the set."""
    buffer = bytearray(HELLO_1)
    made = MessageSet.from_bytes(buffer)  # type: ignore[arg-type] # what callers do all the same
    buffer[-1] = 0
    assert list(made) == [b"hello"]
