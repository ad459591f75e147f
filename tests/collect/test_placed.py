"""Ids that a line always gets at its place."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from kafka2011.collect.content import OpenFiles, PlainFile
from kafka2011.collect.counts import CollectCounts
from kafka2011.collect.lines import LineCutter
from kafka2011.collect.placed import id_of, placed
from kafka2011.collect.positions import FileKey, FilePosition
from kafka2011.collect.spool import MIN_SPOOL_BYTES, Spool, SpoolSettings
from kafka2011.collect.tail import FileTail
from zk.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def ids_of(path: Path, position: int = 0, fingerprint: str = "") -> list[str | None]:
    """Read a file from a position to its end, and return the ids of its lines."""
    key = FileKey.of(path.stat())
    saved = FilePosition(key, str(path), position, fingerprint)
    content = PlainFile(str(path), key, OpenFiles(1))
    tail = FileTail(content, saved, LineCutter(1000), CollectCounts(), places=True)
    lines = []
    while (piece := tail.read()) is not None:
        lines += piece.lines
    rest = tail.finish()
    lines += rest.lines if rest is not None else []
    tail.close()
    return [id_of(line, "a") for line in lines]


def test_what_is_read_again_has_the_same_ids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However the file is divided into reads, and though many lines are the same; long lines are cut."""
    path = tmp_path / "a.log"
    path.write_bytes(b"same\n" * 50 + b"x" * 3000 + b"\nsame\n\nno end")
    whole = ids_of(path)
    assert len(set(whole)) == len(whole) == 54
    monkeypatch.setattr("kafka2011.collect.tail.READ_BYTES", 7)
    assert ids_of(path) == whole


def test_another_place_is_another_id() -> None:
    """Another collector, file, offset or line: each is another event; and an id is a UUID."""
    [first, second] = placed([b"one", b"one"], [0, 4], "1:2")
    [other_file] = placed([b"one"], [0], "1:3")
    [other_line] = placed([b"two"], [0], "1:2")
    ids = [*(id_of(line, "a") for line in (first, second, other_file, other_line)), id_of(first, "b")]
    assert len({uuid.UUID(each) for each in ids if each}) == 5
    assert id_of(b"one", "a") is None


def test_what_waited_on_disk_has_the_same_ids_too(tmp_path: Path) -> None:
    """Lines of the spool are told apart by their offsets there."""
    found = []
    for is_first in (True, False):
        spool = Spool(SpoolSettings(tmp_path, "views", MIN_SPOOL_BYTES, places=True), 0, CollectCounts(), SYSTEM_CLOCK)
        if is_first:
            spool.append([b"same", b"same"])
        read = spool.read()
        assert read is not None
        found.append([id_of(line, "a") for line in read[0]])
        spool.close()
    assert found[0] == found[1]
    assert len(set(found[0])) == 2
