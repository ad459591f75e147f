"""Compressed and binary files among logs, as people name them."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

from tests.support.watched_reader import Reader, write

if TYPE_CHECKING:
    from pathlib import Path


def test_what_a_shell_expands_to_is_read_unpacked(tmp_path: Path) -> None:
    """Read the lines of a compressed file that `access.log*` names, once.

    Reported to grafana/loki (10155, 5956): the collector sent the compressed bytes as lines.
    """
    (tmp_path / "access.log.2.gz").write_bytes(gzip.compress(b"".join(b"GET /p%d\n" % number for number in range(200))))
    write(tmp_path / "access.log.1", "GET /q\n")
    names = ["access.log.1", "access.log.2.gz"]
    expected = [b"GET /q", *(b"GET /p%d" % number for number in range(200))]
    assert sorted(collected(tmp_path, names)) == sorted(expected)
    assert collected(tmp_path, names) == []


def collected(directory: Path, names: list[str]) -> list[bytes]:
    """Return the lines that a run of a collector reads, which goes on where the last one ended."""
    reader = Reader(directory, *names)
    lines = [line for _ in range(3) for line in reader.read()]
    reader.positions.save()
    assert reader.counts.all_is_well
    reader.close()
    return lines
