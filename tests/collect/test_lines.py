"""Lines in bounded memory."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kafka2011.collect.lines import LineCutter, cut_line


@given(st.lists(st.binary(max_size=400)), st.booleans())
def test_it_does_not_matter_how_the_bytes_come(chunks: list[bytes], refuse: bool) -> None:
    """However a stream is divided, the same lines come out; long ones are cut or left out."""
    whole = b"".join(chunks)
    cutter = LineCutter(100, refuse=refuse)
    lines = [line for chunk in chunks for line in cutter.feed(chunk)] + cutter.finish()
    expected = whole.split(b"\n")
    if not expected[-1]:
        del expected[-1]
    too_long = [line for line in expected if len(line) > 100]
    assert cutter.too_long == len(too_long)
    if refuse:
        assert lines == [line for line in expected if len(line) <= 100]
    else:
        assert lines == [line if len(line) <= 100 else cut_line(line, len(line), 100) for line in expected]
    assert cutter.held_bytes == 0


@given(st.lists(st.binary(max_size=400)), st.booleans())
def test_it_says_where_lines_begin(chunks: list[bytes], refuse: bool) -> None:
    """In the stream, however it is divided, and whatever is cut or left out."""
    whole = b"".join(chunks)
    cutter = LineCutter(100, refuse=refuse)
    position = 0
    for chunk in chunks:
        starts = [position + start for start in cutter.starts(chunk)]
        lines = cutter.feed(chunk)
        assert len(lines) == len(starts)
        for line, start in zip(lines, starts, strict=True):
            end = whole.index(b"\n", start)
            assert start == 0 or whole[start - 1 : start] == b"\n"
            assert line in (whole[start:end], cut_line(whole[start:end], end - start, 100))
        position += len(chunk)


@given(st.lists(st.lists(st.sampled_from([b"\0" * 50, b"a" * 30, b"b", b"\n"])).map(b"".join)), st.booleans())
def test_lines_come_without_nul_bytes(chunks: list[bytes], refuse: bool) -> None:
    """As if there had been none, however the stream is divided, but each line begins where it did."""
    whole = b"".join(chunks)
    cutter, plain = LineCutter(100, refuse=refuse, skips_nul=True), LineCutter(100, refuse=refuse)
    lines, starts, position = [], [], 0
    for chunk in chunks:
        starts += [position + start for start in cutter.starts(chunk)]
        lines += cutter.feed(chunk)
        position += len(chunk)
        assert cutter.held_bytes == position - (whole[:position].rfind(b"\n") + 1)
    assert lines == plain.feed(whole.replace(b"\0", b""))
    assert len(lines) == len(starts)
    for line, start in zip(lines, starts, strict=True):
        assert start == 0 or whole[start - 1 : start] == b"\n"
        found = whole[start : whole.index(b"\n", start)].replace(b"\0", b"")
        assert line in (found, cut_line(found, len(found), 100))
    assert cutter.nul_bytes == whole.count(b"\0")


def test_a_cut_line_says_what_is_missing() -> None:
    """The beginning stays, within the limit, and the mark has the right number."""
    line = cut_line(b"a" * 100, 1_000_000, 100)
    start, _, mark = line.partition(b" ")
    assert len(line) <= 100
    assert mark == b"[cut: %d bytes more]" % (1_000_000 - len(start))


def test_an_endless_line_stays_small_in_memory() -> None:
    """Of a line without an end only so much is kept as may be sent."""
    cutter = LineCutter(1000)
    for _ in range(1000):
        assert cutter.feed(b"x" * 10_000) == []
    assert len(cutter.held) == 1000
    [line] = cutter.feed(b"\n")
    assert line.endswith(b" bytes more]")
    assert cutter.held_bytes == 0
