"""Positions on disk."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from kafka2011.pipeline.collect.positions import CollectStateError, FileKey, FilePosition, Positions

if TYPE_CHECKING:
    from pathlib import Path

ONE = FilePosition(FileKey(1, 2), "/var/log/a", 10, "abc", 20, 30, 40)


def test_what_was_saved_is_loaded(tmp_path: Path) -> None:
    """All of it comes back, and what did not change is not written again."""
    positions = Positions(tmp_path / "state", "views")
    positions.files[ONE.key] = ONE
    positions.spool_offset = 7
    assert positions.save()
    assert not positions.save()
    positions.close()
    again = Positions(tmp_path / "state", "views")
    assert again.files == {ONE.key: ONE}
    assert again.spool_offset == 7
    assert not again.save()
    again.close()


def test_one_collector_at_a_time(tmp_path: Path) -> None:
    """A second one is refused while the first one lives."""
    positions = Positions(tmp_path, "views")
    with pytest.raises(CollectStateError, match=f"another collector uses {tmp_path}"):
        Positions(tmp_path, "views")
    positions.close()
    Positions(tmp_path, "views").close()


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"version": 2, "topic": "views", "files": [], "spool_offset": 0}', '{"version": 1}']
)
def test_what_holds_no_positions_is_refused(tmp_path: Path, text: str) -> None:
    """A broken file is not taken for an empty one, and the error names it."""
    (tmp_path / "positions.json").write_text(text)
    with pytest.raises(CollectStateError, match=r"positions\.json does not hold positions"):
        Positions(tmp_path, "views")
    (tmp_path / "positions.json").unlink()
    Positions(tmp_path, "views").close()  # and the lock was let go


def test_positions_belong_to_a_topic(tmp_path: Path) -> None:
    """Lines that went to one topic do not count as sent to another."""
    positions = Positions(tmp_path, "views")
    positions.files[ONE.key] = ONE
    positions.save()
    positions.close()
    with pytest.raises(CollectStateError, match="for topic views, not clicks"):
        Positions(tmp_path, "clicks")


def test_a_failed_save_keeps_the_old_ones(tmp_path: Path) -> None:
    """What cannot be brought to disk does not replace what is there, and is saved by the next attempt."""
    fails = False

    def fsync(fd: int) -> None:
        if fails:
            raise OSError(28, "No space left on device")
        os.fsync(fd)

    positions = Positions(tmp_path, "views", fsync=fsync)
    positions.spool_offset = 1
    positions.save()
    before = positions.path.read_bytes()
    fails = True
    positions.spool_offset = 2
    with pytest.raises(OSError, match="No space"):
        positions.save()
    assert positions.path.read_bytes() == before
    fails = False
    assert positions.save()
    assert positions.path.read_bytes() != before
    positions.close()
