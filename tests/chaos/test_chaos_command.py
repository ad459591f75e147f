"""Where a chaos run keeps what it leaves behind."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from integration.chaos.__main__ import directory_of

if TYPE_CHECKING:
    import pytest


def test_a_run_that_comes_again_overwrites_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A seed has its directory; a schedule that is run again leaves those of the runs before alone."""
    monkeypatch.chdir(tmp_path)
    assert directory_of(7, is_again=True) == Path("build/chaos/7")
    Path("build/chaos/7").mkdir(parents=True)
    assert directory_of(7, is_again=False) == Path("build/chaos/7")
    assert directory_of(7, is_again=True) == Path("build/chaos/7.2")
    Path("build/chaos/7.2").mkdir()
    assert directory_of(7, is_again=True) == Path("build/chaos/7.3")
