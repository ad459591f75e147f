"""The file `replica` in a log.dir: what a replica knows of itself, on disk before it acts on it."""

from __future__ import annotations

import errno
import secrets
from typing import TYPE_CHECKING

from kafka2011.disk import SYSTEM_DISK, is_replaced_file
from kafka2011.replica.known import Known
from kafka2011.replica.state import Replica, ReplicaStateError

if TYPE_CHECKING:
    from pathlib import Path

    from kafka2011.disk import Disk

FILE_NAME = "replica"
_DISK_ID_BYTES = 12


_PASSING = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN})
"""What the process, or the machine, may lack for a moment; the disk has nothing to do with it."""


class NotStoredNowError(ReplicaStateError):
    """What a replica knows cannot be written now, and may be later; until then it must not act on it."""


class KnownFile:
    """Reads and writes the file."""

    def __init__(self, log_dir: Path, disk: Disk = SYSTEM_DISK) -> None:
        self._path = log_dir / FILE_NAME
        self._disk = disk

    def load(self) -> Known | None:
        """Return what it says; None without one. Raises ReplicaStateError if it is damaged, and OSError."""
        try:
            text = self._path.read_bytes()
        except FileNotFoundError:
            return None
        return Known.of(text, str(self._path))

    def load_or_begin(self, name: str) -> Known:
        """Return what it says of a replica of this name; begin it with a new disk's id where there is none.

        A disk goes on under another name: what counts is what is on it.
        """
        known = self.load()
        if known is None:
            known = Known(Replica(name, secrets.token_hex(_DISK_ID_BYTES)))
            self.store(known)
        return known.named(name)

    def store(self, known: Known) -> None:
        """Write it whole, and bring it to disk.

        Raises NotStoredNowError if the process lacks something for a moment, and ReplicaStateError if the disk does not
        take it.
        """
        try:
            with self._disk.replacing(self._path) as file:
                file.write(known.text.encode())
        except OSError as error:
            kind = NotStoredNowError if error.errno in _PASSING else ReplicaStateError
            raise kind(f"{self._path} cannot be written: {error.strerror}") from error


def is_known_file(name: str) -> bool:
    """Say whether a file in log.dir is that of a replica."""
    return is_replaced_file(name, FILE_NAME)
