"""Where a stage tries a program: it starts it, sends bytes, and compares what comes with what is right."""

from __future__ import annotations

import contextlib
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from kafka2011.lab.connection import ANSWER_TIMEOUT_S, ReceivedBytes, TimedConnection, connect_when_ready
from kafka2011.lab.drawing import explain_answer, explain_difference
from kafka2011.lab.errors import SkippedError, WrongError
from kafka2011.lab.model_broker import ModelBroker
from kafka2011.lab.paper import NONE
from kafka2011.lab.requests import BARRIER, BARRIER_ANSWER
from kafka2011.wire.protocol import FETCH, MULTIFETCH, OFFSETS
from zk.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from kafka2011.lab.paper import Sentence
    from kafka2011.lab.program import ProgramRun, StudentProgram

RUN_TIMEOUT_S = 5.0
_POLL_S = 0.01
_SETTLE_S = 0.5
_MOST_FILES = 12
_READS = {type_.to_bytes(2, "big") for type_ in (FETCH, MULTIFETCH, OFFSETS)}


class Bench:
    """Tries one program in one stage. `directory` is for its data; `deadline_s` ends the stage (monotonic clock)."""

    def __init__(self, program: StudentProgram, directory: Path, deadline_s: float) -> None:
        self.program = program
        self.directory = directory
        self.passed: list[str] = []
        self.skipped: list[str] = []
        self.title = "The program starts"
        self.sentence = NONE
        self._deadline_s = deadline_s
        self._brokers = 0

    @contextmanager
    def check(self, title: str, sentence: Sentence) -> Iterator[None]:
        """Name what is tried next; a WrongError inside belongs to it. Raises WrongError when the time is over."""
        self.title, self.sentence = title, sentence
        if time.monotonic() > self._deadline_s:
            raise WrongError("The time limit of the stage is over: your program answers too slowly.")
        try:
            yield
        except SkippedError as reason:
            self.skipped.append(f"{title}: {reason}")
        else:
            self.passed.append(title)

    @contextmanager
    def broker(self, **settings: int) -> Iterator[BrokerUnderTest]:
        """Provide the student's broker with a new data directory, not started yet, and end it afterwards."""
        self._brokers += 1
        named = {name.replace("_", "-"): value for name, value in settings.items()}
        broker = BrokerUnderTest(self.program, self.directory / str(self._brokers), named)
        try:
            yield broker
        except WrongError as error:
            broker.describe(error)
            raise
        finally:
            broker.close()

    def run(self, *arguments: str, stdin: bytes) -> bytes:
        """Run the program to its end and return its standard output. Raises WrongError."""
        run = self.program.start(arguments, stdin=stdin)
        try:
            output = run.wait(RUN_TIMEOUT_S)
            if run.process.returncode:
                raise WrongError(run.describe_end(), sent=stdin)
            return output
        finally:
            run.end()

    def compare_output(self, *arguments: str, stdin: bytes, wanted: bytes) -> None:
        """Run the program to its end and compare its standard output. Raises WrongError."""
        came = self.run(*arguments, stdin=stdin)
        if came != wanted:
            what = explain_difference(wanted, came)
            raise WrongError(what, sent=stdin, wanted=wanted, came=came)


class BrokerUnderTest:
    """A student's broker, and beside it the model broker, which says what each answer should be."""

    def __init__(self, program: StudentProgram, directory: Path, settings: Mapping[str, int]) -> None:
        self.data = directory / "data"
        self.data.mkdir(parents=True)
        self._program = program
        self._settings = dict(settings)
        self._model_data = directory / "model"
        self._model_data.mkdir()
        self._model: ModelBroker | None = None
        self._model_stack = ExitStack()
        self._port = 0
        self._run: ProgramRun | None = None

    @property
    def port(self) -> int:
        """The port of the last start."""
        return self._port

    @property
    def run(self) -> ProgramRun:
        """The program's process."""
        assert self._run is not None
        return self._run

    @property
    def model(self) -> ModelBroker:
        """The model broker."""
        assert self._model is not None
        return self._model

    def plant(self, log: str, segments: Mapping[int, bytes], model: Mapping[int, bytes] | None = None) -> None:
        """Write segment files into a log's directory before a start; `model` are the files as they should become."""
        for directory, files in ((self.data, segments), (self._model_data, segments if model is None else model)):
            (directory / log).mkdir()
            for start, content in files.items():
                (directory / log / f"{start:020}.kafka").write_bytes(content)

    def start(self, prefix: Sequence[str] = (), **changed: int) -> None:
        """Start the program and wait until it listens; `changed` are settings from now on. Raises WrongError.

        `prefix` is a command that becomes the program.
        """
        self._settings |= {name.replace("_", "-"): value for name, value in changed.items()}
        if self._model is None:
            self._model = self._model_stack.enter_context(ModelBroker(self._model_data, self._settings))
        self._port = free_port()
        settings = [f"{name}={value}" for name, value in self._settings.items()]
        arguments = ["broker", f"port={self._port}", f"data={self.data}", *settings]
        self._run = self._program.start(arguments, self.data, prefix=prefix)
        connection = connect_when_ready(self._port, lambda: self.run.running)
        if connection is None:
            what = self._run.describe_end() or f"Your program does not listen on port {self._port} of 127.0.0.1."
            raise WrongError(what, note="" if not self._run.running else self._run.last_words())
        connection.close()

    def stop(self) -> None:
        """End the program with SIGTERM. Raises WrongError if it does not end."""
        self.run.stop()

    def kill(self) -> None:
        """End the program with kill -9."""
        self.run.end()

    def close(self) -> None:
        """Kill whatever runs; may be called twice."""
        if self._run is not None:
            self._run.end()
        self._model_stack.close()

    def describe(self, error: WrongError) -> None:
        """Add to an error what the broker has written, and the files in its data directory."""
        if self._run is None or error.files:
            return
        error.files = _listed(self.data)
        if self._run.running and self._run.has_written:
            error.note = error.note or self._run.last_words()

    def ask(self, sent: bytes) -> None:
        """Send requests on a new connection, and compare the answer with the model's. Raises WrongError."""
        self.expect(sent, self.model.answer(sent))

    def put(self, *requests: bytes) -> None:
        """Send requests that have no answer, and a barrier after them, which proves that they were handled."""
        self.ask(b"".join(requests) + BARRIER)

    def expect(self, sent: bytes, wanted: bytes | None) -> None:
        """Send requests on a new connection, and compare the answer; None: the connection is closed instead.

        A single request that only reads is sent again for a moment: a broker may flush in the background.
        """
        if wanted is not None and _only_reads(sent):
            self.expect_soon(sent, wanted, _SETTLE_S)
        else:
            self._expect_now(sent, wanted)

    def _expect_now(self, sent: bytes, wanted: bytes | None) -> None:
        with self.connect() as connection:
            connection.send(sent)
            self.compare(connection, sent, wanted)

    def compare(self, connection: TimedConnection, sent: bytes, wanted: bytes | None) -> None:
        """Read an answer from a connection and compare it. `sent` is shown. Raises WrongError."""
        if wanted is None:
            answer = connection.read(1)
            if answer.is_closed and not answer.data:
                self._expect_to_go_on(sent)
                return
            came = answer.data + connection.read_more()
            what = "Your program answered." if came else f"The connection is still open after {ANSWER_TIMEOUT_S:g} s."
            raise self._wrong(f"{what} It should close the connection without an answer.", sent, None, came)
        answer = connection.read_while(wanted)
        if answer.data == wanted:
            return
        came = answer.data + connection.read_more()
        raise self._wrong(_missing(answer, wanted) or explain_answer(wanted, came), sent, wanted, came)

    def _expect_to_go_on(self, sent: bytes) -> None:
        """Make sure that a connection was closed, and not the program ended."""
        with contextlib.suppress(WrongError), self.connect() as connection:
            connection.send(BARRIER)
            if connection.read(len(BARRIER_ANSWER)).data == BARRIER_ANSWER:
                return
        wait_until(lambda: not self.run.running, _SETTLE_S)
        what = "The connection was closed, but your program does not serve a new one."
        raise WrongError(f"{what} {self.run.describe_end()}".strip(), sent=sent)

    def expect_only(self, sent: bytes, wanted: bytes) -> None:
        """Do as `expect`, and make sure that nothing comes after the answer. Raises WrongError."""
        with self.connect() as connection:
            connection.send(sent)
            self.compare(connection, sent, wanted)
            connection.end_requests()
            if more := connection.read_more():
                came = wanted + more
                raise self._wrong(explain_difference(wanted, came), sent, wanted, came)

    def expect_soon(self, sent: bytes, wanted: bytes, timeout_s: float) -> None:
        """Send a request again and again until the answer is right. Raises WrongError when the time is over."""
        deadline_s = time.monotonic() + timeout_s
        while True:
            try:
                return self._expect_now(sent, wanted)
            except WrongError:
                if time.monotonic() > deadline_s:
                    raise
            time.sleep(_POLL_S)

    def expect_one_of(self, sent: bytes, answers: Sequence[bytes]) -> None:
        """Do as `expect` with a request that only reads and has several right answers. Raises WrongError."""

        def is_right() -> bool:
            with self.connect() as connection:
                connection.send(sent)
                return connection.read(len(answers[0])).data in answers

        if not wait_until(is_right, _SETTLE_S):
            self._expect_now(sent, answers[0])

    def connect(self) -> TimedConnection:
        """Return a new connection. Raises WrongError when nobody listens any more."""
        try:
            return TimedConnection(self._port)
        except OSError:
            raise WrongError(self.run.describe_end() or "Your program no longer accepts connections.") from None

    def expect_files(self, log: str, wanted: Mapping[int, bytes], timeout_s: float = 0) -> None:
        """Compare the segment files of a log, which may take a while to become so. Raises WrongError."""
        names = {f"{start:020}.kafka": content for start, content in wanted.items()}
        wait_until(lambda: self._segments(log) == names, timeout_s)
        found = self._segments(log)
        if found.keys() != names.keys():
            listed = ", ".join(sorted(found)) or "none"
            raise WrongError(f"{log} should have the files {', '.join(sorted(names))}. It has: {listed}.")
        for name, content in names.items():
            if found[name] != content:
                what = f"The file {log}/{name} is wrong. {explain_difference(content, found[name])}"
                raise WrongError(what, wanted=content, came=found[name])

    def expect_nothing_new(self, topic: str) -> None:
        """Look where a topic leads that is a path: nothing is to be there. Raises WrongError."""
        log = self.data / f"{topic}-0"
        for path in (log, log.parent):
            if path.exists() and path.resolve() not in {self.data.resolve(), self.data.parent.resolve()}:
                raise WrongError(f"The topic {topic!r} has become a path: {path.resolve()} was made.")

    def _segments(self, log: str) -> dict[str, bytes]:
        directory = self.data / log
        found = {}
        for path in directory.glob("*.kafka") if directory.is_dir() else ():
            try:
                found[path.name] = path.read_bytes()
            except OSError:  # deleted meanwhile
                continue
        return found

    def _wrong(self, what: str, sent: bytes, wanted: bytes | None, came: bytes) -> WrongError:
        end = self.run.describe_end()
        return WrongError(f"{what} {end}".strip(), sent=sent, wanted=wanted, came=came)


def wait_until(condition: Callable[[], bool], timeout_s: float) -> bool:
    """Wait until a condition holds, and say whether it does when the time is over."""
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline_s:
            return False
        time.sleep(_POLL_S)
    return True


def _listed(directory: Path) -> tuple[str, ...]:
    """Return the files of a directory with their sizes, if they are few the whole list."""
    found = []
    for path in sorted(directory.rglob("*")):
        with contextlib.suppress(OSError):  # deleted meanwhile
            if path.is_file():
                found.append(f"{path.relative_to(directory)} ({path.stat().st_size} bytes)")
    more = len(found) - _MOST_FILES
    return (*found[:_MOST_FILES], f"and {more} more") if more > 0 else tuple(found)


def _only_reads(sent: bytes) -> bool:
    """Say whether these bytes are one request, and it is no produce."""
    return len(sent) == 4 + int.from_bytes(sent[:4], "big") and sent[4:6] in _READS


def _missing(answer: ReceivedBytes, wanted: bytes) -> str:
    """Return a sentence if all is right so far, but bytes are missing; else nothing."""
    if not wanted.startswith(answer.data):
        return ""
    how = "closed the connection" if answer.is_closed else f"sent nothing more for {ANSWER_TIMEOUT_S:g} s"
    return f"Your program {how} after {len(answer.data)} of {len(wanted)} bytes."
