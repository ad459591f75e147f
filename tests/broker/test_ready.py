"""The line that says that a broker is ready."""

from __future__ import annotations

import pytest

from kafka2011.broker.ready import Ready

LINE = "broker 12 is ready on host-1.example:6667"


def test_the_line_is_read_back() -> None:
    """Whoever started a broker finds number, host and port in its output, among other lines."""
    assert str(Ready(12, "host-1.example", 6667)) == LINE
    for output in (f"{LINE}\n", f"starting\n{LINE}\nmore\n", f"{LINE}\r\n", f"{LINE}\nbroker 1 is ready on h:1\n"):
        assert Ready.find(output.encode()) == Ready(12, "host-1.example", 6667)


@pytest.mark.parametrize("cut", range(len(LINE) + 1))
def test_half_a_line_says_nothing(cut: int) -> None:
    """Output is read while it is written: a port that lacks its last digits must not be believed."""
    assert Ready.find(f"starting\n{LINE[:cut]}".encode()) is None


@pytest.mark.parametrize("output", ["", "broker x is ready on h:1\n", f"no {LINE}\n", f"{LINE} soon\n", "\xff\n"])
def test_other_lines_are_not_taken_for_it(output: str) -> None:
    """Only a whole line of that form counts."""
    assert Ready.find(output.encode("latin-1")) is None
