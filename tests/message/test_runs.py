"""Runs of uncompressed messages, in C and in Python: both do the same, whatever the bytes."""

from __future__ import annotations

import gc
import mmap
import pickle
import struct
import subprocess
import sys
import threading
import time
import zlib
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka2011.errors import InvalidMessageError
from kafka2011.message import runs, runs_python
from kafka2011.message.compression import Codec
from kafka2011.message.message_set import Message, MessageSet, encode

if TYPE_CHECKING:
    from kafka2011.message.runs import CompiledRunCode

HELLO = encode(b"hello")
OTHERS = [
    bytes(MessageSet([b"closed"] * 3, Codec.GZIP)),
    bytes.fromhex("00000005 01 00 00000000"),  # no room for the attributes
    bytes.fromhex("00000004 01 000000"),
    bytes.fromhex("ffffffff 01 00 00000000"),
    bytes.fromhex("7fffffff 01 00 00000000"),
    HELLO[:-1] + b"?",
    *(HELLO[:4] + bytes([magic]) + HELLO[5:] for magic in (0, 2, 0x81)),
    *(HELLO[:5] + bytes([attributes]) + HELLO[6:] for attributes in (3, 4, 0xFC)),
    encode(b"hell\0")[:-1],  # a byte beyond the bytes would make it whole
    HELLO[:9],
    b"\0\0",
]
EMPTY_0 = encode(b"", magic=0)


def encode_old(payload: bytes) -> bytes:
    return encode(payload, magic=0)


PARTS = st.one_of(
    st.binary(max_size=100).map(encode),
    st.binary(max_size=100).map(encode_old),
    st.sampled_from([HELLO, EMPTY_0, EMPTY_0[:-1], encode_old(b"hello")[:-1] + b"?", *OTHERS]),
)


class Place(NamedTuple):
    """Bytes of messages and of others, and two positions in them, mostly where one starts."""

    data: bytes
    position: int
    stop: int


@st.composite
def places(draw: st.DrawFn) -> Place:
    parts = draw(st.lists(PARTS, max_size=8))
    data = b"".join(parts)
    edges = st.sampled_from(list(accumulate(map(len, parts), initial=0)))
    position = draw(st.one_of(st.just(0), edges, st.integers(0, len(data))))
    return Place(data, position, draw(st.one_of(st.just(len(data)), edges, st.integers(0, len(data) + 2))))


LIMITS = st.one_of(st.just(-1), st.integers(0, 6))


@pytest.fixture(scope="module")
def compiled() -> CompiledRunCode:
    if runs.compiled is None:
        pytest.skip("no C code: scripts/setup.sh builds it where there is a compiler, KAFKA2011_PURE leaves it out")
    return runs.compiled


@given(st.lists(st.binary(max_size=300)), st.sampled_from([0, 1]))
def test_both_encode_alike(compiled: CompiledRunCode, payloads: list[bytes], magic: int) -> None:
    """The same bytes, and the same largest size; those that `encode` makes of each payload."""
    found = compiled.encode(payloads, magic)
    assert found == runs_python.encode(payloads, magic)
    assert found is not None
    assert found[0] == b"".join(encode(payload, magic=magic) for payload in payloads)


def test_a_magic_that_does_not_exist_is_refused(compiled: CompiledRunCode) -> None:
    """By name, wherever sets are made."""
    assert compiled.encode([b"one"], 2) is None
    with pytest.raises(InvalidMessageError, match="magic 2"):
        MessageSet([b"one"], magic=2)


@pytest.mark.parametrize("odd", [bytearray(b"two"), memoryview(b"two"), type("Bytes", (bytes,), {})(b"two")])
def test_payloads_of_other_types_are_encoded_too(compiled: CompiledRunCode, odd: bytes) -> None:
    """C leaves what is not just bytes to Python, which takes any of these."""
    assert compiled.encode([b"one", odd], 1) is None
    assert list(MessageSet([b"one", odd])) == [b"one", b"two"]


@given(places(), LIMITS)
def test_both_find_the_same_runs(compiled: CompiledRunCode, place: Place, max_messages: int) -> None:
    """From any position on, one within a message too, to any other, of any number of messages, in any kind of bytes."""
    data, position, stop = place
    wanted = runs_python.walk(data, position, stop, max_messages)
    for each in (data, bytearray(data), memoryview(data), memoryview(b"?" + data)[1:]):
        assert compiled.walk(each, position, stop, max_messages) == wanted  # type: ignore[arg-type]


@given(places(), LIMITS, st.sampled_from([0, -1, 10**12, 2**63 - 1, 2**63, 2**70]))
def test_both_decode_alike(compiled: CompiledRunCode, place: Place, max_messages: int, offset: int) -> None:
    """The same messages with the same offsets; what no 64 bits hold is left to Python."""
    arguments = (Message, place.data, place.position, max_messages, "views", None, 7, offset)
    wanted, got = runs_python.decode(*arguments), compiled.decode(*arguments)
    if offset + len(place.data) < 2**63:
        assert got == wanted
    else:
        assert got == ([], place.position)


UNCOMPRESSED_PARTS = st.one_of(st.binary(max_size=9).map(encode), st.binary(max_size=9).map(encode_old))


@given(st.one_of(st.lists(PARTS, max_size=4), st.lists(UNCOMPRESSED_PARTS, max_size=9)).map(b"".join), LIMITS)
def test_both_decode_opened_sets_alike(compiled: CompiledRunCode, data: bytes, max_messages: int) -> None:
    """The same messages with the offsets of the wrapper, or none where there is anything but uncompressed messages."""
    arguments = (Message, data, max_messages, "views", 3, 7, 10**20, 10**20 + 50)
    assert compiled.decode_opened(*arguments) == runs_python.decode_opened(*arguments)


def test_positions_outside_are_left_to_python(compiled: CompiledRunCode) -> None:
    """Nothing is read before the bytes, or after them."""
    data = memoryview(HELLO * 3)[len(HELLO) : -len(HELLO)]
    assert compiled.walk(data, 0, 100, -1) == (len(HELLO), 1, 5)
    for position in (-len(HELLO), len(HELLO), 100):
        assert compiled.walk(data, position, 100, -1) == (position, 0, 0)
        assert compiled.decode(Message, bytes(data), position, 9, "t", 0, 0, 0) == ([], position)


@pytest.mark.parametrize("extreme", [-sys.maxsize - 1, sys.maxsize])
def test_extreme_numbers_overflow_nothing(compiled: CompiledRunCode, extreme: int) -> None:
    """Where the sanitizers build the code, an overflow ends the test."""
    data = HELLO * 3
    for position in (extreme, 0, 1):
        for stop in (extreme, len(data)):
            for most in (extreme, -1, 2):
                wanted = runs_python.walk(data, position, stop, most) if position >= 0 else (position, 0, 0)
                assert compiled.walk(data, position, stop, most) == wanted
                if position == 0:
                    decoded = compiled.decode(Message, data, 0, most, "t", 0, 0, extreme)
                    assert decoded == (
                        runs_python.decode(Message, data, 0, most, "t", 0, 0, extreme) if extreme < 0 else ([], 0)
                    )
    for position, base in ((0, sys.maxsize), (-1, -sys.maxsize - 1), (extreme, extreme)):
        with pytest.raises(OverflowError):
            compiled.columns(data, position, len(data), -1, base)


def test_messages_by_both_are_the_same_in_every_way(compiled: CompiledRunCode) -> None:
    """Type, hash, text, names and pickles: nobody can tell which code made a message."""
    arguments = (Message, HELLO * 3, 0, 100, "views", 3, 7, 1000)
    wanted, got = runs_python.decode(*arguments)[0], compiled.decode(*arguments)[0]
    assert [type(each) for each in got] == [Message] * 3
    assert [hash(each) for each in got] == [hash(each) for each in wanted]
    assert repr(got) == repr(wanted)
    assert [each._asdict() for each in got] == [each._asdict() for each in wanted]
    assert pickle.loads(pickle.dumps(got)) == wanted
    assert [gc.is_tracked(each) for each in got] == [gc.is_tracked(each) for each in wanted]
    assert len({*got, *wanted}) == 3


def test_other_bytes_are_left_to_python(compiled: CompiledRunCode) -> None:
    """Payloads cut from a bytearray are bytearrays, which C does not make."""
    assert compiled.decode(Message, bytearray(HELLO), 0, 1, "t", 0, 0, 0) == ([], 0)  # type: ignore[arg-type]
    assert compiled.walk(memoryview(HELLO * 2).cast("H"), 0, 100, -1) == (0, 0, 0)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("encode", ([HELLO],)),
        ("encode", ([HELLO], "one")),
        ("measure", ()),
        ("walk", (HELLO, 0)),
        ("walk", ("text", 0, 100, -1)),
        ("walk", (HELLO, 0, 100, "many")),
        ("decode", (HELLO, 0)),
        ("decode", (dict, HELLO, 0, 1, "t", 0, 0, 0)),
        ("decode", (HELLO, HELLO, 0, 1, "t", 0, 0, 0)),
        ("decode", (Message, HELLO, 0, 1, "t", 0, 0, "far")),
        ("decode_opened", (Message, HELLO)),
        ("decode_opened", (dict, HELLO, 1, "t", 0, 0, 0, 0)),
        ("columns", (bytearray(HELLO), 0, 100, 1, 0)),
        ("columns", (HELLO, 0, None, 1, 0)),
        ("complete_prefix_bytes", ("text",)),
        ("crc32", ("text",)),
    ],
)
def test_wrong_arguments_are_type_errors(compiled: CompiledRunCode, name: str, arguments: tuple[object, ...]) -> None:
    """And never a crash."""
    with pytest.raises(TypeError):
        getattr(compiled, name)(*arguments)


@given(st.one_of(st.lists(st.binary(max_size=20)), st.lists(st.sampled_from([b"a", bytearray(b"b"), "c", 4]))))
def test_both_measure_the_same(compiled: CompiledRunCode, payloads: list[bytes]) -> None:
    """How many bytes there are, and the largest; nothing of what are not bytes alone."""
    found = compiled.measure(payloads)
    assert found == runs_python.measure(payloads)
    if all(type(each) is bytes for each in payloads):
        assert found == (len(b"".join(payloads)), max(map(len, payloads), default=0))
    else:
        assert found is None
    for code in (compiled, runs_python):
        assert code.measure(tuple(payloads)) is None  # type: ignore[arg-type]


@given(places(), LIMITS, st.integers(0, 2**40))
def test_columns_are_the_messages(compiled: CompiledRunCode, place: Place, max_messages: int, base: int) -> None:
    """The columns hold what `decode` gives of the messages that start before a position."""
    data, position, stop = place
    messages, _ = runs_python.decode(Message, data, position, max_messages, "t", 0, 0, base)
    wanted = [message for message in messages if message.offset - base < stop]
    columns = compiled.columns(data, position, stop, max_messages, base)
    assert columns == runs_python.columns(data, position, stop, max_messages, base)
    end, rows, edges, ends, values = columns
    found_edges = struct.unpack(f"={rows + 1}q", edges)
    found_ends = struct.unpack(f"={rows + 1}i", ends)
    assert rows == len(wanted)
    assert list(found_edges) == [base + position, *(message.next_offset for message in wanted)]
    assert end == found_edges[-1] - base
    assert found_ends[0] == 0
    assert [values[a:b] for a, b in pairwise(found_ends)] == [m.payload for m in wanted]
    assert found_ends[-1] == len(values)


@given(st.one_of(st.lists(PARTS, max_size=8).map(b"".join), st.binary(max_size=100)))
def test_both_find_the_same_complete_prefix(compiled: CompiledRunCode, data: bytes) -> None:
    """Of messages of any kind, by their lengths alone."""
    assert compiled.complete_prefix_bytes(data) == runs_python.complete_prefix_bytes(data)


def test_lengths_have_a_sign(compiled: CompiledRunCode) -> None:
    """A negative length is no very large one, even where so many bytes follow."""
    with mmap.mmap(-1, 2**31 + 100) as data:  # read where written only, so it takes no memory
        data[:4] = (2**31).to_bytes(4)
        assert compiled.complete_prefix_bytes(data) == 0  # type: ignore[arg-type]


def test_crcs_are_zlibs_at_every_size_and_alignment(compiled: CompiledRunCode) -> None:
    """The fast way goes by 128, 64 and 16 bytes and what is left; the portable one by 8."""
    noise = bytes((i * 167 + (i >> 3) * 59) & 0xFF for i in range(1600))
    for start in range(17):
        for size in (*range(200), 255, 256, 257, *range(510, 530), *range(638, 660), 900, 1567):
            data = memoryview(noise)[start : start + size]
            wanted = zlib.crc32(data)
            assert compiled.crc32(data) == wanted, (start, size)
            assert compiled.portable_crc32(data) == wanted, (start, size)


@given(st.binary(max_size=2000))
def test_crcs_are_zlibs(compiled: CompiledRunCode, data: bytes) -> None:
    """Of anything."""
    assert compiled.crc32(data) == compiled.portable_crc32(data) == zlib.crc32(data)


def test_nothing_is_kept(compiled: CompiledRunCode) -> None:
    """After many calls as many references and blocks of memory exist as before."""
    topic, broker, partition, payload = "a topic of its own", 10**10, 10**11, b"a payload of its own"
    data = encode(payload) * 20 + OTHERS[0]

    def work() -> None:
        for _ in range(300):
            compiled.encode([payload] * 20, 0)
            compiled.encode([payload, "text"], 1)  # type: ignore[list-item]
            compiled.measure([payload] * 3)
            compiled.walk(data, 0, len(data), -1)
            compiled.decode(Message, data, 0, 100, topic, broker, partition, 10**12)
            compiled.decode_opened(Message, data[: -len(OTHERS[0])], 100, topic, broker, partition, 10**12, 10**13)
            compiled.columns(data, 0, len(data), -1, 0)
            compiled.complete_prefix_bytes(data)
            compiled.crc32(data)
            with pytest.raises(TypeError):
                compiled.decode(dict, data, 0, 100, topic, broker, partition, 0)  # type: ignore[type-var]

    def counts() -> tuple[int, list[int]]:
        gc.collect()
        kept = (topic, broker, partition, payload, data, Message)
        return sys.getallocatedblocks(), [sys.getrefcount(each) for each in kept]

    work()
    blocks_before, references_before = counts()
    work()
    blocks, references = counts()
    assert references == references_before
    assert blocks - blocks_before < 150  # one block a call would be 300
    zeros_before = sys.getrefcount(0)  # which others use too
    for _ in range(300):
        compiled.decode(Message, data, 0, 100, topic, broker, partition, 0)
    assert abs(sys.getrefcount(0) - zeros_before) < 150


def test_the_garbage_collector_may_look(compiled: CompiledRunCode) -> None:
    """What a callback of the garbage collector finds and keeps of the work under way does not change."""
    topic = "a topic of its own"
    seen: list[tuple[tuple[object, ...], str]] = []

    def look(phase: str, info: dict[str, int]) -> None:
        found = [each for each in gc.get_objects() if type(each) is tuple and len(each) == 7 and each[0] is topic]
        seen.extend((each, repr(each)) for each in found)

    thresholds = gc.get_threshold()
    gc.callbacks.append(look)
    gc.set_threshold(10)
    try:
        messages, _ = compiled.decode(Message, HELLO * 100, 0, 100, topic, 0, 0, 0)
    finally:
        gc.set_threshold(*thresholds)
        gc.callbacks.remove(look)
    assert messages == runs_python.decode(Message, HELLO * 100, 0, 100, topic, 0, 0, 0)[0]
    assert [repr(each) for each, _ in seen] == [text for _, text in seen]


def test_long_runs_let_other_threads_run(compiled: CompiledRunCode) -> None:
    """A run of more than 64 KiB is walked without the interpreter's lock, a shorter one with it."""
    long, short = HELLO * 200_000, HELLO * 4000
    seen: list[bool] = []
    gate = threading.Lock()
    interval_s = sys.getswitchinterval()
    gate.acquire()

    def wait() -> None:
        with gate:
            seen.append(True)

    thread = threading.Thread(target=wait)
    thread.start()
    try:
        sys.setswitchinterval(1000)  # only who gives the lock away lets others have it
        gate.release()
        for _ in range(2000):
            compiled.walk(short, 0, len(short), -1)
        after_short = bool(seen)
        deadline_s = time.monotonic() + 60
        while not seen and time.monotonic() < deadline_s:
            compiled.walk(long, 0, len(long), -1)
        after_long = bool(seen)
    finally:
        sys.setswitchinterval(interval_s)
        thread.join()
    assert (after_short, after_long) == (False, True)


OUT_OF_MEMORY = """
import gc, sys
import _testcapi
from kafka2011.message import runs
from kafka2011.message.message_set import Message, MessageSet

code = runs.compiled
payloads = [bytes([65 + i]) * 1000 for i in range(10)]
data = bytes(MessageSet(payloads))
calls = [
    lambda: code.encode(payloads, 1),
    lambda: code.walk(data, 300, len(data), -1),
    lambda: code.measure([b"hello"] * 3),
    lambda: code.walk(data, 0, len(data), -1),
    lambda: code.decode(Message, data, 0, 100, "views", 3, 7, 10**12),
    lambda: code.decode_opened(Message, data, 100, "views", 3, 7, 10**12, 10**13),
    lambda: code.columns(data, 0, len(data), -1, 10**12),
    lambda: code.complete_prefix_bytes(data),
    lambda: code.crc32(data),
]
for call in calls:
    wanted = call()
    failures = successes = number = 0
    blocks = sys.getallocatedblocks()
    while successes < 20:
        gc.collect()  # empties the lists of free objects, which would hide allocations
        failed = got = None
        _testcapi.set_nomemory(number, number + 1)
        try:
            got = call()
        except MemoryError:
            failed = True
        finally:
            _testcapi.remove_mem_hooks()
        number += 1
        if failed:
            failures, successes = failures + 1, 0
        else:
            assert got == wanted
            successes += 1
    got = None
    gc.collect()
    assert sys.getallocatedblocks() < blocks + 8, f"{failures} failures leave memory behind"
    print(failures)
"""


@pytest.mark.usefixtures("compiled")
def test_want_of_memory_is_an_error() -> None:
    """Each allocation of each function fails once: that is a MemoryError, and the next call works."""
    pytest.importorskip("_testcapi", reason="this Python has no _testcapi, which makes allocations fail")
    done = subprocess.run(
        [sys.executable, "-c", OUT_OF_MEMORY], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    failures = [int(line) for line in done.stdout.split()]
    assert failures[0] >= 2  # the set, and the answer
    assert failures[4] >= 20  # two or more for each of ten messages
    assert failures[5] >= 20
    assert failures[6] >= 4
