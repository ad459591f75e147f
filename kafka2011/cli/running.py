"""What runs for a directory, once at most: it holds a lock there, and a file says what it is."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from typing import TYPE_CHECKING, Any

from kafka2011.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


class RunningOnce:
    """The lock `{name}.lock` and the document `{name}.json` of a directory; `what` says what runs where, in errors."""

    def __init__(self, directory: Path, name: str, what: str) -> None:
        self.directory = directory
        self._what = what
        self._document = directory / f"{name}.json"
        self._lock = directory / f"{name}.lock"

    @contextlib.contextmanager
    def running(self) -> Iterator[Callable[[dict[str, Any]], None]]:
        """Be what runs in this block; call what it gives with what others may know, as often as that changes.

        Raises KafkaError if something runs already.
        """
        with self.locked():
            try:
                yield self._tell
            finally:
                self._document.unlink(missing_ok=True)

    def _tell(self, document: dict[str, Any]) -> None:
        new = self._document.with_suffix(".new")
        new.write_text(json.dumps({"pid": os.getpid(), **document}), encoding="utf-8")
        new.replace(self._document)

    def forget(self) -> None:
        """Remove what something that was killed has left. Raises KafkaError if it runs."""
        with self.locked():
            self._document.unlink(missing_ok=True)

    def document(self) -> dict[str, Any]:
        """Return what the one that runs says of itself, with its `pid`. Raises KafkaError if nothing runs."""
        document = self.read()
        if document is None or not self._is_locked():
            raise KafkaError(f"no {self._what} {self.directory}")
        return document

    def read(self) -> dict[str, Any] | None:
        """Return what was said last, whether it runs or not; None if nothing was."""
        try:
            document: dict[str, Any] = json.loads(self._document.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        return document

    def _is_locked(self) -> bool:
        try:
            with self.locked():
                return False
        except KafkaError:
            return True

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock in this block. Raises KafkaError if another process does."""
        with self._lock.open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise KafkaError(f"a {self._what} {self.directory} already: see {self._document.name} there") from error
            yield
