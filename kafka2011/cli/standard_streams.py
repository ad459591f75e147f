"""Standard input, output and error of a command: closed ones, full ones, and pipes that nobody reads any more.

A program may be started without them (`>&-`). The next file or socket that it opens then takes their number, and what
is meant for a terminal ends up in a log. So a closed one is opened again, in a way in which its use fails: the error
says what is missing, and commands that do not use it run.
"""

from __future__ import annotations

import contextlib
import errno
import io
import logging
import os
import select
import sys
import threading
from typing import TYPE_CHECKING, Any, NoReturn

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

logger = logging.getLogger(__name__)

EXIT_BROKEN_PIPE = 141
"""Exit status that a shell reports for a program that SIGPIPE ended."""

_STDIN, _STDOUT, _STDERR = 0, 1, 2

_NAMES = {_STDIN: "standard input", _STDOUT: "standard output"}


class _NamedFile(io.FileIO):
    """Standard input or output, whose errors say which of them failed."""

    def readinto(self, buffer: Any) -> int | None:
        with self._named_errors():
            return super().readinto(buffer)

    def readall(self) -> bytes:
        with self._named_errors():
            return super().readall()

    def write(self, data: Any) -> int:
        with self._named_errors():
            return super().write(data)

    @contextlib.contextmanager
    def _named_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            error.filename = _NAMES[self.fileno()]
            if error.errno == errno.EBADF:
                error.strerror = "it is closed"
            raise


def open_standard_streams() -> None:
    """Open the standard streams that are closed, and let errors of input and output name them.

    Reading a closed input and writing to a closed output fail with EBADF; what is written to a closed error is lost.
    """
    for descriptor, mode in ((_STDIN, os.O_WRONLY), (_STDOUT, os.O_RDONLY), (_STDERR, os.O_WRONLY)):
        try:
            os.fstat(descriptor)
        except OSError:
            opened = os.open(os.devnull, mode)  # the lowest free number, which is this one
            if opened != descriptor:
                os.dup2(opened, descriptor)
                os.close(opened)
            os.set_inheritable(descriptor, True)
    sys.stdin = _text(_STDIN, sys.stdin)
    sys.stdout = _text(_STDOUT, sys.stdout)
    if sys.stderr is None:
        sys.stderr = open(_STDERR, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115


def _text(descriptor: int, former: Any) -> io.TextIOWrapper:
    """Return a text stream of a descriptor with the encoding of the former one, which Python had opened."""
    is_input = descriptor == _STDIN
    raw = _NamedFile(descriptor, "r" if is_input else "w", closefd=False)
    raw.name = "<stdin>" if is_input else "<stdout>"  # as Python calls its own
    is_terminal = raw.isatty()
    return io.TextIOWrapper(
        io.BufferedReader(raw) if is_input else io.BufferedWriter(raw),
        encoding=getattr(former, "encoding", "utf-8"),
        errors=getattr(former, "errors", "strict"),
        line_buffering=is_terminal and not is_input,
        write_through=getattr(former, "write_through", False),
    )


def announce(line: str) -> None:
    """Print a line about a server that has started, which goes on where standard output is closed or full."""
    try:
        click.echo(line)
    except BrokenPipeError:
        raise
    except OSError as error:
        logger.debug("not printed, %s: %s", error, line)
        close_output()


def close_output() -> OSError | None:
    """Write what standard output still holds, and return the error if that fails, after which output goes nowhere.

    The interpreter would try again at its end, and print a traceback.
    """
    try:
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), _STDOUT)
        return error
    return None


@contextlib.contextmanager
def watched_reader(on_gone: Callable[[], None]) -> Iterator[None]:
    """Call a function once nobody reads standard output any more, as after `| head -1`, while this block runs.

    A writer that waits for something else would notice only at its next write. Nothing but pipes and sockets is
    watched. The function is called in another thread.
    """
    woken, wake = os.pipe()
    poll = select.poll()
    poll.register(_STDOUT, 0)  # POLLERR and POLLHUP are always reported
    poll.register(woken, select.POLLIN)

    def watch() -> None:
        ready = dict(poll.poll())
        if woken not in ready and ready.get(_STDOUT, 0) & select.POLLERR:
            on_gone()

    watcher = threading.Thread(target=watch, name="reader of standard output", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        os.write(wake, b"x")
        watcher.join()
        os.close(woken)
        os.close(wake)


def end_without_reader() -> NoReturn:
    """End this process at once, with the status of a program that SIGPIPE ended."""
    os._exit(EXIT_BROKEN_PIPE)
