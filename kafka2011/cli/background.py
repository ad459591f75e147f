"""A command that goes on in the background: started, waited for until it is ready, found again and stopped.

What runs holds a lock in its directory, and says in a file there what it is, once it is ready.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

from kafka2011.cli.running import RunningOnce
from kafka2011.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

_POLL_S = 0.05
_START_TIMEOUT_S = 180.0
_STOP_TIMEOUT_S = 90.0


class Background:
    """What runs in the background for one directory, at most once."""

    def __init__(self, directory: Path, name: str) -> None:
        self.log = directory / f"{name}.log"
        self._name = name
        self._directory = directory
        self._running = RunningOnce(directory, name, f"{name} runs in the background of")

    def start(self, arguments: Sequence[str]) -> dict[str, Any]:
        """Run the command line `kafka2011` detached, and return what it says of itself once it is ready.

        Raises KafkaError if it runs already, ends, or is not ready in time.
        """
        self._directory.mkdir(parents=True, exist_ok=True)
        self._running.forget()
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
        while (document := self._running.read()) is None:
            if process.poll() is not None:
                last = (self.log.read_text(errors="replace").splitlines() or ["it said nothing"])[-1]
                raise KafkaError(f"the {self._name} ended with status {process.returncode}, see {self.log}: {last}")
            if time.monotonic() > deadline_s:
                raise KafkaError(f"the {self._name} is not ready after {_START_TIMEOUT_S:g} s, see {self.log}")
            time.sleep(_POLL_S)
        return document

    def running(self) -> contextlib.AbstractContextManager[Callable[[dict[str, Any]], None]]:
        """Be what runs in this block; call what it gives once all is ready, with what others may know of it.

        Raises KafkaError if something runs already.
        """
        return self._running.running()

    def document(self) -> dict[str, Any]:
        """Return what the one that runs said of itself. Raises KafkaError if nothing runs."""
        return self._running.document()

    def stop(self) -> dict[str, Any]:
        """Stop what runs, in order, and wait for its end; return what it said of itself.

        Raises KafkaError if nothing runs, or it does not end in time.
        """
        document = self.document()
        with contextlib.suppress(ProcessLookupError):  # it has ended just now
            process = os.pidfd_open(int(document["pid"]))
            try:
                signal.pidfd_send_signal(process, signal.SIGTERM)
                if not select.select([process], [], [], _STOP_TIMEOUT_S)[0]:
                    raise KafkaError(f"the {self._name}, process {document['pid']}, has not ended: see {self.log}")
            finally:
                os.close(process)
        return document
