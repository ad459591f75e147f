"""ZooKeeper's own record of everything that was ever written: the transaction logs of its servers. Pure.

A file is a header of 16 bytes and then, for each transaction, an Adler-32 (8 bytes), the length (4), the transaction
and a `B`; zeros follow the last one. A transaction is a header (session, number in the session, zxid, time in ms and
type) and a record of the type's own. Only what concerns owners and offsets is read from those.
"""

from __future__ import annotations

import struct
import zlib
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_MAGIC = b"ZKLG"
_FILE_HEADER_BYTES = 16
_ENTRY = struct.Struct(">qi")
_HEADER = struct.Struct(">qiqqi")
_INT = struct.Struct(">i")

_CREATE, _DELETE, _SET_DATA, _MULTI = 1, 2, 5, 14
_CREATE_2, _CREATE_CONTAINER, _CREATE_TTL = 15, 19, 21
_CLOSE_SESSION = -11


class Write(NamedTuple):
    """A change of one znode, or with `kind` "close" the end of a session, which removes what is ephemeral of it."""

    zxid: int
    time_ms: int
    session_id: int
    kind: str
    path: str
    data: bytes
    is_ephemeral: bool = False


class _Record:
    """Reads one record's fields, one after the other."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def int32(self) -> int:
        [value] = _INT.unpack_from(self._data, self._position)
        self._position += 4
        return int(value)

    def buffer(self) -> bytes:
        size = max(self.int32(), 0)  # -1: null
        self._position += size
        return self._data[self._position - size : self._position]

    def text(self) -> str:
        return self.buffer().decode()

    def boolean(self) -> bool:
        self._position += 1
        return self._data[self._position - 1] != 0

    def skip_acl(self) -> None:
        for _ in range(self.int32()):
            self.int32()
            self.text()
            self.text()


def read_transactions(data: bytes) -> Iterator[Write]:
    """Yield the writes of one file, in order; a torn or damaged end is left out."""
    if data[:4] != _MAGIC:
        return
    position = _FILE_HEADER_BYTES
    while position + _ENTRY.size <= len(data):
        checksum, size = _ENTRY.unpack_from(data, position)
        body = data[position + _ENTRY.size : position + _ENTRY.size + size]
        if size <= 0 or len(body) < size or zlib.adler32(body) != checksum:
            return
        position += _ENTRY.size + size + 1
        session_id, _, zxid, time_ms, kind = _HEADER.unpack_from(body)
        yield from _writes(zxid, time_ms, session_id, kind, body[_HEADER.size :])


def _writes(zxid: int, time_ms: int, session_id: int, kind: int, body: bytes) -> Iterator[Write]:
    record = _Record(body)
    if kind in {_CREATE, _CREATE_2, _CREATE_CONTAINER, _CREATE_TTL}:
        path, data = record.text(), record.buffer()
        is_ephemeral = False
        if kind in {_CREATE, _CREATE_2}:
            record.skip_acl()
            is_ephemeral = record.boolean()
        yield Write(zxid, time_ms, session_id, "create", path, data, is_ephemeral)
    elif kind == _DELETE:
        yield Write(zxid, time_ms, session_id, "delete", record.text(), b"")
    elif kind == _SET_DATA:
        yield Write(zxid, time_ms, session_id, "set", record.text(), record.buffer())
    elif kind == _CLOSE_SESSION:
        yield Write(zxid, time_ms, session_id, "close", "", b"")
    elif kind == _MULTI:
        for _ in range(record.int32()):
            part = record.int32()
            yield from _writes(zxid, time_ms, session_id, part, record.buffer())


def merge(servers: Sequence[Iterable[bytes]]) -> list[Write]:
    """Return what was committed, in order, from the files of each server.

    What a majority has logged was committed. A leader that was deposed may have logged more, which never happened.
    """
    found: dict[tuple[int, int], list[Write]] = {}
    having: Counter[tuple[int, int]] = Counter()
    for files in servers:
        own: dict[tuple[int, int], list[Write]] = {}
        for data in files:
            for write in read_transactions(data):
                own.setdefault((write.zxid, write.time_ms), []).append(write)
        found.update(own)
        having.update(own.keys())
    return [write for name in sorted(found) for write in found[name] if 2 * having[name] > len(servers)]
