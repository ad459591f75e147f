"""What a server's files hold, by what each is for, as its name says."""

from __future__ import annotations

from collections import defaultdict
from fnmatch import fnmatch
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

PURPOSES = {
    "*.kafka": "log",  # kafka2011: segments
    "db-*.log": "journal",  # ActiveMQ's KahaDB
    "db.data": "index",
    "db.redo": "redo log of the index",
    "*.rdq": "message store",  # RabbitMQ
    "*.idx": "index",
    "*.jif": "journal of the index",
    "*.aof": "append-only file",  # Redis
    "*.rdb": "snapshot",
    "*.blk": "blocks of messages",  # NATS
}
"""What files are for, by patterns of their names; others are OTHER."""
OTHER = "other files"
_BLOCK_BYTES = 4096


class Stored(NamedTuple):
    """Bytes of files: `written` in blocks that are not all zeros, `room` that they take on disk."""

    written: int
    room: int


NOTHING = Stored(0, 0)


def stored_files(directory: Path) -> dict[str, Stored]:
    """Return what lies below a directory, by purpose."""
    found: dict[str, Stored] = defaultdict(lambda: NOTHING)
    for path in sorted(directory.rglob("*")):
        try:
            if not path.is_file():
                continue
            stored = Stored(written_bytes(path), path.stat().st_blocks * 512)
        except FileNotFoundError:
            continue  # removed meanwhile
        so_far = found[purpose_of(path.name)]
        found[purpose_of(path.name)] = Stored(so_far.written + stored.written, so_far.room + stored.room)
    return dict(found)


def growth(before: Mapping[str, Stored], after: Mapping[str, Stored]) -> dict[str, Stored]:
    """Return what came to each purpose, without those that did not change."""
    grown = {}
    for purpose, now in after.items():
        then = before.get(purpose, NOTHING)
        if now != then:
            grown[purpose] = Stored(now.written - then.written, now.room - then.room)
    return grown


def purpose_of(name: str) -> str:
    """Return what a file of that name is for."""
    return next((purpose for pattern, purpose in PURPOSES.items() if fnmatch(name, pattern)), OTHER)


def written_bytes(path: Path) -> int:
    """Return the bytes of a file without its blocks of nothing but zeros: room that is made before it is needed."""
    total = 0
    with path.open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            if block.strip(b"\0"):
                total += len(block)
    return total


def sizes(directory: Path) -> dict[Path, tuple[int, int]]:
    """Return length and blocks of each file below a directory, without reading it."""
    found = {}
    for path in directory.rglob("*"):
        try:
            status = path.stat()
        except FileNotFoundError:
            continue  # removed meanwhile
        found[path] = (status.st_size, status.st_blocks)
    return found
