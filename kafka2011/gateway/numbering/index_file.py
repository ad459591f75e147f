"""The file of a partition's index, in a directory of its own.

`state` is JSON behind a checksum, and is replaced as a whole. It says how many entries of 16 bytes (position, number;
little-endian) of which file `entries.N` count, and their checksum; what follows there was not finished. `tail` has two
slots that are written in turn, so a torn one leaves the one before.
"""

from __future__ import annotations

import json
import os
import struct
import sys
import zlib
from array import array
from typing import TYPE_CHECKING, Any

from kafka2011.disk import SYSTEM_DISK
from kafka2011.gateway.numbering.boundaries import Boundary, Seal, Tail
from kafka2011.gateway.numbering.entries import Entries
from kafka2011.gateway.numbering.log_walk import MOST_SEALS
from kafka2011.gateway.numbering.stores import Stored
from kafka2011.json_document import read_document
from zk.errors import KafkaError

if TYPE_CHECKING:
    from pathlib import Path

    from kafka2011.disk import Disk

_VERSION = 1
_ENTRY_BYTES = 16
_TAIL = struct.Struct(f"<qqqq{'qqI' * MOST_SEALS}")
_CHECKSUM = struct.Struct("<I")
_SLOT_BYTES = _TAIL.size + _CHECKSUM.size
_MANY_DROPPED = 4096
"""The file is written again once it holds this many useless entries besides as many as useful ones."""


class _LostError(KafkaError):
    """Means that a file is missing, torn or of another version."""


class IndexDirectory:
    """Keeps an index in files of a directory, which it makes. Raises OSError."""

    def __init__(self, directory: Path, disk: Disk = SYSTEM_DISK) -> None:
        self._directory = directory
        self._tail_path = str(directory / "tail")
        self._disk = disk
        self._generation = -1
        self._file = 0
        self._first = 0
        """Which entry is the first in the file, by `Entries.dropped`."""
        self._written = 0
        self._checksum = 0
        self._notes = 0

    def load(self) -> Stored | None:
        """Return what was stored last, with the tail that was noted last; None where any of it is lost."""
        try:
            stored = self._load()
        except (_LostError, FileNotFoundError):
            self._generation = -1
            return None
        for tail in self._load_tails(stored.generation):
            if tail.position > stored.tail.position:
                stored = stored._replace(tail=tail)
        return stored

    def _load(self) -> Stored:
        text = (self._directory / "state").read_bytes()
        checksum, _, content = text.partition(b"\n")
        if checksum != b"%08x" % zlib.crc32(content):
            raise _LostError("the state of an index is torn")
        return read_document(content, self._stored_of, _LostError, "this is no state of an index", version=_VERSION)

    def _stored_of(self, document: dict[str, Any]) -> Stored:
        self._generation, self._file = int(document["generation"]), int(document["file"])
        self._written, self._checksum = int(document["entries"]), int(document["checksum"])
        with self._path().open("rb") as file:
            data = file.read(self._written * _ENTRY_BYTES)
        if len(data) < self._written * _ENTRY_BYTES or zlib.crc32(data) != self._checksum:
            raise _LostError("the entries of an index are torn")
        numbers = array("q", data)
        if sys.byteorder == "big":
            numbers.byteswap()
        entries, self._first = Entries(), 0
        entries.positions, entries.numbers = numbers[0::2], numbers[1::2]
        start, end = Boundary(*map(int, document["start"])), Boundary(*map(int, document["end"]))
        entries.drop_before(start.position)
        ahead, anchored = (
            tuple(Boundary(*map(int, place)) for place in document[key]) for key in ("ahead", "anchored")
        )
        tail, reserved, senders = Tail.of(document["tail"]), int(document["reserved"]), document["senders"]
        times = document.get("times")
        return Stored(self._generation, reserved, start, end, tail, ahead, anchored, senders, entries, times)

    def store(self, stored: Stored) -> None:
        """Keep an index, so that it survives a power cut; a crash leaves it or the one before."""
        entries = stored.entries
        useless = entries.dropped - self._first
        is_new = stored.generation != self._generation or useless > min(self._written, _MANY_DROPPED + len(entries))
        if is_new:
            self._directory.mkdir(parents=True, exist_ok=True)
            file, first, written, checksum = self._free_file(), entries.dropped, 0, 0
        else:
            file, first, written, checksum = self._file, self._first, self._written, self._checksum
        data = _data(entries, first + written - entries.dropped)
        self._append(file, written * _ENTRY_BYTES, data)
        written, checksum = written + len(data) // _ENTRY_BYTES, zlib.crc32(data, checksum)
        document = {
            "version": _VERSION,
            "generation": stored.generation,
            "file": file,
            "entries": written,
            "checksum": checksum,
            "reserved": stored.reserved,
            "start": list(stored.start),
            "end": list(stored.end),
            "tail": stored.tail.document(),
            "ahead": [list(place) for place in stored.ahead],
            "anchored": [list(place) for place in stored.anchored],
            "senders": stored.senders,
            "times": stored.times,
        }
        content = json.dumps(document, separators=(",", ":")).encode()
        with self._disk.replacing(self._directory / "state") as out:
            out.write(b"%08x\n%b" % (zlib.crc32(content), content))
        self._generation, self._file = stored.generation, file
        self._first, self._written, self._checksum = first, written, checksum
        if is_new:
            self._remove_others()

    def _path(self, file: int | None = None) -> Path:
        return self._directory / f"entries.{self._file if file is None else file}"

    def _free_file(self) -> int:
        names = [path.suffix[1:] for path in self._directory.glob("entries.*")]
        return max((int(name) for name in names if name.isdecimal()), default=0) + 1

    def _append(self, file: int, size: int, data: bytes) -> None:
        if not data and size:
            return
        fd = os.open(self._path(file), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            os.ftruncate(fd, size)  # what a crash has left there
            os.lseek(fd, size, os.SEEK_SET)
            self._disk.write_all(fd, data)
            self._disk.fsync(fd)
        finally:
            self._disk.close(fd)

    def _remove_others(self) -> None:
        for path in self._directory.glob("entries.*"):
            if path != self._path():
                self._disk.unlink(path)

    def note(self, generation: int, tail: Tail) -> None:
        """Keep how far the log was numbered, so that it survives the end of the process; it is not fsynced."""
        seals = [value for seal in tail.seals for value in seal]
        missing = MOST_SEALS * len(Seal._fields) - len(seals)
        record = _TAIL.pack(generation, tail.position, tail.number, len(tail.seals), *seals, *[0] * missing)
        try:
            fd = self._open_tail()
        except FileNotFoundError:
            self._directory.mkdir(parents=True, exist_ok=True)
            fd = self._open_tail()
        try:
            self._notes += 1
            os.lseek(fd, self._notes % 2 * _SLOT_BYTES, os.SEEK_SET)
            self._disk.write_all(fd, record + _CHECKSUM.pack(zlib.crc32(record)))
        finally:
            os.close(fd)

    def _open_tail(self) -> int:
        return os.open(self._tail_path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)

    def _load_tails(self, generation: int) -> list[Tail]:
        try:
            data = (self._directory / "tail").read_bytes()
        except FileNotFoundError:
            return []
        tails = []
        for at in range(0, len(data) - _SLOT_BYTES + 1, _SLOT_BYTES):
            record = data[at : at + _TAIL.size]
            of_generation, position, number, count, *values = _TAIL.unpack(record)
            if of_generation == generation and _CHECKSUM.unpack_from(data, at + _TAIL.size)[0] == zlib.crc32(record):
                seals = [Seal(*values[index : index + 3]) for index in range(0, 3 * count, 3)]
                tails.append(Tail(position, number, tuple(seals)))
        return tails


def _data(entries: Entries, start: int) -> bytes:
    """Return the bytes of the entries from an index on."""
    data = array("q", bytes(_ENTRY_BYTES * (len(entries) - start)))
    data[0::2], data[1::2] = entries.positions[start:], entries.numbers[start:]
    if sys.byteorder == "big":
        data.byteswap()
    return data.tobytes()
