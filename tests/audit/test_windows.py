"""Windows of `published_at`."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka2011.audit.windows import Windows

LENGTHS_MS = st.integers(1, 1_000_000)
TIMES_US = st.integers(-(2**52), 2**52)


@given(length_ms=LENGTHS_MS, times_us=st.lists(TIMES_US, min_size=1))
def test_every_time_is_in_exactly_one_window(length_ms: int, times_us: list[int]) -> None:
    """A window begins at a multiple of its length, before or at the time, and the next one begins after it."""
    starts_ms = Windows(length_ms).starts_ms(np.array(times_us))
    for time_us, start_ms in zip(times_us, starts_ms.tolist(), strict=True):
        assert start_ms % length_ms == 0
        assert start_ms * 1000 <= time_us < (start_ms + length_ms) * 1000


@given(length_ms=LENGTHS_MS, grace_ms=st.integers(0, 1_000_000), start_ms=TIMES_US)
def test_a_window_closes_with_its_grace_and_stays_closed(length_ms: int, grace_ms: int, start_ms: int) -> None:
    """It is open until the grace after its end is over, not a millisecond longer."""
    windows = Windows(length_ms, grace_ms)
    end_ms = start_ms + length_ms + grace_ms
    assert not windows.is_closed(start_ms, end_ms - 1)
    assert windows.is_closed(start_ms, end_ms)
    assert windows.is_closed(start_ms, end_ms + 1)


@pytest.mark.parametrize(("length_ms", "grace_ms"), [(0, 0), (-1, 0), (1, -1)])
def test_windows_that_make_no_sense(length_ms: int, grace_ms: int) -> None:
    """A window has a length, and no grace is the shortest one."""
    with pytest.raises(ValueError, match=f"a window of {length_ms} ms"):
        Windows(length_ms, grace_ms)
