"""What `demo` takes, and what it refuses before it starts anything."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import pytest

from kafka2011.cli import app, demo
from kafka2011.demo.records import numbered

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b""])
def test_the_longest_line_is_taken(end: bytes, tmp_path: Path) -> None:
    """A line may be as long as makes a whole message with its number."""
    path = tmp_path / "log"
    path.write_bytes(b"x\n" + b"y" * demo.MAX_LINE_BYTES + end)
    with path.open("rb") as file:
        lines = demo.read_lines(file)
    assert list(map(len, lines)) == [1, demo.MAX_LINE_BYTES]
    assert len(numbered(demo.MAX_LINES, lines[1])) == 1_000_000


@pytest.mark.parametrize("end", [b"\n", b""])
def test_a_line_that_is_too_long_fails_at_once(end: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line says which; nothing was started, and nothing is left."""
    path = tmp_path / "log"
    path.write_bytes(b"x\n" + b"y" * (demo.MAX_LINE_BYTES + 1) + end + b"z")
    assert app.main(["demo", "--file", str(path)]) == 2
    shown = capsys.readouterr().err
    assert f"{path}: line 2 is too much: the demo takes 1000000 lines of {demo.MAX_LINE_BYTES} bytes" in shown
    assert shown.count("\n") == 1
    assert list(tmp_path.iterdir()) == [path]


def test_tiers_need_a_regular_file(capsys: pytest.CaptureFixture[str]) -> None:
    """The collector reads it once more, by its name."""
    assert app.main(["demo", "--tiers", "quick", "--file", "/dev/null"]) == 2
    assert "must be a regular file" in capsys.readouterr().err


def test_an_empty_log_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """There is nothing to account for."""
    path = tmp_path / "log"
    path.touch()
    assert app.main(["demo", "--file", str(path)]) == 2
    assert "it has no lines" in capsys.readouterr().err


def test_a_compressed_log_is_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "log.gz"
    path.write_bytes(gzip.compress(b"a line\nanother\n"))
    with path.open("rb") as file:
        assert demo.read_lines(file) == [b"a line", b"another"]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"\x7fELF\x02\x01\x01\x00", "it is a program"),
        (
            gzip.compress(b"a line\n" * 100, mtime=0)[:-10],
            "Compressed file ended before the end-of-stream",
        ),
    ],
)
def test_what_is_no_log_is_refused(
    content: bytes, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "log"
    path.write_bytes(content)
    assert app.main(["demo", "--file", str(path)]) == 2
    shown = capsys.readouterr().err
    assert str(path) in shown
    assert why in shown
