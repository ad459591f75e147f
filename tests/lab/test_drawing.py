"""Bytes are drawn so that a student sees which one is wrong."""

from __future__ import annotations

import pytest

from kafka2011.lab.drawing import dump, dump_difference, explain_answer, explain_difference, first_difference


def test_the_marks_stand_below_the_bytes_that_differ() -> None:
    """Also below those that are missing."""
    line, marks = dump_difference(b"abXd", b"abcd").splitlines()
    assert line == "  0000  61 62 58 64                                      abXd"
    assert marks == "              ^^"
    assert dump_difference(b"ab", b"abcd").splitlines()[1] == "              ^^ ^^"
    assert dump_difference(b"", b"a") == "  (nothing)"


def test_a_line_has_16_bytes() -> None:
    """What cannot be printed is a dot."""
    lines = dump(bytes(range(60, 80)) + b"\xff").splitlines()
    assert lines[0] == "  0000  3c 3d 3e 3f 40 41 42 43 44 45 46 47 48 49 4a 4b  <=>?@ABCDEFGHIJK"
    assert lines[1].startswith("  0010  4c 4d 4e 4f ff ")
    assert lines[1].endswith(" LMNO.")


def test_of_long_data_the_lines_near_the_difference_are_shown() -> None:
    """And it is said how much is left out."""
    wanted = bytes(1000)
    came = bytes(500) + b"\x01" + bytes(499)
    lines = dump_difference(came, wanted).splitlines()
    assert lines[0] == "  (480 bytes before)"
    assert len(lines) < 15
    assert any(line.startswith("  01f0 ") and " 01 " in line for line in lines)
    assert lines[-1] == "  (392 bytes after)"
    assert dump(b"") == "  (nothing)"


REVERSED = "The 4 bytes from there are in reverse order: numbers are big-endian."


@pytest.mark.parametrize(
    ("wanted", "came", "at", "sentence"),
    [
        (b"abc", b"abc", None, "All bytes are as wanted."),
        (b"abc", b"aXc", 1, "Byte 1 differs: 0x58 came, 0x62 was wanted."),
        (
            b"\0\0\0\x09",
            b"\x09\0\0\0",
            0,
            f"Byte 0 differs: 0x09 came, 0x00 was wanted. {REVERSED}",
        ),
        (b"abc", b"ab", 2, "2 bytes came, 3 were wanted: byte 2 is missing."),
        (b"abc", b"abcd", 3, "4 bytes came, 3 were wanted: byte 3 is one too many."),
    ],
)
def test_a_sentence_names_the_first_byte_that_differs(
    wanted: bytes, came: bytes, at: int | None, sentence: str
) -> None:
    """Positions count from 0, as in the dump."""
    assert first_difference(wanted, came) == at
    assert explain_difference(wanted, came) == sentence


@pytest.mark.parametrize(
    ("position", "byte", "sentence"),
    [
        (3, 8, " It is in the size: 8 came, 3 was wanted."),
        (5, 1, " It is in the error: 1 came, 0 was wanted."),
        (6, 1, ""),
        (10, 0, " It is in the size: 0 came, 2 was wanted."),
        (12, 9, " It is in the error: 9 came, -1 was wanted."),
    ],
)
def test_of_a_response_the_size_and_the_error_are_named(position: int, byte: int, sentence: str) -> None:
    """Also of the second one."""
    wanted = bytes.fromhex("00000003 0000 61  00000002 ffff")
    came = wanted[:position] + bytes([byte]) + wanted[position + 1 :]
    if position == 12:
        came = wanted[:11] + b"\0\x09"
    assert explain_answer(wanted, came) == explain_difference(wanted, came) + sentence
