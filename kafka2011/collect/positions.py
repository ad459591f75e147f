"""How far each file was confirmed, saved so that neither kill -9 nor a power cut loses it.

`positions.json` has all positions. When only a few of many have changed, a line with these is appended to
`positions.journal` instead; the next `positions.json` includes them, and the journal is deleted.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import secrets
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from kafka2011.collect.names import family_name
from kafka2011.disk import SYSTEM_DISK
from kafka2011.errors import KafkaError
from kafka2011.json_document import read_document

if TYPE_CHECKING:
    from os import stat_result
    from pathlib import Path

    from kafka2011.disk import Disk

logger = logging.getLogger(__name__)

FILE_NAME = "positions.json"
JOURNAL_NAME = "positions.journal"
LOCK_NAME = "lock"
_VERSION = 1
_FEW = 1 / 16
"""Up to this share of all positions goes to the journal, as long as that does not get longer than all of them."""


class CollectStateError(KafkaError):
    """The directory with the collector's positions cannot be used; the text names the path."""


class FileKey(NamedTuple):
    """A file's identity, which stays the same when it is renamed."""

    device: int
    inode: int

    def __str__(self) -> str:
        return f"{self.device}:{self.inode}"

    @classmethod
    def of(cls, status: stat_result) -> FileKey:
        """Take it from what stat(2) says."""
        return cls(status.st_dev, status.st_ino)


class CountedBytes(StrEnum):
    """What positions in a file count: bytes of the file, or of its content once that is unpacked."""

    FILE = "file"
    UNPACKED = "unpacked"
    UNKNOWN = ""


@dataclass(slots=True)
class FilePosition:
    """How far one file was read and confirmed.

    `watched` is the path it was found at; `position` the byte after the last confirmed line, and `fingerprint` stands
    for the bytes before it (see `content.fingerprint`). `sent_position` is how far it was read when this was saved,
    `size_bytes` and `modified_ns` what was last seen of the file; where that is compressed, all but the time are those
    of its content. `origin` is the file that this content was in before it was copied or compressed. `counted` says
    which bytes position and size count; states of 0.2.0 do not say it.
    """

    key: FileKey
    watched: str
    position: int = 0
    fingerprint: str = ""
    sent_position: int = 0
    size_bytes: int = 0
    modified_ns: int = 0
    origin: str = ""
    counted: CountedBytes = CountedBytes.UNKNOWN


@dataclass
class Positions:
    """All positions, and how far the spool was confirmed (`spool_offset`), kept in `directory` for one topic.

    Call `note` after changing a position, so that a save takes time only for changes. `id` is the collector's, made
    with the directory; `instances` are its processes from which the audit may still expect reports. Only one
    collector at a time may use a directory. Raises CollectStateError.
    """

    directory: Path
    topic: str
    disk: Disk = SYSTEM_DISK
    files: dict[FileKey, FilePosition] = field(default_factory=dict, init=False)
    spool_offset: int = field(default=0, init=False)
    id: str = field(default="", init=False)
    instances: list[str] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self._by_path: dict[str, dict[FileKey, FilePosition]] = {}
        self._relatives: dict[tuple[str, str], dict[str, None]] = {}  # paths of rotated files of one log
        self._changed: set[FileKey] = set()
        self._journalled = 0  # how many positions the journal has
        self._saves_all = True  # everything must be rewritten
        self._saved_offset = 0
        self._saved_instances: list[str] = []
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            self._lock_fd = os.open(self.directory / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise CollectStateError(f"cannot use {self.directory}: {error.strerror}") from error
        try:
            fcntl.flock(self._lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._load()
            if not self.id:
                self.id = secrets.token_hex(16)
                self._saves_all = True
                self.save()  # before anything is sent that names the id
        except BlockingIOError as error:
            os.close(self._lock_fd)
            raise CollectStateError(f"another collector uses {self.directory}") from error
        except OSError as error:
            os.close(self._lock_fd)
            raise CollectStateError(f"cannot use {self.directory}: {error.strerror}") from error
        except BaseException:
            os.close(self._lock_fd)
            raise

    @property
    def path(self) -> Path:
        """The file that positions are saved in."""
        return self.directory / FILE_NAME

    def of(self, path: str) -> dict[FileKey, FilePosition]:
        """Return the positions of all files that had a path."""
        return dict(self._by_path.get(path, ()))

    @property
    def paths(self) -> list[str]:
        """Every path that a file was found at."""
        return list(self._by_path)

    def relatives(self, path: str) -> list[FilePosition]:
        """Return the positions of files with paths that rotated files of one log may have, this path's own too."""
        paths = self._relatives.get(_family(path), ())
        return [position for relative in paths for position in self._by_path[relative].values()]

    def add(self, position: FilePosition) -> FilePosition:
        """Add a position, replacing any for the same file; returns it."""
        self.remove(position.key)
        self.files[position.key] = position
        if position.watched not in self._by_path:
            self._by_path[position.watched] = {}
            self._relatives.setdefault(_family(position.watched), {})[position.watched] = None
        self._by_path[position.watched][position.key] = position
        self.note(position)
        return position

    def remove(self, key: FileKey) -> None:
        """Remove a file's position."""
        position = self.files.pop(key, None)
        if position is None:
            return
        self._changed.add(key)
        siblings = self._by_path[position.watched]
        del siblings[key]
        if not siblings:
            del self._by_path[position.watched]
            family = _family(position.watched)
            del self._relatives[family][position.watched]
            if not self._relatives[family]:
                del self._relatives[family]

    def move(self, position: FilePosition, key: FileKey, *, is_packed: bool = False) -> None:
        """Note that a file's content is now in another file, compressed or not."""
        if self.files.get(position.key) is position:
            self.remove(position.key)
        position.origin = position.origin or str(position.key)
        position.key = key
        position.counted = CountedBytes.UNPACKED if is_packed else CountedBytes.FILE
        self.add(position)

    def note(self, position: FilePosition) -> None:
        """Note that a position has changed."""
        self._changed.add(position.key)

    def save(self, *, whole: bool = False) -> bool:
        """Save changes durably; False if there are none. Raises OSError, and keeps the old ones.

        With `whole`, no journal is left.
        """
        self._saves_all |= self.instances != self._saved_instances
        is_same = not self._changed and self.spool_offset == self._saved_offset
        if is_same and not self._saves_all and not (whole and self._journalled):
            return False
        count = len(self._changed)
        is_few = count <= len(self.files) * _FEW and self._journalled + count <= len(self.files)
        offset = self.spool_offset
        if is_few and not whole and not self._saves_all:
            self._saves_all = True  # unless the whole line was written
            self._append()
            self._journalled += max(count, 1)
        else:
            self._saves_all = True
            self._write()
            self._journalled = 0
        self._saves_all = False
        self._changed.clear()
        self._saved_offset, self._saved_instances = offset, list(self.instances)
        return True

    def close(self) -> None:
        """Release the directory for another collector; saves nothing. May be called twice."""
        if self._lock_fd >= 0:
            os.close(self._lock_fd)
            self._lock_fd = -1

    def _write(self) -> None:
        new = self.path.with_suffix(".new")
        with self.disk.replacing(self.path, new) as file:
            file.write(self._written())
        if self._journal.exists():  # it now holds only what is in the other file too
            self._journal.unlink()
            self.disk.fsync_directory(self.directory)

    def _append(self) -> None:
        line = {
            "spool_offset": self.spool_offset,
            "files": [asdict(self.files[key]) for key in self._changed if key in self.files],
            "gone": [key for key in self._changed if key not in self.files],
        }
        with self._journal.open("ab") as file:
            is_new = not file.tell()
            file.write(json.dumps(line).encode() + b"\n")
            file.flush()
            self.disk.fsync(file.fileno())
        if is_new:
            self.disk.fsync_directory(self.directory)

    @property
    def _journal(self) -> Path:
        return self.directory / JOURNAL_NAME

    def _written(self) -> bytes:
        document = {
            "version": _VERSION,
            "topic": self.topic,
            "id": self.id,
            "instances": self.instances,
            "spool_offset": self.spool_offset,
            "files": [asdict(position) for position in self.files.values()],
        }
        return json.dumps(document, indent=1).encode()

    def _load(self) -> None:
        data = self._read(self.path)
        if data is None:
            return
        complaint = f"{self.path} does not hold positions, and without it files are sent again from their start"
        topic = read_document(data, self._take, CollectStateError, complaint, version=_VERSION)
        if topic != self.topic:
            raise CollectStateError(f"{self.path} has positions for topic {topic}, not {self.topic}")
        journal = self._read(self._journal)
        if journal is None:
            self._saves_all = False
            self._changed.clear()
            self._saved_offset, self._saved_instances = self.spool_offset, list(self.instances)
        else:
            self._take_in(journal)

    def _take(self, document: dict[str, Any]) -> object:
        """Take over what was saved, and return for which topic it was."""
        for entry in document["files"]:
            self.add(_file_position(entry))
        self.spool_offset = int(document["spool_offset"])
        self.id = str(document.get("id", ""))
        self.instances = [str(instance) for instance in document.get("instances", [])]
        return document["topic"]

    def _take_in(self, journal: bytes) -> None:
        """Apply a journal; a last line that cannot be read is from an unfinished save."""
        lines = journal.splitlines()
        for number, line in enumerate(lines, 1):
            try:
                changes = json.loads(line)
                offset, gone = int(changes["spool_offset"]), [FileKey(*key) for key in changes["gone"]]
                positions = [_file_position(entry) for entry in changes["files"]]
            except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
                if number == len(lines):
                    return
                raise CollectStateError(
                    f"line {number} of {self._journal} does not hold positions ({error});"
                    " without that file, more may be sent again"
                ) from error
            self.spool_offset = offset
            for position in positions:
                self.add(position)
            for key in gone:
                self.remove(key)

    @staticmethod
    def _read(path: Path) -> bytes | None:
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise CollectStateError(f"cannot read {path}: {error.strerror}") from error


def _family(path: str) -> tuple[str, str]:
    directory, name = os.path.split(path)
    return directory, family_name(name)


def _file_position(saved: dict[str, Any]) -> FilePosition:
    device, inode = saved["key"]
    return FilePosition(
        FileKey(int(device), int(inode)),
        str(saved["watched"]),
        int(saved["position"]),
        str(saved["fingerprint"]),
        int(saved["sent_position"]),
        int(saved["size_bytes"]),
        int(saved["modified_ns"]),
        str(saved.get("origin", "")),
        CountedBytes(saved.get("counted", "")),
    )
