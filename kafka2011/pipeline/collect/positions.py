"""How far each file was confirmed, saved so that neither kill -9 nor a power cut loses it."""

from __future__ import annotations

import fcntl
import json
import logging
import os
import secrets
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from kafka2011.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable
    from os import stat_result
    from pathlib import Path

logger = logging.getLogger(__name__)

FILE_NAME = "positions.json"
LOCK_NAME = "lock"
_VERSION = 1


class CollectStateError(KafkaError):
    """The directory with the collector's positions cannot be used; the text names the path."""


class FileKey(NamedTuple):
    """What stays the same when a file is renamed."""

    device: int
    inode: int

    @classmethod
    def of(cls, status: stat_result) -> FileKey:
        """Take it from what stat(2) says."""
        return cls(status.st_dev, status.st_ino)


@dataclass(slots=True)
class FilePosition:
    """How far one file was read and confirmed.

    `watched` is the path it was found at; `position` the byte after the last confirmed line, and `fingerprint` stands
    for the bytes before it (see `tail.fingerprint`). `sent_position` is how far it was read when this was saved,
    `size_bytes` and `modified_ns` what was last seen of the file.
    """

    key: FileKey
    watched: str
    position: int = 0
    fingerprint: str = ""
    sent_position: int = 0
    size_bytes: int = 0
    modified_ns: int = 0


@dataclass
class Positions:
    """All of them, and how far the spool was confirmed (`spool_offset`), kept in `directory` for one topic.

    `id` is that of the collector, made when the directory was. Only one collector at a time may use a directory.
    Raises CollectStateError.
    """

    directory: Path
    topic: str
    fsync: Callable[[int], None] = os.fsync
    files: dict[FileKey, FilePosition] = field(default_factory=dict, init=False)
    spool_offset: int = field(default=0, init=False)
    id: str = field(default="", init=False)

    def __post_init__(self) -> None:
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            self._lock_fd = os.open(self.directory / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise CollectStateError(f"cannot use {self.directory}: {error.strerror}") from error
        try:
            fcntl.flock(self._lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._saved = self._load()
            if not self.id:
                self.id = secrets.token_hex(16)
                self.save()  # before anything is sent that names it
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
        """Where they are saved."""
        return self.directory / FILE_NAME

    def save(self) -> bool:
        """Save what has changed, at once and for good; False if nothing has. Raises OSError, and keeps the old ones."""
        data = self._written()
        if data == self._saved:
            return False
        new = self.path.with_suffix(".new")
        with new.open("wb") as file:
            file.write(data)
            file.flush()
            self.fsync(file.fileno())
        new.replace(self.path)
        directory_fd = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self.fsync(directory_fd)
        finally:
            os.close(directory_fd)
        self._saved = data
        return True

    def close(self) -> None:
        """Let another collector have the directory; nothing is saved. May be called twice."""
        if self._lock_fd >= 0:
            os.close(self._lock_fd)
            self._lock_fd = -1

    def _written(self) -> bytes:
        document = {
            "version": _VERSION,
            "topic": self.topic,
            "id": self.id,
            "spool_offset": self.spool_offset,
            "files": [asdict(each) for each in self.files.values()],
        }
        return json.dumps(document, indent=1).encode()

    def _load(self) -> bytes:
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise CollectStateError(f"cannot read {self.path}: {error.strerror}") from error
        try:
            document = json.loads(data)
            topic = document["topic"]
            if document["version"] != _VERSION:
                raise ValueError(f"its version is {document['version']}")  # noqa: TRY301
            self.files = {each.key: each for each in map(_file_position, document["files"])}
            self.spool_offset = int(document["spool_offset"])
            self.id = str(document.get("id", ""))
        except (ValueError, KeyError, TypeError) as error:
            raise CollectStateError(
                f"{self.path} does not hold positions ({error}); without it, files are sent again from their start"
            ) from error
        if topic != self.topic:
            raise CollectStateError(f"{self.path} has positions for topic {topic}, not {self.topic}")
        return data


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
    )
