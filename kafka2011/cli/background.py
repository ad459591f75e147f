"""A command that goes on in the background: started, waited for until it is ready, found again and stopped.

What runs holds a lock in its directory, and says in a file there what it is, once it is ready.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

from kafka2011.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

_POLL_S = 0.05
_START_TIMEOUT_S = 180.0
_STOP_TIMEOUT_S = 90.0


class Background:
    """What runs in the background for one directory, at most once."""

    def __init__(self, directory: Path, name: str) -> None:
        self.log = directory / f"{name}.log"
        self._name = name
        self._document = directory / f"{name}.json"
        self._lock = directory / f"{name}.lock"

    def start(self, arguments: Sequence[str]) -> dict[str, Any]:
        """Run the command line `kafka2011` detached, and return what it says of itself once it is ready.

        Raises KafkaError if it runs already, ends, or is not ready in time.
        """
        self._lock.parent.mkdir(parents=True, exist_ok=True)
        with self._locked():
            self._document.unlink(missing_ok=True)
        with self.log.open("w") as log:
            process = subprocess.Popen(  # noqa: S603 (our own command line)
                [sys.executable, "-m", "kafka2011", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            return self._await_ready(process)
        except BaseException:
            process.terminate()
            process.wait()
            raise

    def _await_ready(self, process: subprocess.Popen[bytes]) -> dict[str, Any]:
        deadline_s = time.monotonic() + _START_TIMEOUT_S
        while (document := self._read()) is None:
            if process.poll() is not None:
                last = (self.log.read_text(errors="replace").splitlines() or ["it said nothing"])[-1]
                raise KafkaError(f"the {self._name} ended with status {process.returncode}, see {self.log}: {last}")
            if time.monotonic() > deadline_s:
                raise KafkaError(f"the {self._name} is not ready after {_START_TIMEOUT_S:g} s, see {self.log}")
            time.sleep(_POLL_S)
        return document

    @contextlib.contextmanager
    def running(self) -> Iterator[Callable[[dict[str, Any]], None]]:
        """Be what runs in this block; call what it gives once all is ready, with what others may know of it.

        Raises KafkaError if something runs already.
        """
        with self._locked():
            try:
                yield self._tell
            finally:
                self._document.unlink(missing_ok=True)

    def _tell(self, document: dict[str, Any]) -> None:
        new = self._document.with_suffix(".new")
        new.write_text(json.dumps({"pid": os.getpid(), **document}), encoding="utf-8")
        new.replace(self._document)

    def stop(self) -> dict[str, Any]:
        """Stop what runs, in order, and wait for its end; return what it said of itself.

        Raises KafkaError if nothing runs, or it does not end in time.
        """
        document = self._read()
        if document is None or not self._is_locked():
            raise KafkaError(f"no {self._name} runs in the background of {self._lock.parent}")
        with contextlib.suppress(ProcessLookupError):  # it has ended just now
            process = os.pidfd_open(int(document["pid"]))
            try:
                signal.pidfd_send_signal(process, signal.SIGTERM)
                if not select.select([process], [], [], _STOP_TIMEOUT_S)[0]:
                    raise KafkaError(f"the {self._name}, process {document['pid']}, has not ended: see {self.log}")
            finally:
                os.close(process)
        return document

    def _read(self) -> dict[str, Any] | None:
        try:
            document: dict[str, Any] = json.loads(self._document.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        return document

    def _is_locked(self) -> bool:
        try:
            with self._locked():
                return False
        except KafkaError:
            return True

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        with self._lock.open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise KafkaError(f"a {self._name} runs in the background already: see {self._document}") from error
            yield
