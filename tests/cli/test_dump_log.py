"""`dump-log`: what segment files hold, and what is wrong with them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka2011.cli.app import main
from kafka2011.cli.segment_entries import SegmentReader
from kafka2011.message.compression import Codec, compress
from kafka2011.message.crc import crc32, independent_crc32
from kafka2011.message.message_set import MessageSet, encode
from tests.support.bytes_of_07 import SEGMENTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafka2011.cli.segment_entries import Entry

START = 1000


@pytest.fixture
def log(tmp_path: Path) -> Path:
    directory = tmp_path / "views-0"
    directory.mkdir()
    return directory


def write_segment(log: Path, *parts: bytes, start: int = START) -> Path:
    path = log / f"{start:020}.kafka"
    path.write_bytes(b"".join(parts))
    return path


def entries(path: Path, *, deep: bool = True) -> list[Entry]:
    return list(SegmentReader(independent_crc32 if deep else crc32, deep=deep).entries(path))


def flipped(data: bytes, position: int) -> bytes:
    changed = bytearray(data)
    changed[position] ^= 1
    return bytes(changed)


def test_every_kind_of_message(log: Path) -> None:
    """Magic 0 and 1, empty payloads, both codecs: offsets, sizes, and what is inside."""
    parts = [
        encode(b"old", magic=0),
        encode(b""),
        bytes(MessageSet([b"a", b"bc"], Codec.GZIP)),
        bytes(MessageSet([b"a"], Codec.SNAPPY)),
    ]
    offsets = [START + len(b"".join(parts[:number])) for number in range(4)]
    path = write_segment(log, *parts)
    assert [(e.offset, e.inner, e.size, e.magic, e.codec, e.payload_bytes) for e in entries(path)] == [
        (offsets[0], "", 12, 0, "none", 3),
        (offsets[1], "", 10, 1, "none", 0),
        (offsets[2], "", len(parts[2]), 1, "gzip", len(parts[2]) - 10),
        (offsets[2], "0", 11, 1, "none", 1),
        (offsets[2], "1", 12, 1, "none", 2),
        (offsets[3], "", len(parts[3]), 1, "snappy", len(parts[3]) - 10),
        (offsets[3], "0", 11, 1, "none", 1),
    ]
    assert {e.fault for e in entries(path)} == {None}
    assert [e.inner for e in entries(path, deep=False)] == [""] * 4


def test_nested_sets(log: Path) -> None:
    """A compressed set inside a compressed set has numbers of both levels; too deep is a fault."""
    data = bytes(MessageSet([b"x", b"y"], Codec.GZIP))
    nested = encode(b"first") + data
    path = write_segment(log, encode(compress(Codec.GZIP, nested), Codec.GZIP))
    assert [e.inner for e in entries(path)] == ["", "0", "1", "1.0", "1.1"]
    for _ in range(10):
        data = encode(compress(Codec.GZIP, data), Codec.GZIP)
    assert "nested more than 8 deep" in str(entries(write_segment(log, data))[-1].fault)


def test_a_wrong_crc_is_passed_over(log: Path) -> None:
    """One flipped bit is a fault of one message; those behind it are still read."""
    good = encode(b"payload")
    path = write_segment(log, good, flipped(good, 12), good)
    assert [(e.offset, e.fault is None) for e in entries(path)] == [(1000, True), (1017, False), (1034, True)]
    assert "CRC is 0x" in str(entries(path)[1].fault)


@pytest.mark.parametrize(
    ("tail", "words"),
    [
        (b"\0\0", "2 bytes are no message"),
        (b"\0\0\0\4\1" + bytes(20), "length 4"),
        (b"\xff\xff\xff\xff\1" + bytes(20), "length -1"),
        (b"\0\0\0\5\1" + bytes(20), "length 5"),
        (b"\0\0\0\6\2" + bytes(20), "magic 2"),
        (encode(b"payload")[:-1], "a message of 17 bytes, of which only 16 are there"),
        (b"\x7f\xff\xff\xff\1" + bytes(20), "a message of 2147483651 bytes, of which only 25 are there"),
    ],
)
def test_what_cannot_be_read_on_from_ends_a_file(log: Path, tail: bytes, words: str) -> None:
    """A length or magic that makes no sense, and a torn tail, are the last thing that is shown."""
    good = encode(b"payload")
    found = entries(write_segment(log, good, tail))
    assert len(found) == 2
    assert (found[1].offset, found[1].fault, found[1].size) == (START + len(good), words, len(tail))


def test_faults_inside_compressed_messages(log: Path) -> None:
    """Only --verify looks inside: a wrong CRC there, a set that does not open, an unknown codec."""
    inside = flipped(encode(b"one"), 11) + encode(b"two")
    path = write_segment(log, encode(compress(Codec.SNAPPY, inside), Codec.SNAPPY))
    assert [e.fault is None for e in entries(path, deep=False)] == [True]
    assert [(e.inner, e.fault is None) for e in entries(path)] == [("", True), ("0", False), ("1", True)]
    assert "does not open" in str(entries(write_segment(log, encode(b"no gzip", Codec.GZIP)))[-1].fault)
    unknown = bytearray(encode(b"x"))
    unknown[5] = 3
    assert entries(write_segment(log, bytes(unknown)))[0].fault == "codec 3 is unknown"


@given(st.binary(max_size=300))
def test_garbage_is_described_not_raised(data: bytes) -> None:
    """Whatever a file holds, its sizes add up to it and nothing is raised."""
    import tempfile

    with tempfile.TemporaryDirectory() as directory:
        path = write_segment(Path(directory), data, start=0)
        assert sum(e.size for e in entries(path) if not e.inner) == len(data)


def dump(*arguments: object) -> int:
    return main(["dump-log", *map(str, arguments)])


def columns(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_listing(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A line for each message, under the name of the file; everything is well."""
    path = write_segment(log, encode(b"a"), bytes(MessageSet([b"b"], Codec.GZIP)))
    assert dump(path, "--verify") == 0
    shown = columns(capsys.readouterr().out)
    assert shown[:2] == [[str(path)], ["offset", "inner", "size", "magic", "codec", "payload", "crc"]]
    assert shown[2] == ["1000", "11", "1", "none", "1", "ok"]
    assert shown[4] == ["1011", "0", "11", "1", "none", "1", "ok"]


def test_faults_name_path_and_offset_and_fail(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each fault is one line on standard error, and the exit status is 1."""
    good = encode(b"payload")
    path = write_segment(log, good, flipped(good, 12), good[:-1])
    assert dump(log) == 1
    captured = capsys.readouterr()
    lines = captured.err.splitlines()
    assert [line.split(": CRC is")[0] for line in lines] == [
        f"{path}: offset 1017",
        f"{path}: offset 1034: a message of 17 bytes, of which only 16 are there",
    ]
    assert len(captured.out.splitlines()) == 5


def test_json_is_one_list(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With --json all files together are one list of objects."""
    first = write_segment(log, encode(b"a"))
    second = write_segment(log, encode(b"b"), start=START + 11)
    assert dump(log, "--json") == 0
    found: list[dict[str, object]] = json.loads(capsys.readouterr().out)
    assert [(item["path"], item["offset"], item["fault"]) for item in found] == [
        (str(first), 1000, None),
        (str(second), 1011, None),
    ]


def test_summary_counts(tmp_path: Path, log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A line for each file of all logs in a log.dir: offsets, messages, faults."""
    good = encode(b"payload")
    write_segment(log, good, bytes(MessageSet([b"b", b"c"], Codec.GZIP)))
    write_segment(log, good, flipped(good, 12), good[:3], start=5000)
    assert dump(tmp_path, "--summary", "--verify", "--json") == 1
    found: list[dict[str, int]] = json.loads(capsys.readouterr().out)
    counts: Sequence[tuple[int, ...]] = [
        (item["first_offset"], item["end_offset"] - item["first_offset"], item["messages"], item["faults"])
        for item in found
    ]
    assert counts == [(1000, found[0]["bytes"], 2, 0), (5000, 34, 2, 2)]
    assert found[0]["compressed_inside"] == 2


def test_payloads_are_shown_when_asked_for(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each message's payload once, those inside compressed ones too; nothing in it steers a terminal."""
    write_segment(log, encode(b"one\x1b[31m"), bytes(MessageSet([b"two", b"\xff"], Codec.GZIP)))
    assert main(["dump-log", str(log), "--payload"]) == 0
    lines = capsys.readouterr().out.splitlines()[2:]
    assert [line.partition("ok")[2].strip() for line in lines] == ["one\\x1b[31m", "", "two", "\\xff"]
    assert main(["dump-log", str(log), "--payload", "--json"]) == 0
    shown = [
        {key: value for key, value in item.items() if key in {"payload", "payload_base64"}}
        for item in json.loads(capsys.readouterr().out)
    ]
    assert shown == [{"payload": "one\x1b[31m"}, {}, {"payload": "two"}, {"payload_base64": "/w=="}]
    assert main(["dump-log", str(log), "--json"]) == 0
    assert 'payload"' not in capsys.readouterr().out


def test_directories_of_brokers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """However far above the segments a directory is, they are found, broker by broker."""
    for broker in ("broker-0", "broker-1"):
        log = tmp_path / broker / "logs" / "views-0"
        log.mkdir(parents=True)
        write_segment(log, encode(b"x"), start=0)
    assert main(["dump-log", str(tmp_path), "--summary", "--json"]) == 0
    found = [Path(row["path"]).relative_to(tmp_path).parts[0] for row in json.loads(capsys.readouterr().out)]
    assert found == ["broker-0", "broker-1"]


def test_a_directory_without_segments(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong directory is an error, not an empty answer."""
    assert dump(tmp_path) == 1
    assert "there are no segment files in" in capsys.readouterr().err


@pytest.mark.parametrize(("name", "codec"), [("cap-0", "none"), ("capgz-0", "gzip"), ("capsn-0", "snappy")])
def test_segments_of_07(name: str, codec: str, log: Path) -> None:
    """Segment files that Kafka 0.7.2 wrote are read to their last byte without a fault."""
    found = entries(write_segment(log, SEGMENTS[name], start=0))
    assert {e.fault for e in found} == {None}
    assert codec in {e.codec for e in found if not e.inner}
    assert sum(e.size for e in found if not e.inner) == len(SEGMENTS[name])
