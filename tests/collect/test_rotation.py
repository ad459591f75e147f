"""What became of files that were rotated away: each one that is there is told once."""

from __future__ import annotations

import gzip
import os
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from kafka2011.collect.content import OpenFiles, PlainFile, fingerprint
from kafka2011.collect.positions import FileKey, FilePosition
from kafka2011.collect.rotation import Former, Listing, find_former

if TYPE_CHECKING:
    from pathlib import Path

READ = b"one\n"
OPEN_FILES = 10


@pytest.fixture
def known(tmp_path: Path) -> FilePosition:
    """Return the position of a file of which all was read, and which is no longer in its directory."""
    log = tmp_path / "logs" / "a.log"
    log.parent.mkdir()
    log.write_bytes(READ)
    status = log.stat()
    key = FileKey.of(status)
    with closing(PlainFile(str(log), key, OpenFiles(OPEN_FILES))) as content:
        read = fingerprint(content, len(READ))
    assert read is not None
    log.rename(tmp_path / "kept")  # or the next file might have its inode
    return FilePosition(key, str(log), len(READ), read, size_bytes=len(READ), modified_ns=status.st_mtime_ns)


def former_of(known: FilePosition, tmp_path: Path) -> Former:
    listing = Listing(tmp_path / "logs")
    former = find_former(known.watched, {known.key: known}, known.modified_ns, OpenFiles(OPEN_FILES), listing)
    former.close()
    return former


@pytest.mark.parametrize("suffix", ["1", "1.gz"])
def test_what_goes_on_in_another_file_is_unread_once(known: FilePosition, tmp_path: Path, suffix: str) -> None:
    """It is no file that came unseen as well."""
    copy = tmp_path / "logs" / f"a.log.{suffix}"
    copy.write_bytes(gzip.compress(READ + b"two\n") if copy.suffix == ".gz" else READ + b"two\n")
    former = former_of(known, tmp_path)
    assert [(unread.file.name, unread.continues) for unread in former.unread] == [(copy.name, known.key)]
    assert (former.there, former.read, former.broken, former.gone) == ([], [], [], [])


def test_what_was_compressed_after_reading_is_not_unread(known: FilePosition, tmp_path: Path) -> None:
    packed = tmp_path / "logs" / "a.log.1.gz"
    packed.write_bytes(gzip.compress(READ))
    os.utime(packed, ns=(known.modified_ns, known.modified_ns))
    former = former_of(known, tmp_path)
    assert [(key, file.name) for key, file in former.read] == [(known.key, packed.name)]
    assert (former.there, former.unread, former.broken, former.gone) == ([], [], [], [])


def test_a_file_with_other_content_came_unseen(known: FilePosition, tmp_path: Path) -> None:
    """And the known one is gone."""
    other = tmp_path / "logs" / "a.log.1"
    other.write_bytes(b"other\n")
    former = former_of(known, tmp_path)
    assert [(unread.file.name, unread.continues) for unread in former.unread] == [(other.name, None)]
    assert (former.there, former.read, former.broken, former.gone) == ([], [], [], [known.key])
