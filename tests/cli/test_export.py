"""`export`: segment files become Parquet files with the same messages, or the command says where it cannot."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from kafka2011.cli import segment_parquet
from kafka2011.cli.app import main
from kafka2011.message.compression import Codec
from kafka2011.message.message_set import Message, MessageSet, decode, encode

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("each_code")

FIRST = encode(b"old", magic=0) + encode(b"") + bytes(MessageSet([b"a", b"bc"], Codec.GZIP))
SECOND = bytes(MessageSet([b"x"] * 3, Codec.SNAPPY)) + encode(b"last")


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """Give a log.dir of broker 2 with two segments of views-0, and one of other-1."""
    directory = tmp_path / "logs"
    directory.mkdir()
    (directory / ".kafka2011_broker_2").touch()
    write(directory / "views-0", 1000, FIRST)
    write(directory / "views-0", 1000 + len(FIRST), SECOND)
    write(directory / "other-1", 0, encode(b"o"))
    return directory


def write(directory: Path, start: int, data: bytes) -> Path:
    directory.mkdir(exist_ok=True)
    path = directory / f"{start:020}.kafka"
    path.write_bytes(data)
    return path


def export(*arguments: object) -> int:
    return main(["export", *map(str, arguments)])


def rows(paths: Iterable[Path]) -> list[Message]:
    found: list[Message] = []
    for path in paths:
        found += [Message(**row) for row in pq.read_table(path).to_pylist()]
    return found


def told(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return found


def test_every_message_is_a_row(log_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the fields that consumers get, from compressed sets too, in one file for each segment."""
    into = tmp_path / "into"
    assert export(log_dir, "--topic", "views", "--into", into, "--json") == 0
    files = sorted(into.rglob("*.parquet"))
    assert [str(file.relative_to(into)) for file in files] == [
        f"broker-2/views-0/{start:020}.parquet" for start in (1000, 1000 + len(FIRST))
    ]
    assert rows(files) == list(decode(FIRST + SECOND, "views", 2, 0, 1000))
    one, two = told(capsys)
    assert (one["messages"], one["end_offset"], one["into"]) == (4, 1000 + len(FIRST), str(files[0]))
    assert (two["messages"], two["end_offset"], two["path"]) == (
        4,
        1000 + len(FIRST + SECOND),
        str(log_dir / "views-0" / files[1].with_suffix(".kafka").name),
    )


def test_a_path_may_be_a_partition_or_a_segment(log_dir: Path, tmp_path: Path) -> None:
    """Without a label nobody knows the broker; a file that is there is replaced, and nothing else is left."""
    (log_dir / ".kafka2011_broker_2").unlink()
    into = tmp_path / "into"
    segment = log_dir / "other-1" / f"{0:020}.kafka"
    for _ in range(2):
        assert export(segment, log_dir / "views-0", "--into", into) == 0
        assert sorted(each.name for each in into.iterdir()) == ["other-1", "views-0"]
        assert [each.name for each in (into / "other-1").iterdir()] == [f"{0:020}.parquet"]
        assert rows([into / "other-1" / f"{0:020}.parquet"]) == list(decode(encode(b"o"), "other", None, 1, 0))
        segment.write_bytes(encode(b"o"))


def test_partitions_can_be_chosen(log_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By number; what is not there is an error."""
    into = tmp_path / "into"
    assert export(log_dir, "--partition", 1, "--into", into) == 0
    assert [each.parent.name for each in into.rglob("*.parquet")] == ["other-1"]
    assert export(log_dir, "--partition", 9, "--into", into) == 1
    assert f"there are no segment files of these topics and partitions in {log_dir}" in capsys.readouterr().err


def test_brokers_do_not_write_over_one_another(
    log_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each has a directory of its own; where labels are missing, nothing is written."""
    other = tmp_path / "others"
    other.mkdir()
    write(other / "views-0", 1000, FIRST)
    assert export(log_dir, other, "--topic", "views", "--into", tmp_path / "both") == 0
    assert len(list((tmp_path / "both").rglob("*.parquet"))) == 3
    (log_dir / ".kafka2011_broker_2").unlink()
    assert export(log_dir, other, "--topic", "views", "--into", tmp_path / "none") == 1
    assert "would be one file: export them into different directories" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (encode(b"wrong")[:-1] + b"?", "CRC differs"),
        (encode(b"no gzip", Codec.GZIP), "does not open"),
        (b"\0\0\0\2\1\1\1\1\1\1", "length 2"),
        ((2**30).to_bytes(4) + b"\1\0\0\0\0\0", "the file ends within a message"),
    ],
)
def test_a_fault_is_named_with_its_path_and_offset(
    log_dir: Path, tmp_path: Path, fault: bytes, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """And its segment has no file; those before it do."""
    into = tmp_path / "into"
    segment = write(log_dir / "views-0", 1000 + len(FIRST), SECOND + fault)
    write(log_dir / "views-0", 1000 + len(FIRST + SECOND + fault), SECOND)
    assert export(log_dir / "views-0", "--into", into) == 1
    error = capsys.readouterr().err
    assert f"{segment}: corrupt message" in error or f"{segment}: the compressed message" in error
    assert f"at offset {1000 + len(FIRST + SECOND)}" in error
    assert said in error
    assert [each.name for each in into.rglob("*") if each.is_file()] == [f"{1000:020}.parquet"]


def test_what_is_being_written_at_the_end_is_left_out(
    log_dir: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """With a warning that says how much; a segment without a message gives no file."""
    into = tmp_path / "into"
    segment = write(log_dir / "views-0", 1000 + len(FIRST), SECOND + encode(b"begun")[:-1])
    write(log_dir / "other-1", 0, b"")
    assert export(log_dir, "--into", into) == 0
    left = len(encode(b"begun")) - 1
    said = f"{segment}: ends within a message, which is left out: the {left} bytes from offset"
    assert f"{said} {1000 + len(FIRST + SECOND)} on" in caplog.text
    assert rows(sorted(into.rglob("*.parquet"))) == list(decode(FIRST + SECOND, "views", 2, 0, 1000))


@pytest.mark.parametrize("read_bytes", [1, 7, 64])
def test_segments_are_read_in_pieces(
    log_dir: Path, tmp_path: Path, read_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of any size, also smaller than a message; row groups end where enough is held."""
    monkeypatch.setattr(segment_parquet, "READ_BYTES", read_bytes)
    monkeypatch.setattr(segment_parquet, "GROUP_BYTES", 1)
    assert export(log_dir / "views-0", "--into", tmp_path / "into") == 0
    files = sorted((tmp_path / "into").rglob("*.parquet"))
    assert rows(files) == list(decode(FIRST + SECOND, "views", 2, 0, 1000))
    assert pq.ParquetFile(files[0]).num_row_groups > 1


def test_no_message_is_too_large_for_the_memory(
    log_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One that claims to be is an error, and is not read."""
    monkeypatch.setattr(segment_parquet, "READ_BYTES", 16)
    monkeypatch.setattr(segment_parquet, "MAX_MESSAGE_BYTES", 100)
    write(log_dir / "other-1", 0, encode(b"o") + encode(b"x" * 91))
    assert export(log_dir / "other-1", "--into", tmp_path / "into") == 1
    assert f"at offset {len(encode(b'o'))}: a message of 101 bytes, more than 100" in capsys.readouterr().err


def test_a_directory_that_is_no_partition_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nobody could say of which topic its messages are."""
    write(tmp_path / "views", 0, encode(b"v"))
    assert export(tmp_path, "--into", tmp_path / "into") == 1
    assert f"{tmp_path / 'views'} is not called as the directory of a partition is" in capsys.readouterr().err


def test_what_cannot_be_written_is_said(log_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the path of the file."""
    (tmp_path / "into").mkdir()
    (tmp_path / "into" / "broker-2").touch()
    assert export(log_dir / "views-0", "--into", tmp_path / "into") == 1
    assert f"writing {tmp_path / 'into' / 'broker-2' / 'views-0'}" in capsys.readouterr().err
