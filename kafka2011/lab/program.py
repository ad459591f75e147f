"""Starts a student's program within limits, and ends all of it, whatever it does.

A program has its own session, limits on processor time and file sizes, and a watchdog for memory, processes, output
and data. Everything that it starts inherits a mark in its environment, by which it is found and killed in the end.
"""

from __future__ import annotations

import contextlib
import os
import resource
import secrets
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING

from kafka2011.lab.errors import LabError, WrongError
from kafka2011.printable import printable
from zk import child_exec

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SETTINGS_FILE = "lab.toml"
BUILD_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 5.0
MOST_OUTPUT_BYTES = 1024 * 1024
MOST_MEMORY_BYTES = 2 * 1024**3
MOST_DATA_BYTES = 256 * 1024**2
MOST_FILE_BYTES = 64 * 1024**2
MOST_PROCESSES = 64
MOST_CPU_S = 60
_MARK = "RUN_OF_KAFKA2011_LAB"  # a broker of this project takes what begins with KAFKA2011_ for a setting
_WATCH_S = 0.2
_LAST_WORDS = 2000
_LAST_LINES = 24
"""Of Node.js, Java and Rust the reason stands above the lines of the stack."""
_KILL_ROUNDS = 50
_ENDED = "ZX"
"""States of processes that only wait for their parent to notice."""


@dataclass(frozen=True)
class StudentProgram:
    """What lab.toml says: how the program of a folder is built and started."""

    folder: Path
    command: tuple[str, ...]
    build_command: tuple[str, ...] = ()
    starts: list[str] = field(default_factory=list, compare=False)
    """How it was started, each time."""

    @classmethod
    def read(cls, folder: Path) -> StudentProgram:
        """Read lab.toml. Raises LabError, which says what is wrong with it."""
        path = folder / SETTINGS_FILE
        try:
            values = tomllib.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise LabError(f"{path} does not exist: `kafka2011 lab start FOLDER` writes one") from None
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise LabError(f"cannot read {path}: {error}") from error
        if "command" not in values:
            raise LabError(
                f'{path} has no command yet: it starts your program, such as command = ["python3", "main.py"]'
            )
        command, build = values["command"], values.get("build", [])
        for name, words in (("command", command), ("build", build)):
            if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
                raise LabError(f'{path}: {name} must be a list of texts, such as ["python3", "main.py"]')
        if not command:
            raise LabError(f"{path}: command is empty")
        return cls(folder.resolve(), tuple(command), tuple(build))

    def build(self) -> None:
        """Run the build command, if there is one. Raises LabError with the compiler's words."""
        if not self.build_command:
            return
        run = ProgramRun(self.build_command, self.folder, watched=None, is_limited=False)
        try:
            with contextlib.suppress(subprocess.TimeoutExpired):
                run.process.wait(BUILD_TIMEOUT_S)
            status = run.process.poll()
        finally:
            run.end()
        words = " ".join(self.build_command)
        if status is None:
            raise LabError(f"`{words}` took longer than {BUILD_TIMEOUT_S:g} s")
        if status:
            raise LabError(f"`{words}` ended with status {status}: {run.last_words()}")

    def shown(self, arguments: Sequence[str]) -> str:
        """Return the command with arguments, as one types it."""
        return shlex.join([*self.command, *arguments])

    def start(
        self,
        arguments: Sequence[str],
        data: Path | None = None,
        stdin: bytes | None = None,
        prefix: Sequence[str] = (),
    ) -> ProgramRun:
        """Start the program with arguments; `data` is the directory that it may fill. Raises WrongError.

        `prefix` is a command that becomes the program.
        """
        self.starts.append(self.shown(arguments))
        return ProgramRun((*prefix, *self.command, *arguments), self.folder, watched=data, stdin=stdin)


@dataclass
class _Output:
    """The beginning of what a program writes to one of its pipes, and how much it was in all."""

    kept: bytearray = field(default_factory=bytearray)
    total: int = 0
    ended: threading.Event = field(default_factory=threading.Event)

    def read(self, pipe: IO[bytes]) -> None:
        """Read until the end, and keep a bounded part."""
        with contextlib.suppress(OSError, ValueError):
            while data := os.read(pipe.fileno(), 65536):
                self.total += len(data)
                self.kept += data[: MOST_OUTPUT_BYTES - len(self.kept)]
        self.ended.set()


class ProgramRun:
    """One run of a program; `end` kills it and all that it has started. `killed` says why the watchdog killed it.

    `watched` is a directory that may only hold so much. A compiler is not limited, except in what it prints.
    """

    def __init__(
        self,
        command: Sequence[str],
        folder: Path,
        *,
        watched: Path | None,
        stdin: bytes | None = None,
        is_limited: bool = True,
    ) -> None:
        self.killed = ""
        self._mark = secrets.token_hex(8)
        self._watched = watched
        if _found(command[0], folder) is None:
            is_there = "/" in command[0] and (folder / command[0]).is_file()
            why = f"{command[0]!r} may not be executed" if is_there else f"there is no command {command[0]!r}"
            raise WrongError(f"Your program cannot be started: {why} ({SETTINGS_FILE}).")
        self.process = subprocess.Popen(  # noqa: S603 - the student's own program, which is the purpose
            [sys.executable, "-I", "-S", child_exec.__file__, str(os.getpid()), *command],
            cwd=folder,
            env={**os.environ, _MARK: self._mark},
            stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self._is_limited = is_limited
        if is_limited:
            self._limit()
        self._stdout, self._stderr = _Output(), _Output()
        for output, pipe in ((self._stdout, self.process.stdout), (self._stderr, self.process.stderr)):
            assert pipe is not None
            threading.Thread(target=output.read, args=(pipe,), daemon=True).start()
        if stdin is not None:
            threading.Thread(target=self._feed, args=(stdin,), daemon=True).start()
        self._over = threading.Event()
        self._watchdog = threading.Thread(target=self._watch, daemon=True)
        self._watchdog.start()

    @property
    def running(self) -> bool:
        """Whether the program has not ended."""
        return self.process.poll() is None

    @property
    def has_written(self) -> bool:
        """Whether anything has come from the program's outputs."""
        return self._stdout.total + self._stderr.total > 0

    def output(self) -> bytes:
        """Return what the program has written to its standard output, its first MiB."""
        return bytes(self._stdout.kept)

    def last_words(self) -> str:
        """Return the end of what the program wrote: first its standard error. Several lines are indented."""
        self._stderr.ended.wait(0.2 if not self.running else 0)
        kept = bytes(self._stderr.kept or self._stdout.kept)
        if not kept.strip():
            return "(it wrote nothing)"
        if b"\0" in kept:
            return f"({len(kept)} bytes that are no text)"
        words = kept[-_LAST_WORDS:].decode("utf-8", "replace").strip()
        lines = [printable(line) for line in words.splitlines()[-_LAST_LINES:]]
        return lines[0] if len(lines) == 1 else "".join(f"\n    {line}".rstrip() for line in lines)

    def describe_end(self) -> str:
        """Return a sentence on how the program ended; empty while it runs."""
        if self.killed:
            return self.killed
        status = self.process.poll()
        if status is None:
            return ""
        if status < 0:
            with contextlib.suppress(ValueError):
                name = signal.Signals(-status).name
                return f"Your program was ended by {name}. Its last words: {self.last_words()}"
        return f"Your program ended with status {status}. Its last words: {self.last_words()}"

    def wait(self, timeout_s: float) -> bytes:
        """Wait for the program's end and return its standard output. Raises WrongError if it does not end."""
        try:
            self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            what = f"Your program did not end within {timeout_s:g} s."
            raise WrongError(what, came=self.output(), note=self.last_words()) from None
        self._stdout.ended.wait(1)
        if self.killed:
            raise WrongError(self.killed)
        return self.output()

    def signal(self, number: int) -> None:
        """Send the program a signal; nothing if it has ended."""
        with contextlib.suppress(OSError):
            self.process.send_signal(number)

    def stop(self) -> None:
        """End the program with SIGTERM. Raises WrongError if it does not end in time."""
        self.signal(signal.SIGTERM)
        try:
            self.process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise WrongError(f"Your program did not end within {STOP_TIMEOUT_S:g} s after SIGTERM.") from None
        finally:
            self.end()

    def end(self) -> None:
        """Kill the program and everything that it has started (SIGKILL); may be called twice."""
        self._over.set()
        self._kill_all()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(STOP_TIMEOUT_S)
        for output, pipe in ((self._stdout, self.process.stdout), (self._stderr, self.process.stderr)):
            assert pipe is not None
            if output.ended.wait(1):
                pipe.close()
        self._watchdog.join(1)

    def _limit(self) -> None:
        for kind, most in (
            (resource.RLIMIT_CPU, MOST_CPU_S),
            (resource.RLIMIT_FSIZE, MOST_FILE_BYTES),
            (resource.RLIMIT_CORE, 0),
        ):
            with contextlib.suppress(OSError, ValueError):  # it has ended
                resource.prlimit(self.process.pid, kind, (most, most))

    def _feed(self, stdin: bytes) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(OSError, ValueError), self.process.stdin as pipe:
            pipe.write(stdin)

    def _kill_all(self) -> None:
        """Kill the program's group, and what has left it but still has the mark, until nothing is left."""
        with contextlib.suppress(OSError):
            os.killpg(self.process.pid, signal.SIGKILL)
        for _ in range(_KILL_ROUNDS):
            left = list(_started_by(self.process.pid, self._mark))
            for pid, _ in left:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            if not left:
                return
            time.sleep(0.01)

    def _watch(self) -> None:
        while not self._over.wait(_WATCH_S):
            if reason := self._excess():
                self.killed = reason
                self._kill_all()
                return

    def _excess(self) -> str:
        if max(self._stdout.total, self._stderr.total) > MOST_OUTPUT_BYTES:
            return f"Your program was stopped: it wrote more than {MOST_OUTPUT_BYTES >> 20} MiB to its output."
        if not self._is_limited:
            return ""
        processes = list(_started_by(self.process.pid, self._mark))
        if len(processes) > MOST_PROCESSES:
            return f"Your program was stopped: it started more than {MOST_PROCESSES} processes."
        if sum(rss for _, rss in processes) > MOST_MEMORY_BYTES:
            return f"Your program was stopped: it used more than {MOST_MEMORY_BYTES / 2**30:g} GiB of memory."
        if self._watched is not None and _bytes_in(self._watched) > MOST_DATA_BYTES:
            return f"Your program was stopped: it wrote more than {MOST_DATA_BYTES >> 20} MiB into its data directory."
        return ""


def _found(command: str, folder: Path) -> str | None:
    return shutil.which(str(folder / command) if "/" in command and not command.startswith("/") else command)


def _started_by(session: int, mark: str) -> Iterator[tuple[int, int]]:
    """Yield process id and resident bytes of each process that is in a session or has inherited a mark."""
    page = resource.getpagesize()
    wanted = f"{_MARK}={mark}".encode()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            state, _, _, its_session, *fields = _fields_of(process)
            is_ours = int(its_session) == session or wanted in (process / "environ").read_bytes()
            if is_ours and state not in _ENDED:
                yield int(process.name), int(fields[17]) * page


def _fields_of(process: Path) -> list[str]:
    """Return the fields of /proc/PID/stat behind the command, which may have any characters."""
    return (process / "stat").read_text(errors="replace").rpartition(")")[2].split()


def _bytes_in(directory: Path) -> int:
    total = 0
    for parent, _, names in os.walk(directory):
        for name in names:
            with contextlib.suppress(OSError):
                total += (Path(parent) / name).lstat().st_size
    return total
